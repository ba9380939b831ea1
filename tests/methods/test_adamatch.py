import math

import pytest
import torch
from torch import Tensor

from fewlabel.methods import Step
from fewlabel.methods.adamatch import AdaMatch
from fewlabel.networks import Output
from tests.gradients import assert_gradient
from tests.methods.steps import BATCH, CLASSES, STEPS, answers, make_step
from tests.references.losses import cross_entropy
from tests.references.matching import adamatch, assert_matches, assert_no_gradient

NAMES = ["labelled", "weak", "strong"]
Rows = list[list[float]]


def make(index: int, scale: float = 2.0) -> tuple[Step, dict[str, Output], Tensor]:
    """A step, what the network says, and what it says of the labelled images without the others in the batch."""
    step, out = make_step(index), answers(NAMES, scale=scale, labelled=2 * BATCH)
    alone = answers(["labelled"], seed=1, scale=scale, labelled=2 * BATCH)["labelled"]

    def forward(images: Tensor) -> Output:
        assert torch.equal(images, AdaMatch().inputs(step)["labelled"])
        return alone

    step.forward = forward  # type: ignore[assignment, method-assign]
    return step, out, alone.logits


def shares(labelled_term: Tensor, joint: Tensor, alone: Tensor) -> Tensor:
    """Of the joint logits: as z = share * joint + (1 - share) * alone, the gradients of the two show it."""
    of_joint, of_alone = torch.autograd.grad(labelled_term, (joint, alone), retain_graph=True)
    return of_joint / (of_joint + of_alone)


@pytest.mark.parametrize("index", [0, 10, 24, 25, 40])  # before, in and after the ramp over half the run
@pytest.mark.parametrize(("threshold", "kept"), [(0.0, "all"), (0.9, "some"), (3.0, "none")])
def test_loss_and_gradients(index: int, threshold: float, kept: str) -> None:
    step, out, alone = make(index)
    joint = out["labelled"].logits
    terms = AdaMatch(threshold, weight=2.0).loss(step, out)
    assert set(terms) == {"labelled", "unlabelled"}
    share, labels = shares(terms["labelled"], joint, alone).tolist(), step.labels.tolist()

    def between(joint: Rows, alone: Rows) -> Rows:
        return [
            [s * a + (1 - s) * b for s, a, b in zip(*rows, strict=True)]
            for rows in zip(share, joint, alone, strict=True)
        ]

    def labelled(joint: Rows, alone: Rows) -> float:
        rows = between(joint, alone)
        return cross_entropy(rows[:BATCH], labels) + cross_entropy(rows[BATCH:], labels)

    assert terms["labelled"].item() == pytest.approx(labelled(joint.tolist(), alone.tolist()))
    assert_gradient(terms["labelled"], joint, lambda x: labelled(x, alone.tolist()))
    assert_gradient(terms["labelled"], alone, lambda x: labelled(joint.tolist(), x))

    guess = adamatch(between(joint.tolist(), alone.tolist())[:BATCH], out["weak"].logits.tolist(), threshold)
    given = math.sin(math.pi * index / STEPS) ** 2 if 2 * index < STEPS else 1.0
    assert guess.how_many == kept
    assert_matches(step, out, {"unlabelled": terms["unlabelled"]}, guess, 2.0 * given)
    assert_no_gradient(terms["unlabelled"], joint, alone)


def test_every_logit_has_its_own_share_of_the_two_passes() -> None:
    drawn = []
    for index in (3, 3, 4):
        step, out, alone = make(index, scale=0.5)
        drawn.append(shares(AdaMatch().loss(step, out)["labelled"], out["labelled"].logits, alone))
    first, again, other = drawn
    torch.testing.assert_close(first, again)
    assert first.min() >= 0 and first.max() <= 1
    assert first.min() < 0.2 and first.max() > 0.8
    assert len({round(x, 6) for x in (*first.flatten().tolist(), *other.flatten().tolist())}) == 4 * BATCH * CLASSES


def test_the_first_pass_is_joint_and_the_second_of_the_labelled_views_alone() -> None:
    step, method = make_step(), AdaMatch()
    inputs = method.inputs(step)
    assert list(inputs) == NAMES
    assert torch.equal(inputs["labelled"], torch.cat([step.labelled, step.view("strong", of="labelled")]))
    assert inputs["weak"] is step.weak
    assert inputs["strong"] is step.strong
    assert (method.threshold, method.weight) == (0.9, 1.0)


def test_a_guess_just_as_confident_as_the_labelled_ones_is_kept() -> None:
    """All classes are equally probable, of labelled and of unlabelled images."""
    for threshold, kept in ((1.0, True), (1.0 + 1e-9, False)):
        step, out, _ = make(3, scale=0.0)
        AdaMatch(threshold=threshold).double().loss(step, out)
        assert step.records["kept"].tolist() == [kept] * len(step.weak)
