import pytest

from fewlabel.methods.pseudo_label import PseudoLabel
from tests.gradients import assert_gradient
from tests.methods.steps import answers, make_step
from tests.references import consistency, losses


@pytest.mark.parametrize(("threshold", "some", "every"), [(0.0, True, True), (0.8, True, False), (1.1, False, False)])
@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradient(index: int, ramp: int, given: float, threshold: float, some: bool, every: bool) -> None:
    """The guess is a fixed target of the very view that it was made on."""
    step, out = make_step(index), answers(["labelled", "weak"])
    labelled, weak = (out[name].logits for name in ("labelled", "weak"))
    terms = PseudoLabel(threshold, weight=3.0, ramp=ramp).loss(step, out)
    expected, guesses, kept = losses.fixmatch(weak.tolist(), weak.tolist(), threshold)
    assert (any(kept), all(kept)) == (some, every)
    assert set(terms) == {"labelled", "unlabelled"}
    assert terms["labelled"].item() == pytest.approx(losses.cross_entropy(labelled.tolist(), step.labels.tolist()))
    assert terms["unlabelled"].item() == pytest.approx(3.0 * given * expected, abs=1e-12)
    assert_gradient(terms["labelled"], labelled, lambda x: losses.cross_entropy(x, step.labels.tolist()))
    assert_gradient(terms["unlabelled"], weak, lambda x: 3.0 * given * losses.fixmatch(weak.tolist(), x, threshold)[0])
    assert step.records["pseudo_labels"].tolist() == guesses
    assert step.records["kept"].tolist() == kept


def test_views() -> None:
    step = make_step(1)
    inputs = PseudoLabel().inputs(step)
    assert set(inputs) == {"labelled", "weak"}
    assert inputs["labelled"] is step.labelled
    assert inputs["weak"] is step.weak
