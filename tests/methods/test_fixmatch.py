import copy

import pytest
import torch

from fewlabel.methods import make_method
from fewlabel.methods.fixmatch import FixMatch
from tests.gradients import assert_gradient
from tests.methods.steps import CLASSES, answers, make_problem, make_step
from tests.references import losses as reference


@pytest.mark.parametrize("threshold", [0.0, 0.8, 0.95, 1.1])  # all kept, some kept, none kept
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_loss_and_gradient(threshold: float, weight: float) -> None:
    method = FixMatch(threshold, weight)
    method.build(make_problem())
    step, out = make_step(), answers(["labelled", "weak", "strong"])
    terms = method.loss(step, out)
    labelled, weak, strong = (out[name].logits for name in ("labelled", "weak", "strong"))
    expected, guesses, kept = reference.fixmatch(weak.tolist(), strong.tolist(), threshold)
    assert set(terms) == {"labelled", "unlabelled"}
    assert terms["labelled"].item() == pytest.approx(reference.cross_entropy(labelled.tolist(), step.labels.tolist()))
    assert terms["unlabelled"].item() == pytest.approx(weight * expected, abs=1e-12)
    assert step.records["pseudo_labels"].tolist() == guesses
    assert step.records["kept"].tolist() == kept
    assert_gradient(terms["labelled"], labelled, lambda x: reference.cross_entropy(x, step.labels.tolist()))
    assert_gradient(terms["unlabelled"], strong, lambda x: weight * reference.fixmatch(weak.tolist(), x, threshold)[0])
    (through_guess,) = torch.autograd.grad(terms["unlabelled"], weak, allow_unused=True)
    assert through_guess is None  # a pseudo-label is a target, not a variable


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_alignment_divides_by_the_running_mean(power: float) -> None:
    """The mean of the first step is its own; the second moves it half-way (1 / n), later ones by 1 in 100."""
    method = FixMatch(threshold=0.6, align=power)
    method.build(make_problem())
    method.double()
    mean: list[float] = []
    for index, rate in ((0, 1.0), (1, 0.5), (2, 1 / 3), (40, 1 / 41), (400, 0.01)):
        out = answers(["labelled", "weak", "strong"], seed=index)
        weak, strong = out["weak"].logits, out["strong"].logits
        rows = [reference.softmax(row) for row in weak.tolist()]
        batch_mean = [sum(row[c] for row in rows) / len(rows) for c in range(CLASSES)]
        mean = [m + rate * (b - m) for m, b in zip(mean or batch_mean, batch_mean, strict=True)]
        divided = [[x / m**power for x, m in zip(row, mean, strict=True)] for row in rows]
        guesses = torch.tensor([[x / sum(row) for x in row] for row in divided], dtype=torch.float64)
        assert torch.allclose(copy.deepcopy(method).predictions(make_step(index), weak), guesses)
        terms = method.loss(make_step(index), out)
        expected, _, _ = reference.fixmatch(weak.tolist(), strong.tolist(), 0.6, [value**power for value in mean])
        assert method.mean_prediction.tolist() == pytest.approx(mean)
        assert terms["unlabelled"].item() == pytest.approx(expected)


def test_no_alignment_under_the_plain_name() -> None:
    method = make_method("fixmatch")
    assert isinstance(method, FixMatch)
    assert (method.align, method.threshold, method.weight) == (0.0, 0.95, 1.0)


def test_views() -> None:
    step = make_step()
    inputs = FixMatch().inputs(step)
    assert inputs["labelled"] is step.labelled
    assert inputs["weak"] is step.weak
    assert inputs["strong"] is step.strong
