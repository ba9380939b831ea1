from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from fewlabel.methods.remixmatch import ReMixMatch
from fewlabel.networks import Output, make_classifier
from tests.gradients import assert_gradient
from tests.methods.steps import BATCH, CLASSES, MU, answers, make_problem, make_step
from tests.references import consistency, losses

UNLABELLED = MU * BATCH
ROWS = BATCH + 3 * UNLABELLED
QUARTERS = [i % 4 for i in range(UNLABELLED)]  # by how many an image of the batch is turned
Rows = list[list[float]]


def make_remixmatch(labels: list[int], temperature: float = 0.5, beta: float = 0.75, ramp: int = 10) -> ReMixMatch:
    """A method with weights of its own, for a problem with these labels."""
    method = ReMixMatch(1.3, 0.7, 0.4, temperature, beta, ramp)
    method.build(replace(make_problem(), labels=torch.tensor(labels)))
    return method.double()


def make_answers(seed: int = 0) -> tuple[dict[str, Output], Output]:
    """Of the inputs, and of the look at the weak view."""
    mixed = answers(["labelled"], seed=seed, labelled=ROWS)["labelled"]
    others = answers(["strong", "turned", "weak"], seed=seed + 1000)
    return {"mixed": mixed, "strong": others["strong"], "turned": others["turned"]}, others["weak"]


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [0, 0, 0, 0, 1, 1, 2, 3], [0, 1, 2, 2]])  # even, uneven, one without
@pytest.mark.parametrize(("temperature", "beta"), [(0.5, 0.75), (1.0, 0.3)])
@pytest.mark.parametrize(("index", "ramp", "given"), consistency.RAMPS)
def test_loss_and_gradients(
    index: int,
    ramp: int,
    given: float,
    temperature: float,
    beta: float,
    labels: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step, (out, weak) = make_step(index), make_answers()
    monkeypatch.setattr(step, "forward", {step.weak: weak}.__getitem__)
    method = make_remixmatch(labels, temperature, beta, ramp)
    prior = [labels.count(c) / len(labels) for c in range(CLASSES)]
    guesses = consistency.remixmatch_guesses(weak.logits.tolist(), prior, [], temperature)
    known = consistency.one_hot(step.labels.tolist(), CLASSES)
    mix, partner = (draw.tolist() for draw in step.pairs(ROWS, beta, "remixmatch"))
    targets = consistency.mixed(known + 3 * guesses, mix, partner)
    terms = method.loss(step, out)

    def labelled(rows: Rows) -> float:
        return consistency.soft_cross_entropy(rows[:BATCH], targets[:BATCH])

    def unlabelled(rows: Rows) -> float:
        return 1.3 * given * consistency.soft_cross_entropy(rows[BATCH:], targets[BATCH:])

    def unmixed(rows: Rows) -> float:
        return 0.7 * given * consistency.soft_cross_entropy(rows, guesses)

    def rotation(features: Rows, weight: Rows, bias: list[float]) -> float:
        return 0.4 * losses.cross_entropy([consistency.linear(row, weight, bias) for row in features], QUARTERS)

    head = method.turn_head
    weight, bias = head.weight.tolist(), head.bias.tolist()
    turned = out["turned"].features
    cases: list[tuple[str, Tensor, Callable[[Rows], float]]] = [
        ("labelled", out["mixed"].logits, labelled),
        ("unlabelled", out["mixed"].logits, unlabelled),
        ("unmixed", out["strong"].logits, unmixed),
        ("rotation", turned, partial(rotation, weight=weight, bias=bias)),
        ("rotation", head.weight, lambda rows: rotation(turned.tolist(), rows, bias)),
    ]
    assert set(terms) == {"labelled", "unlabelled", "unmixed", "rotation"}
    for name, variable, expected in cases:
        assert terms[name].item() == pytest.approx(expected(variable.tolist()), abs=1e-12)
        assert_gradient(terms[name], variable, expected)
    for term in terms.values():
        assert set(torch.autograd.grad(term, [weak.logits], retain_graph=True, allow_unused=True)) == {None}
    assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in guesses]
    assert step.records["kept"].all()


def test_guesses_are_aligned_by_the_last_128_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queue empty, partly filled, full, and with its oldest batches dropped."""
    labels = [0, 0, 0, 0, 1, 1, 2, 3]
    method, means = make_remixmatch(labels), list[list[float]]()
    for index in range(132):
        step, (out, weak) = make_step(index), make_answers(seed=index)
        weak.logits.data[:, 0] += index / 20  # the predictions drift, so it matters which batches count
        monkeypatch.setattr(step, "forward", {step.weak: weak}.__getitem__)
        guesses = consistency.remixmatch_guesses(weak.logits.tolist(), [0.5, 0.25, 0.125, 0.125], means, 0.5)
        expected = 0.7 * min(1, index / 10) * consistency.soft_cross_entropy(out["strong"].logits.tolist(), guesses)
        assert method.loss(step, out)["unmixed"].item() == pytest.approx(expected, rel=1e-9)
        assert step.records["pseudo_labels"].tolist() == [consistency.best(row) for row in guesses]


def test_real_guesses_carry_no_gradient() -> None:
    network = make_classifier("mlp", (1, 8, 8), CLASSES, projector=False, seed=0)
    terms = make_remixmatch([0, 1, 2, 3], ramp=0).loss(make_step(0, network), make_answers()[0])
    for term in terms.values():
        assert term.item() > 0
        assert set(torch.autograd.grad(term, list(network.parameters()), allow_unused=True)) == {None}


@pytest.mark.parametrize("beta", [0.75, 0.3])
def test_views_are_everything_mixed_with_everything(beta: float) -> None:
    step = make_step(4)
    inputs = ReMixMatch(beta=beta).inputs(step)
    mix, partner = (draw.tolist() for draw in step.pairs(ROWS, beta, "remixmatch"))
    assert set(inputs) == {"mixed", "strong", "turned"}
    assert inputs["strong"] is step.strong
    assert not torch.equal(step.strong, step.view("strong", 1))
    views = (step.view("strong", of="labelled"), step.strong, step.view("strong", 1), step.weak)
    everything = [row for view in views for row in view.flatten(1).tolist()]
    torch.testing.assert_close(inputs["mixed"].flatten(1), torch.tensor(consistency.mixed(everything, mix, partner)))


def test_each_image_is_turned_by_as_many_quarters_as_its_label_says() -> None:
    """The labels of the loss are `QUARTERS` too: 0, 90, 180 and 270 degrees equally often."""
    step = make_step(4)
    turned = ReMixMatch().inputs(step)["turned"]
    for image, result, quarters in zip(step.strong[:, 0].tolist(), turned[:, 0].tolist(), QUARTERS, strict=True):
        for _ in range(quarters):
            image = consistency.quarter_turn(image)
        assert result == image
    assert not torch.equal(turned[1::4], step.strong[1::4])
