import pytest
import torch

from fewlabel.methods.softmatch import SoftMatch
from tests.methods.steps import CLASSES, answers, make_problem, make_step
from tests.references import matching as reference

NAMES = ["labelled", "weak", "strong"]


@pytest.mark.parametrize(
    ("momentum", "sigmas", "scales", "kept"),
    [
        (0.999, 2.0, [2.0, 2.0, 2.0], {"all"}),  # the variance is still near 1
        (0.9, 2.0, [4.0, 4.0, 4.0, 1.0], {"all"}),
        (0.5, 3.0, [4.0, 2.0, 1.0], {"all", "some"}),
        (0.7, 4.0, [20.0] * 9 + [0.1], {"all", "some", "none"}),
    ],
)
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_loss_and_gradients_over_several_steps(
    momentum: float, sigmas: float, scales: list[float], kept: set[str], weight: float
) -> None:
    method, expected = SoftMatch(weight, sigmas, momentum), reference.SoftMatch(CLASSES, sigmas, momentum)
    method.build(make_problem())
    method.double()
    seen = set()
    for index, scale in enumerate(scales):
        step, out = make_step(index), answers(NAMES, seed=index, scale=scale)
        terms = method.loss(step, out)
        guess = expected.guess(out["weak"].logits.tolist())
        seen.add(guess.how_many)
        assert set(terms) == {"labelled", "unlabelled"}
        assert (method.mean.item(), method.variance.item()) == pytest.approx((expected.mean, expected.variance))
        assert method.mean_prediction.tolist() == pytest.approx(expected.prediction)
        reference.assert_matches(step, out, terms, guess, weight)
    assert seen == kept


def test_the_label_is_of_the_unaligned_probabilities() -> None:
    """All guess class 0; aligned to an even distribution, some would be another class."""
    method = SoftMatch(momentum=0.0)
    method.build(make_problem())
    step, out = make_step(), answers(NAMES, scale=0.5)
    with torch.no_grad():
        out["weak"].logits[:, 0] += 5
    method.loss(step, out)
    rows = out["weak"].logits.softmax(1)
    assert step.records["pseudo_labels"].tolist() == [0] * 8
    assert len((rows / rows.mean(0)).argmax(1).unique()) == CLASSES


def test_settings_and_views() -> None:
    step, method = make_step(), SoftMatch()
    inputs = method.inputs(step)
    assert (method.weight, method.sigmas, method.momentum) == (1.0, 2.0, 0.999)
    assert list(inputs) == NAMES
    assert all(a is b for a, b in zip(inputs.values(), (step.labelled, step.weak, step.strong), strict=True))
