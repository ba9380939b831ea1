import pytest
import torch
from torch import Tensor

from fewlabel.methods.mixmatch import MixMatch
from fewlabel.networks import Output, make_classifier
from tests.gradients import assert_gradient
from tests.methods.steps import BATCH, CLASSES, MU, answers, make_step
from tests.references import consistency

ROWS = BATCH + 2 * MU * BATCH
Rows = list[list[float]]


def first_pixels(images: Tensor) -> Output:
    """A network whose logits are pixels, however the images are batched."""
    logits = images.flatten(1)[:, :CLASSES].double() / 50
    return Output(logits, logits, None)


@pytest.mark.parametrize(("temperature", "beta"), [(0.5, 0.75), (1.0, 0.3)])
@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradient(
    index: int, ramp: int, given: float, temperature: float, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, mixed = make_step(index), answers(["labelled"], labelled=ROWS)["labelled"]
    monkeypatch.setattr(step, "forward", first_pixels)
    views = [first_pixels(step.view("weak", n)).logits.tolist() for n in (0, 1)]
    guesses = consistency.mixmatch_guesses(views[0], views[1], temperature)
    known = consistency.one_hot(step.labels.tolist(), CLASSES)
    mix, partner = (draw.tolist() for draw in step.pairs(ROWS, beta, "mixmatch"))
    targets = consistency.mixed(known + guesses + guesses, mix, partner)
    terms = MixMatch(weight=40.0, temperature=temperature, beta=beta, ramp=ramp).loss(step, {"mixed": mixed})

    def labelled(rows: Rows) -> float:
        return consistency.soft_cross_entropy(rows[:BATCH], targets[:BATCH])

    def unlabelled(rows: Rows) -> float:
        return 40.0 * given * consistency.squared_error(rows[BATCH:], targets[BATCH:])

    assert set(terms) == {"labelled", "unlabelled"}
    for name, expected in (("labelled", labelled), ("unlabelled", unlabelled)):
        assert terms[name].item() == pytest.approx(expected(mixed.logits.tolist()), abs=1e-12)
        assert_gradient(terms[name], mixed.logits, expected)
    assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in guesses]
    assert step.records["kept"].all()


def test_guesses_carry_no_gradient() -> None:
    network = make_classifier("mlp", (1, 8, 8), CLASSES, projector=False, seed=0)
    terms = MixMatch(ramp=0).loss(make_step(0, network), {"mixed": answers(["labelled"], labelled=ROWS)["labelled"]})
    for term in terms.values():
        assert term.item() > 0
        assert set(torch.autograd.grad(term, list(network.parameters()), allow_unused=True)) == {None}


@pytest.mark.parametrize("beta", [0.75, 0.3])
def test_views_are_everything_mixed_with_everything(beta: float) -> None:
    step = make_step(4)
    inputs = MixMatch(beta=beta).inputs(step)
    mix, partner = (draw.tolist() for draw in step.pairs(ROWS, beta, "mixmatch"))
    assert set(inputs) == {"mixed"}
    assert not torch.equal(step.weak, step.view("weak", 1))
    everything = [row for view in (step.labelled, step.weak, step.view("weak", 1)) for row in view.flatten(1).tolist()]
    torch.testing.assert_close(inputs["mixed"].flatten(1), torch.tensor(consistency.mixed(everything, mix, partner)))
