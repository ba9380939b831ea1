import pytest
import torch

from fewlabel.methods.mean_teacher import MeanTeacher
from fewlabel.networks import make_classifier
from tests.gradients import assert_gradient
from tests.methods.steps import CLASSES, answers, make_step
from tests.references import consistency, losses


@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradient(index: int, ramp: int, given: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The student's logits are of its own view; the teacher is asked about another one, and about nothing else."""
    step, out = make_step(index), answers(["labelled", "weak"])
    labelled, weak = (out[name].logits for name in ("labelled", "weak"))
    teacher = answers(["weak"], seed=1)["weak"]
    monkeypatch.setattr(step, "teacher", {step.view("weak", 1): teacher}.__getitem__)
    targets = [losses.softmax(row) for row in teacher.logits.tolist()]
    terms = MeanTeacher(weight=20.0, ramp=ramp).loss(step, out)

    def expected(rows: list[list[float]]) -> float:
        return 20.0 * given * consistency.squared_error(rows, targets)

    assert set(terms) == {"labelled", "unlabelled"}
    assert terms["labelled"].item() == pytest.approx(losses.cross_entropy(labelled.tolist(), step.labels.tolist()))
    assert terms["unlabelled"].item() == pytest.approx(expected(weak.tolist()), abs=1e-12)
    assert_gradient(terms["labelled"], labelled, lambda x: losses.cross_entropy(x, step.labels.tolist()))
    assert_gradient(terms["unlabelled"], weak, expected)
    assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in targets]
    assert step.records["kept"].all()


def test_no_gradient_reaches_the_teacher() -> None:
    network = make_classifier("mlp", (1, 8, 8), CLASSES, projector=False, seed=0)
    term = MeanTeacher(ramp=0).loss(make_step(0, network), answers(["labelled", "weak"]))["unlabelled"]
    assert term.item() > 0
    assert set(torch.autograd.grad(term, list(network.parameters()), allow_unused=True)) == {None}


def test_views() -> None:
    step = make_step(1)
    inputs = MeanTeacher().inputs(step)
    assert set(inputs) == {"labelled", "weak"}
    assert inputs["labelled"] is step.labelled
    assert inputs["weak"] is step.weak
    assert not torch.equal(step.weak, step.view("weak", 1))
