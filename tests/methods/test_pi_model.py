import pytest
import torch

from fewlabel.methods.pi_model import PiModel
from tests.gradients import assert_gradient
from tests.methods.steps import answers, make_step
from tests.references import consistency, losses


@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradient(index: int, ramp: int, given: float) -> None:
    step, out = make_step(index), answers(["labelled", "weak", "second"])
    labelled, weak, second = (out[name].logits for name in ("labelled", "weak", "second"))
    targets = [losses.softmax(row) for row in weak.tolist()]
    terms = PiModel(weight=7.0, ramp=ramp).loss(step, out)

    def expected(rows: list[list[float]]) -> float:
        return 7.0 * given * consistency.squared_error(rows, targets)

    assert set(terms) == {"labelled", "unlabelled"}
    assert terms["labelled"].item() == pytest.approx(losses.cross_entropy(labelled.tolist(), step.labels.tolist()))
    assert terms["unlabelled"].item() == pytest.approx(expected(second.tolist()), abs=1e-12)
    assert_gradient(terms["labelled"], labelled, lambda x: losses.cross_entropy(x, step.labels.tolist()))
    assert_gradient(terms["unlabelled"], second, expected)
    assert set(torch.autograd.grad(terms["unlabelled"], [weak], allow_unused=True)) == {None}
    assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in targets]
    assert step.records["kept"].all()


def test_views_are_two_independent_weak_ones() -> None:
    step = make_step(1)
    inputs = PiModel().inputs(step)
    assert set(inputs) == {"labelled", "weak", "second"}
    assert inputs["labelled"] is step.labelled
    assert inputs["weak"] is step.weak
    assert inputs["second"] is step.view("weak", 1)
    assert not torch.equal(step.weak, step.view("weak", 1))
