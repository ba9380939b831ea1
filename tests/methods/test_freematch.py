import math
from functools import partial

import pytest
import torch

from fewlabel.methods.freematch import FreeMatch
from tests.gradients import assert_gradient
from tests.methods.steps import CLASSES, answers, make_problem, make_step
from tests.references import matching as reference

NAMES = ["labelled", "weak", "strong"]


@pytest.mark.parametrize(
    ("momentum", "scales", "kept"),
    [
        (0.999, [2.0, 2.0, 2.0], {"all"}),  # the threshold is still near 1 / classes
        (0.9, [4.0, 4.0, 4.0, 1.0], {"all", "some"}),
        (0.5, [20.0] * 5 + [0.1], {"all", "some", "none"}),
        (0.0, [2.0, 0.5], {"some"}),  # no memory
    ],
)
@pytest.mark.parametrize(("weight", "fairness"), [(1.0, 0.001), (3.0, 0.5)])
def test_loss_and_gradients_over_several_steps(
    momentum: float, scales: list[float], kept: set[str], weight: float, fairness: float
) -> None:
    method, expected = FreeMatch(weight, fairness, momentum), reference.FreeMatch(CLASSES, momentum)
    method.build(make_problem())
    method.double()
    seen = set()

    def unfairness(kept: list[bool], strong: list[list[float]]) -> float:
        return fairness * expected.unfairness(strong, kept)

    for index, scale in enumerate(scales):
        step, out = make_step(index), answers(NAMES, seed=index, scale=scale)
        strong = out["strong"].logits
        terms = method.loss(step, out)
        guess = expected.guess(out["weak"].logits.tolist())
        seen.add(guess.how_many)
        assert set(terms) == {"labelled", "unlabelled", "fairness"}
        assert method.mean_confidence.item() == pytest.approx(expected.confidence)
        assert method.mean_prediction.tolist() == pytest.approx(expected.prediction)
        assert method.mean_guess.tolist() == pytest.approx(expected.histogram, abs=1e-12)
        reference.assert_matches(step, out, terms, guess, weight)
        assert terms["fairness"].item() == pytest.approx(unfairness(guess.kept, strong.tolist()), abs=1e-12)
        assert_gradient(terms["fairness"], strong, partial(unfairness, guess.kept))
    assert seen == kept


def test_a_class_that_was_never_guessed_has_no_share_in_fairness() -> None:
    """Its h~ is 0 (here for want of a memory, in a long run once it has decayed to nothing): it is left out."""
    method, expected = FreeMatch(momentum=0.0), reference.FreeMatch(CLASSES, momentum=0.0)
    method.build(make_problem())
    method.double()
    out = answers(NAMES)
    with torch.no_grad():
        out["weak"].logits[:, 0] -= 20
    step, strong = make_step(), out["strong"].logits
    terms = method.loss(step, out)
    kept = expected.guess(out["weak"].logits.tolist()).kept
    assert method.mean_guess[0] == 0
    assert terms["fairness"].item() == pytest.approx(0.001 * expected.unfairness(strong.tolist(), kept))
    assert_gradient(terms["fairness"], strong, lambda x: 0.001 * expected.unfairness(x, kept))


def test_fairness_by_hand() -> None:
    """Four kept views: 1/2 of class 0 and 1/6 of each other one, then the same for classes 1, 2 and 2.

    So p is (1/4, 1/4, 1/3, 1/6) and h (1/4, 1/4, 1/2, 0); p / h is (1, 1, 2/3, -) and adds up to 8/3.
    """
    method = FreeMatch()
    method.build(make_problem())
    rows = torch.full((4, CLASSES), 1 / 6)
    rows[range(4), [0, 1, 2, 2]] = 1 / 2
    found = method.unfairness(rows.log(), torch.ones(4, dtype=torch.bool))
    assert found.item() == pytest.approx((2 * math.log(3 / 8) + math.log(2 / 8)) / 4)  # p~ / h~ is even


def test_settings_and_views() -> None:
    step, method = make_step(), FreeMatch()
    inputs = method.inputs(step)
    assert (method.weight, method.fairness, method.momentum) == (1.0, 0.001, 0.999)
    assert list(inputs) == NAMES
    assert all(a is b for a, b in zip(inputs.values(), (step.labelled, step.weak, step.strong), strict=True))
