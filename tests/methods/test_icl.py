"""ICL in the paper's reading and in its authors'."""

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
    step, method = make_step(3), ICL()
    inputs = method.inputs(step)
    mix, partner = method.draw(step)
    assert list(inputs) == PAPER
    assert inputs["weak"] is step.weak
    assert sorted(partner.tolist()) == list(range(len(step.weak)))
    assert all(j != i for i, j in enumerate(partner.tolist()))
    assert len(set(mix.tolist())) == len(step.weak)  # a lambda for each pair
    assert mix.min() >= 0.5  # Eq. 3: the larger of lambda and 1 - lambda
    for i, (m, j) in enumerate(zip(mix.tolist(), partner.tolist(), strict=True)):
        torch.testing.assert_close(inputs["mixed"][i], m * step.weak[i] + (1 - m) * step.weak[j])


def test_authors_reading_mixes_weak_and_strong_views_with_a_second_batch() -> None:
    step, method = make_step(3), ICL(reading="authors")
    inputs = method.inputs(step)
    mix, _ = method.draw(step)
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
    step = make_step(2)
    expected = step.pairs(len(step.weak), beta, "icl", shared=reading == "authors")
    assert all(map(torch.equal, ICL(beta=beta, reading=reading).draw(step), expected))


Rows = list[list[float]]


@pytest.mark.parametrize("negatives", ["all", "other-class"])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_paper_loss_and_gradients(temperature: float, negatives: Literal["all", "other-class"]) -> None:
    step, out = make_step(1), answers(PAPER)
    method = ICL(weight=0.5, temperature=temperature, negatives=negatives)
    mix, partner = (draw.tolist() for draw in method.draw(step))
    classes = out["weak"].logits.argmax(1).tolist() if negatives == "other-class" else []

    def expected(z: dict[str, Rows]) -> float:
        mix_z = reference.interpolate(z["weak"], [z["weak"][j] for j in partner], mix)
        return 0.5 * reference.interpolation_contrast(mix_z, z["mixed"], z["weak"], temperature, classes)

    check(method.loss(step, out), out, expected)


@pytest.mark.parametrize("negatives", ["all", "other-class"])
def test_authors_loss_and_gradients(negatives: Literal["all", "other-class"]) -> None:
    step, out = make_step(1), answers(AUTHORS)
    method = ICL(weight=0.7, temperature=0.5, reading="authors", negatives=negatives)
    mix = method.draw(step)[0].tolist()
    classes = []
    if negatives == "other-class":
        classes = [k for name in ("weak", "second strong") for k in out[name].logits.argmax(1).tolist()]

    def expected(z: dict[str, Rows]) -> float:
        positives = reference.interpolate(z["weak"], z["second weak"], mix)
        positives += reference.interpolate(z["strong"], z["second strong"], mix)
        rows = z["weak"] + z["second strong"]
        mixed = z["mixed weak"] + z["mixed strong"]
        return 0.7 * reference.interpolation_contrast(positives, mixed, rows, 0.5, classes)

    check(method.loss(step, out), out, expected)


def check(terms: dict[str, Tensor], out: dict[str, Output], expected: Callable[[dict[str, Rows]], float]) -> None:
    """Value, and gradient with respect to every embedding: both sides of the pair and the negatives."""
    embeddings = {name: output.embedding for name, output in out.items() if output.embedding is not None}
    z = {name: embedding.tolist() for name, embedding in embeddings.items()}
    assert list(terms) == ["contrast"]
    assert terms["contrast"].item() == pytest.approx(expected(z), rel=1e-6)
    for name, embedding in embeddings.items():
        assert_gradient(terms["contrast"], embedding, partial(lambda name, x: expected(z | {name: x}), name))
