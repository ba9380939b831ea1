"""ICL in the paper's reading and in its authors'."""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import pytest
import torch
from torch import Tensor

from fewlabel.methods.icl import ICL
from fewlabel.networks import Output
from tests.gradients import assert_gradient
from tests.methods.steps import answers, make_step
from tests.references import losses as reference

PAPER = ["weak", "mixed"]
AUTHORS = ["weak", "strong", "second weak", "second strong", "mixed weak", "mixed strong"]


def test_paper_reading_mixes_weak_views_within_the_batch() -> None:
    step, method = make_step(3), ICL(share=1.0)
    inputs = method.inputs(step)
    mix, partner = step.pairs(len(step.weak), 0.75, "icl")
    assert list(inputs) == PAPER
    assert inputs["weak"] is step.weak
    assert sorted(partner.tolist()) == list(range(len(step.weak)))
    assert all(j != i for i, j in enumerate(partner.tolist()))
    assert len(set(mix.tolist())) == len(step.weak)  # a lambda for each pair
    assert mix.min() >= 0.5  # Eq. 3: the larger of lambda and 1 - lambda
    for i, (m, j) in enumerate(zip(mix.tolist(), partner.tolist(), strict=True)):
        torch.testing.assert_close(inputs["mixed"][i], m * step.weak[i] + (1 - m) * step.weak[j])


def test_authors_reading_mixes_weak_and_strong_views_with_a_second_batch() -> None:
    step, method = make_step(3), ICL(reading="authors", share=1.0)
    inputs = method.inputs(step)
    mix, _ = step.pairs(len(step.weak), 0.75, "icl", shared=True)
    m = mix[0].item()
    assert list(inputs) == AUTHORS
    assert inputs["weak"] is step.weak
    assert inputs["strong"] is step.strong
    assert set(mix.tolist()) == {m}  # one lambda a step
    assert m >= 0.5
    for kind in ("weak", "strong"):
        first, second = step.view(kind), step.view(kind, of="second")
        assert inputs[f"second {kind}"] is second
        torch.testing.assert_close(inputs[f"mixed {kind}"], m * first + (1 - m) * second)


@pytest.mark.parametrize("reading", ["paper", "authors"])
@pytest.mark.parametrize("beta", [0.2, 3.0])
def test_lambda_is_of_the_beta_that_was_asked_for(beta: float, reading: Literal["paper", "authors"]) -> None:
    """Rows that are 1, mixed with rows that are 0, show lambda."""
    step, ones = make_step(2), torch.ones(8, 1)
    zeros = torch.zeros(8, 1)
    expected, partner = step.pairs(8, beta, "icl", shared=reading == "authors")
    first, second = (torch.arange(8.0)[:, None], torch.arange(8.0)[:, None]) if reading == "paper" else (ones, zeros)
    found = ICL(beta=beta, reading=reading, share=1.0).mix(step, first, second)
    if reading == "paper":
        torch.testing.assert_close(found[:, 0], expected * torch.arange(8) + (1 - expected) * partner)
    else:
        torch.testing.assert_close(found[:, 0], expected)


@pytest.mark.parametrize("reading", ["paper", "authors"])
@pytest.mark.parametrize(("share", "count"), [(1.0, 8), (0.5, 4), (0.3, 2), (0.01, 2)])
def test_a_share_of_the_batch_is_mixed_as_it_would_be_anyway(
    share: float, count: int, reading: Literal["paper", "authors"]
) -> None:
    step = make_step(3)
    whole, part = (ICL(reading=reading, share=one).inputs(step) for one in (1.0, share))
    for name, images in part.items():
        assert torch.equal(images, whole[name][:count] if name.startswith("mixed") else whole[name])


Rows = list[list[float]]


