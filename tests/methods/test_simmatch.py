from dataclasses import replace
from functools import partial

import pytest
import torch

from fewlabel.methods.simmatch import SimMatch
from tests.gradients import assert_gradient
from tests.methods.steps import CLASSES, FEATURES, answers, make_problem, make_step
from tests.references import matching as reference

NAMES = ["labelled", "weak", "strong"]
POSITIONS = [9, 2, 31, 0, 5, 14, 7, 20]  # of the labelled images, in no order
BATCHES = [[9, 2, 31, 0], [5, 5, 5, 9], [20, 20, 20, 20], [14, 7, 14, 7]]  # with and without repeated images
EPOCH = 5  # steps, in which similarity plays no part
LABELS = {position: 3 * place % CLASSES for place, position in enumerate(POSITIONS)}


def make(**settings: float) -> tuple[SimMatch, reference.SimMatch, reference.Projector]:
    method = SimMatch(**settings)
    torch.manual_seed(0)
    labels = torch.tensor(list(LABELS.values()))
    method.build(replace(make_problem(), labelled=torch.tensor(POSITIONS), labels=labels))
    method.double()
    expected = reference.SimMatch(
        CLASSES,
        POSITIONS,
        list(LABELS.values()),
        method.bank.tolist(),
        method.threshold,
        method.temperature,
        method.smoothing,
        method.momentum,
    )
    return method, expected, reference.Projector(method.projector, slope=0.0)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"threshold": 0.0}, {"all"}),
        ({"threshold": 0.7, "smoothing": 0.8, "momentum": 0.4}, {"some"}),
        ({"threshold": 1.1, "momentum": 0.0}, {"none"}),  # the bank holds the latest embedding
        ({"threshold": 0.6, "weight": 3.0, "similarity": 2.0, "temperature": 0.5}, {"some"}),
    ],
)
def test_loss_and_gradients_over_several_steps(settings: dict[str, float], kept: set[str]) -> None:
    method, expected, project = make(**settings)
    seen = set()

    def similarity(resembled: list[list[float]], features: list[list[float]]) -> float:
        """To the bank as it was before this step's labelled images."""
        rows = [reference.similarities(z, expected.bank, method.temperature) for z in project(features)]
        return method.similarity * reference.matched(rows, resembled)

    for index, batch in enumerate(BATCHES):
        step, out = make_step(EPOCH + index), answers(NAMES, seed=index)
        step.labelled_index, step.labels = torch.tensor(batch), torch.tensor([LABELS[i] for i in batch])
        z = {name: project(output.features.tolist()) for name, output in out.items()}
        terms = method.loss(step, out)
        guess, resembled = expected.guess(out["weak"].logits.tolist(), z["weak"])
        seen.add(guess.how_many)
        assert set(terms) == {"labelled", "unlabelled", "similarity"}
        reference.assert_matches(step, out, terms, guess, method.weight)
        strong = out["strong"].features
        assert terms["similarity"].item() == pytest.approx(similarity(resembled, strong.tolist()))
        if index in (0, 3):
            assert_gradient(terms["similarity"], strong, partial(similarity, resembled))
        reference.assert_no_gradient(terms["similarity"], out["labelled"].features, out["strong"].logits)
        reference.assert_no_gradient(terms["unlabelled"], strong)
        expected.remember(batch, z["labelled"])
        torch.testing.assert_close(method.bank, torch.tensor(expected.bank, dtype=torch.float64))
    assert seen == kept


def test_similarity_plays_no_part_in_the_first_epoch() -> None:
    """40 images in batches of 8. The bank is filled meanwhile."""
    method, expected, project = make(threshold=0.7, smoothing=0.5)
    for index in (0, EPOCH - 1, EPOCH):
        step, out = make_step(index), answers(NAMES, seed=index)
        step.labelled_index = torch.tensor(BATCHES[0])
        weak, z = out["weak"].logits.tolist(), project(out["weak"].features.tolist())
        expected.smoothing = 0.5 if index == EPOCH else 1.0
        terms, before = method.loss(step, out), list(expected.bank)
        guess, _ = expected.guess(weak, z)
        reference.assert_matches(step, out, terms, guess, method.weight)
        assert (terms["similarity"].item() == 0) == (index < EPOCH)
        expected.remember(BATCHES[0], project(out["labelled"].features.tolist()))
        assert expected.bank != before
        torch.testing.assert_close(method.bank, torch.tensor(expected.bank, dtype=torch.float64))


def test_alignment_forgets_after_32_batches() -> None:
    method, expected, project = make(threshold=0.7)
    for index in range(36):
        step, out = make_step(EPOCH + index), answers(NAMES, seed=index)
        step.labelled_index = torch.tensor([1, 1, 1, 1])  # an image that the bank has no place for: it stays as it is
        terms = method.loss(step, out)
        guess, _ = expected.guess(out["weak"].logits.tolist(), project(out["weak"].features.tolist()))
        value = reference.matched(out["strong"].logits.tolist(), guess.targets, guess.counts)
        assert terms["unlabelled"].item() == pytest.approx(value, abs=1e-12)
    assert len(expected.align.means) == 32


def test_settings_bank_projector_and_views() -> None:
    step, (method, _, _) = make_step(), make()
    inputs = method.inputs(step)
    assert (method.threshold, method.temperature, method.smoothing, method.momentum) == (0.95, 0.1, 0.9, 0.7)
    assert (method.weight, method.similarity) == (1.0, 1.0)
    assert list(inputs) == NAMES
    assert all(a is b for a, b in zip(inputs.values(), (step.labelled, step.weak, step.strong), strict=True))
    shapes = [tuple(weights.shape) for weights in method.projector.parameters()]
    assert shapes == [(FEATURES, FEATURES), (FEATURES,), (128, FEATURES), (128,)]
    torch.testing.assert_close(method.bank.norm(dim=1), torch.ones(8, dtype=torch.float64), rtol=0, atol=1e-6)
