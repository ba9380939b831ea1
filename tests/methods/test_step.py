"""What a step offers to every method: pairs to mix, ramps, labels as probabilities."""

import pytest
import torch

from fewlabel.networks import make_classifier
from tests.methods.steps import CLASSES, answers, make_step
from tests.references import consistency as reference


@pytest.mark.parametrize("count", [2, 3, 8, 21])
@pytest.mark.parametrize("index", [0, 7])
def test_pairs(count: int, index: int) -> None:
    """Every row is once the other one, and never its own; it is at least half of its mix."""
    mix, partner = make_step(index).pairs(count, 0.75, "some")
    assert sorted(partner.tolist()) == list(range(count))
    assert all(j != i for i, j in enumerate(partner.tolist()))
    assert len(set(mix.tolist())) == count
    assert 0.5 <= mix.min() and mix.max() <= 1


def test_every_other_row_may_be_the_partner() -> None:
    found = {(i, j) for index in range(60) for i, j in enumerate(make_step(index).pairs(4, 1.0, "some")[1].tolist())}
    assert found == {(i, j) for i in range(4) for j in range(4) if i != j}


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 4.0])
def test_shares_are_of_the_beta_distribution(beta: float) -> None:
    """Beta(a, a) has the variance 1 / (4 (2 a + 1)) about 1/2, whichever of a share and its rest is taken."""
    mix, _ = make_step().pairs(20_000, beta, "some")
    assert (mix - 0.5).square().mean().item() == pytest.approx(1 / (4 * (2 * beta + 1)), rel=0.03)


def test_shared_is_one_share_for_all_rows() -> None:
    steps = [make_step(index).pairs(8, 0.75, "some", shared=True)[0] for index in range(3)]
    assert all(len(mix) == 8 and len(set(mix.tolist())) == 1 for mix in steps)
    assert len({mix[0].item() for mix in steps}) == 3


def test_pairs_are_the_same_at_every_call_and_others_elsewhere() -> None:
    step = make_step(5)
    mix, partner = step.pairs(21, 0.75, "some")
    for other in (make_step(6).pairs(21, 0.75, "some"), step.pairs(21, 0.75, "other")):
        assert not set(mix.tolist()) & set(other[0].tolist())
        assert not torch.equal(partner, other[1])
    for again in (step.pairs(21, 0.75, "some"), make_step(5).pairs(21, 0.75, "some")):  # after draws of others
        assert torch.equal(mix, again[0])
        assert torch.equal(partner, again[1])


def test_images_and_targets_are_mixed_alike() -> None:
    step, targets = make_step(2), answers(["weak"])["weak"].logits.detach().softmax(1)
    mix, partner = (draw.tolist() for draw in step.pairs(len(targets), 0.75, "some"))
    for rows in (step.weak, targets):
        flat = rows.flatten(1)
        expected = torch.tensor(reference.mixed(flat.tolist(), mix, partner), dtype=rows.dtype)
        torch.testing.assert_close(step.mix(rows, 0.75, "some").flatten(1), expected)


@pytest.mark.parametrize(("index", "length", "given"), reference.RAMPS)
def test_ramp(index: int, length: int, given: float) -> None:
    assert make_step(index).ramp(length) == pytest.approx(given)


def test_further_passes_use_batch_statistics_and_leave_the_running_ones() -> None:
    network = make_classifier("cnn", (1, 8, 8), CLASSES, projector=True, seed=0).train()
    step = make_step(0, network)
    running = {name: buffer.clone() for name, buffer in network.named_buffers() if "running" in name}
    found = step.forward(step.weak)
    assert all(torch.equal(buffer, running[name]) for name, buffer in network.named_buffers() if name in running)
    assert torch.equal(found.logits, network(step.weak).logits)
    assert found.logits.requires_grad


def test_the_teacher_is_the_average_and_has_no_gradient() -> None:
    """In evaluation mode, but with batch statistics: the running ones are of other weights."""
    step = make_step()
    teacher = make_classifier("cnn", (1, 8, 8), CLASSES, projector=True, seed=1).train()
    found = step.teacher(step.weak)
    assert not found.logits.requires_grad
    assert torch.equal(found.logits, teacher(step.weak).logits)
    again = step.teacher(step.weak)
    assert torch.equal(again.logits, found.logits)


def test_the_second_batch_is_drawn_by_itself() -> None:
    for index in range(3):
        step = make_step(index)
        second = step.view("weak", of="second")
        assert second.shape == step.weak.shape
        assert not torch.equal(second, step.weak)


def test_one_hot() -> None:
    """As many rows as labels, however many there are in what it must fit."""
    step, like = make_step(3), answers(["weak"])["weak"].logits
    found = step.one_hot(like)
    assert found.tolist() == reference.one_hot(step.labels.tolist(), CLASSES)
    assert found.dtype == like.dtype
    assert not found.requires_grad