def some_mixed(out: dict[str, Output], count: int) -> dict[str, Output]:
    """The outputs of a network that was given `count` mixes."""
    parts = {name: [c[:count].detach().requires_grad_() for c in row if c is not None] for name, row in out.items()}
    return {name: Output(*parts[name]) if name.startswith("mixed") else row for name, row in out.items()}


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("negatives", ["all", "other-class"])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_paper_loss_and_gradients(temperature: float, negatives: Literal["all", "other-class"], share: float) -> None:
    count = round(8 * share)
    step, out = make_step(1), some_mixed(answers(PAPER), count)
    method = ICL(weight=0.5, temperature=temperature, negatives=negatives, share=share)
    mix, partner = (draw.tolist() for draw in step.pairs(8, 0.75, "icl"))
    classes = out["weak"].logits.argmax(1).tolist() if negatives == "other-class" else []

    def expected(z: dict[str, Rows]) -> float:
        mix_z = reference.interpolate(z["weak"], [z["weak"][j] for j in partner], mix)[:count]
        anchors = range(count)
        return 0.5 * reference.interpolation_contrast(mix_z, z["mixed"], z["weak"], temperature, classes, anchors)

    check(method.loss(step, out), out, expected)


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("negatives", ["all", "other-class"])
def test_authors_loss_and_gradients(negatives: Literal["all", "other-class"], share: float) -> None:
    count = round(8 * share)
    step, out = make_step(1), some_mixed(answers(AUTHORS), count)
    method = ICL(weight=0.7, temperature=0.5, reading="authors", negatives=negatives, share=share)
    mix = step.pairs(8, 0.75, "icl", shared=True)[0].tolist()
    classes = []
    if negatives == "other-class":
        classes = [k for name in ("weak", "second strong") for k in out[name].logits.argmax(1).tolist()]

    def expected(z: dict[str, Rows]) -> float:
        positives = reference.interpolate(z["weak"], z["second weak"], mix)[:count]
        positives += reference.interpolate(z["strong"], z["second strong"], mix)[:count]
        rows = z["weak"] + z["second strong"]
        mixed = z["mixed weak"] + z["mixed strong"]
        anchors = [*range(count), *range(8, 8 + count)]
        return 0.7 * reference.interpolation_contrast(positives, mixed, rows, 0.5, classes, anchors)

    check(method.loss(step, out), out, expected)


def check(terms: dict[str, Tensor], out: dict[str, Output], expected: Callable[[dict[str, Rows]], float]) -> None:
    """Value, and gradient with respect to every embedding: both sides of the pair and the negatives."""
    embeddings = {name: output.embedding for name, output in out.items() if output.embedding is not None}
    z = {name: embedding.tolist() for name, embedding in embeddings.items()}
    assert list(terms) == ["contrast"]
    assert terms["contrast"].item() == pytest.approx(expected(z), rel=1e-6)
    for name, embedding in embeddings.items():
        assert_gradient(terms["contrast"], embedding, partial(lambda name, x: expected(z | {name: x}), name))


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_classes_of_mixes_are_the_mix_of_kept_pseudo_labels(share: float) -> None:
    count = round(8 * share)
    step, out = make_step(1), some_mixed(answers(PAPER), count)
    guess, kept = torch.tensor([0, 1, 2, 3, 0, 1, 1, 2]), torch.tensor([1, 1, 0, 1, 1, 1, 1, 0]).bool()
    step.record(pseudo_labels=guess, kept=kept)
    mix, partner = (draw.tolist() for draw in step.pairs(8, 0.75, "icl"))
    term = ICL(share=share, classes=1.5).loss(step, out)["classes"]

    def expected(logits: Rows) -> float:
        total = 0.0
        for row in range(count):
            if kept[row] and kept[partner[row]]:
                logs = [math.log(p) for p in reference.softmax(logits[row])]
                total -= mix[row] * logs[guess[row]] + (1 - mix[row]) * logs[guess[partner[row]]]
        return 1.5 * total / count

    logits = out["mixed"].logits
    assert sum(bool(kept[row] and kept[partner[row]]) for row in range(count)) in range(1, count)
    assert term.item() == pytest.approx(expected(logits.tolist()), rel=1e-6)
    assert_gradient(term, logits, expected)


def test_classes_of_mixes_need_pseudo_labels_and_the_papers_reading() -> None:
    step = make_step(1)
    assert list(ICL(share=1.0, classes=1.0).loss(step, answers(PAPER))) == ["contrast"]
    step.record(pseudo_labels=torch.zeros(8, dtype=torch.int64))
    assert list(ICL(share=1.0, classes=1.0).loss(step, answers(PAPER))) == ["contrast", "classes"]
    assert list(ICL(share=1.0, classes=1.0, reading="authors").loss(step, answers(AUTHORS))) == ["contrast"]
