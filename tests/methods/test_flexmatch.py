import pytest
import torch

from fewlabel.methods.flexmatch import FlexMatch
from tests.methods.steps import CLASSES, answers, make_problem, make_step
from tests.references import matching as reference

NAMES = ["labelled", "weak", "strong"]


def make(threshold: float = 0.95, weight: float = 1.0) -> tuple[FlexMatch, reference.FlexMatch]:
    method = FlexMatch(threshold, weight)
    method.build(make_problem())
    return method, reference.FlexMatch(CLASSES, make_problem().images, threshold)


@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize(
    ("threshold", "scales"),
    [
        (0.95, [2.0] * 8),  # most images stay unused, so thresholds stay low
        (0.6, [0.3, 4.0, 4.0, 4.0, 4.0, 2.0, 4.0, 2.0]),  # labels of the first epoch are revised in the second
        (0.95, [40.0] * 6 + [0.3] * 4),  # sure of every image, then of none
    ],
)
def test_loss_and_gradients_over_several_steps(threshold: float, scales: list[float], weight: float) -> None:
    method, expected = make(threshold, weight)
    for index, scale in enumerate(scales):
        step, out = make_step(index), answers(NAMES, seed=index, scale=scale)
        assert method.class_thresholds().tolist() == pytest.approx(expected.thresholds())
        terms = method.loss(step, out)
        assert set(terms) == {"labelled", "unlabelled"}
        guess = expected.guess(out["weak"].logits.tolist(), step.unlabelled_index.tolist())
        reference.assert_matches(step, out, terms, guess, weight)


def test_from_all_kept_to_none() -> None:
    """No class is learnt at first, so no guess is too unsure; later all are learnt, and unsure guesses are dropped."""
    method, _ = make()
    kept = []
    for index, scale in enumerate([0.1] + [40.0] * 10 + [2.0, 0.1]):
        step = make_step(index)
        method.loss(step, answers(NAMES, seed=index, scale=scale))
        kept.append(int(step.records["kept"].sum()))
    assert kept[0] == 8
    assert 0 < kept[-2] < 8
    assert kept[-1] == 0


def test_thresholds_by_hand() -> None:
    """Of 40 images 20, 10 and 4 are learnt as classes 0 to 2, and 6 are not used yet: b is 1, 1/2, 1/5 and 0."""
    method, _ = make(threshold=0.9)
    method.latest[:34] = torch.tensor([0] * 20 + [1] * 10 + [2] * 4)
    assert method.class_thresholds().tolist() == pytest.approx([0.9, 0.9 / 3, 0.9 / 9, 0.0])
    method.latest[20:] = -1  # now 20 learnt as class 0, 20 unused
    assert method.class_thresholds().tolist() == pytest.approx([0.9, 0.0, 0.0, 0.0])
    method.latest[10:] = -1  # 30 unused: compared with these
    assert method.class_thresholds().tolist() == pytest.approx([0.9 / 5, 0.0, 0.0, 0.0])


def test_an_unsure_guess_leaves_the_confident_label_of_the_image() -> None:
    method, _ = make()
    step = make_step()
    sure, unsure = (answers(NAMES, scale=scale) for scale in (40.0, 0.1))
    method.loss(step, sure)
    before = method.latest.clone()
    assert before[step.unlabelled_index].tolist() == sure["weak"].logits.argmax(1).tolist()
    assert (before == -1).sum() == 32
    method.loss(step, unsure)
    assert torch.equal(method.latest, before)


@pytest.mark.parametrize("first", [True, False], ids=["the first of the two is sure", "the second is"])
def test_an_image_that_is_twice_in_a_batch_keeps_its_confident_label(first: bool) -> None:
    """As at the end of an epoch, or where the batch is larger than the training set."""
    method, expected = make()
    step, out = make_step(), answers(NAMES, scale=0.1)
    step.unlabelled_index = torch.tensor([7, 1, 2, 3, 4, 5, 6, 7])
    with torch.no_grad():
        out["weak"].logits[0 if first else 7] = torch.tensor([0.0, 9.0, 0.0, 0.0])
    method.loss(step, out)
    expected.guess(out["weak"].logits.tolist(), step.unlabelled_index.tolist())
    assert expected.latest == {7: 1}
    assert method.latest[7] == 1


def test_settings_and_views() -> None:
    step, method = make_step(), FlexMatch()
    inputs = method.inputs(step)
    assert (method.threshold, method.weight) == (0.95, 1.0)
    assert list(inputs) == NAMES
    assert all(a is b for a, b in zip(inputs.values(), (step.labelled, step.weak, step.strong), strict=True))
