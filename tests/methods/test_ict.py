import pytest
import torch

from fewlabel.methods.ict import ICT
from fewlabel.networks import make_classifier
from tests.gradients import assert_gradient
from tests.methods.steps import CLASSES, answers, make_step
from tests.references import consistency, losses


@pytest.mark.parametrize("beta", [0.5, 1.0])
@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradient(index: int, ramp: int, given: float, beta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets are mixed from the teacher's probabilities (not its logits) of the images before mixing."""
    step, out = make_step(index), answers(["labelled", "mixed"])
    labelled, mixed = (out[name].logits for name in ("labelled", "mixed"))
    teacher = answers(["weak"], seed=1)["weak"]
    monkeypatch.setattr(step, "teacher", {step.weak: teacher}.__getitem__)
    mix, partner = (draw.tolist() for draw in step.pairs(len(step.weak), beta, "ict"))
    guesses = [losses.softmax(row) for row in teacher.logits.tolist()]
    targets = consistency.mixed(guesses, mix, partner)
    terms = ICT(weight=30.0, beta=beta, ramp=ramp).loss(step, out)

    def expected(rows: list[list[float]]) -> float:
        return 30.0 * given * consistency.squared_error(rows, targets)

    assert set(terms) == {"labelled", "unlabelled"}
    assert terms["labelled"].item() == pytest.approx(losses.cross_entropy(labelled.tolist(), step.labels.tolist()))
    assert terms["unlabelled"].item() == pytest.approx(expected(mixed.tolist()), abs=1e-12)
    assert_gradient(terms["labelled"], labelled, lambda x: losses.cross_entropy(x, step.labels.tolist()))
    assert_gradient(terms["unlabelled"], mixed, expected)
    assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in guesses]
    assert step.records["kept"].all()


def test_no_gradient_reaches_the_teacher() -> None:
    network = make_classifier("mlp", (1, 8, 8), CLASSES, projector=False, seed=0)
    term = ICT(ramp=0).loss(make_step(0, network), answers(["labelled", "mixed"]))["unlabelled"]
    assert term.item() > 0
    assert set(torch.autograd.grad(term, list(network.parameters()), allow_unused=True)) == {None}


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_views_are_mixed_weak_ones(beta: float) -> None:
    step = make_step(4)
    inputs = ICT(beta=beta).inputs(step)
    mix, partner = (draw.tolist() for draw in step.pairs(len(step.weak), beta, "ict"))
    assert set(inputs) == {"labelled", "mixed"}
    assert inputs["labelled"] is step.labelled
    expected = torch.tensor(consistency.mixed(step.weak.flatten(1).tolist(), mix, partner))
    torch.testing.assert_close(inputs["mixed"].flatten(1), expected)
