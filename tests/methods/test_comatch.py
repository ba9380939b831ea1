from functools import partial

import pytest
import torch

from fewlabel.methods.comatch import CoMatch
from tests.gradients import assert_gradient
from tests.methods.steps import BATCH, CLASSES, FEATURES, MU, answers, make_problem, make_step
from tests.references import matching as reference

Rows = list[list[float]]
NAMES = ["labelled", "weak", "strong", "second"]


def make(settings: dict[str, float], queue: int = 2) -> tuple[CoMatch, reference.CoMatch, reference.Projector]:
    method = CoMatch(queue=queue, **settings)
    torch.manual_seed(0)
    method.build(make_problem())
    method.double()
    expected = reference.CoMatch(
        CLASSES,
        queue * BATCH * (1 + MU),
        method.threshold,
        method.temperature,
        method.smoothing,
        method.like,
    )
    return method, expected, reference.Projector(method.projector, slope=0.1)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"threshold": 0.0, "like": 0.0}, {"all"}),  # everything is connected
        ({"threshold": 0.9, "like": 0.3, "smoothing": 0.6}, {"some", "none"}),
        ({"threshold": 1.1, "like": 1.0}, {"none"}),  # each only to itself
        ({"threshold": 0.6, "like": 0.5, "weight": 3.0, "graph": 2.0, "temperature": 0.5}, {"some"}),
    ],
)
def test_loss_and_gradients_over_several_steps(settings: dict[str, float], kept: set[str]) -> None:
    """A queue of two batches: empty, half full, full, then overwritten; smoothing begins once it is full."""
    method, expected, project = make(settings)
    seen = set()

    def graph(z: dict[str, Rows], edges: Rows, name: str, features: Rows) -> float:
        z = z | {name: project(features)}
        return method.graph * expected.graph(z["strong"], z["second"], edges)

    for index in range(4):
        step, out = make_step(index), answers(NAMES, seed=index)
        features = {name: output.features.tolist() for name, output in out.items()}
        z = {name: project(rows) for name, rows in features.items()}
        terms = method.loss(step, out)
        guess = expected.guess(out["weak"].logits.tolist(), z["weak"], z["labelled"], step.labels.tolist())
        seen.add(guess.how_many)
        assert set(terms) == {"labelled", "unlabelled", "graph"}
        reference.assert_matches(step, out, terms, guess, method.weight)
        edges = expected.edges(guess.targets)
        assert terms["graph"].item() == pytest.approx(graph(z, edges, "strong", features["strong"]))
        if index in (1, 3):  # before smoothing and with it
            for name in ("strong", "second"):
                assert_gradient(terms["graph"], out[name].features, partial(graph, z, edges, name))
        reference.assert_no_gradient(terms["graph"], out["labelled"].features, out["strong"].logits)
        reference.assert_no_gradient(terms["unlabelled"], out["strong"].features, out["second"].logits)
    assert seen == kept


def test_smoothing_starts_once_five_batches_are_remembered_and_alignment_forgets_after_32() -> None:
    method, expected, project = make({"threshold": 0.7}, queue=5)
    rows = 5 * BATCH * (1 + MU)
    for index in range(36):
        step, out = make_step(index), answers(NAMES, seed=index)
        assert (len(expected.memory) == rows) == (index >= 5)
        terms = method.loss(step, out)
        z_weak, z_labelled = (project(out[name].features.tolist()) for name in ("weak", "labelled"))
        guess = expected.guess(out["weak"].logits.tolist(), z_weak, z_labelled, step.labels.tolist())
        value = reference.matched(out["strong"].logits.tolist(), guess.targets, guess.counts)
        assert terms["unlabelled"].item() == pytest.approx(value, abs=1e-12)
    assert len(expected.align.means) == 32


def test_what_is_remembered_is_the_aligned_guess_and_the_label() -> None:
    """Not the smoothed guess: what is remembered would feed on itself."""
    method, expected, project = make({"smoothing": 0.5}, queue=1)
    for index in range(3):
        step, out = make_step(index), answers(NAMES, seed=index)
        method.loss(step, out)
        z_weak, z_labelled = (project(out[name].features.tolist()) for name in ("weak", "labelled"))
        expected.guess(out["weak"].logits.tolist(), z_weak, z_labelled, step.labels.tolist())
        for buffer, rows in zip((method.embeddings, method.guesses), zip(*expected.memory, strict=True), strict=True):
            torch.testing.assert_close(buffer.rows, torch.tensor(rows, dtype=torch.float64))


def test_settings_projector_and_views() -> None:
    step, method = make_step(), CoMatch()
    inputs = method.inputs(step)
    assert (method.threshold, method.temperature, method.smoothing, method.like) == (0.95, 0.2, 0.9, 0.8)
    assert (method.queue, method.weight, method.graph) == (5, 1.0, 1.0)
    assert not method.labelled_among_unlabelled
    assert list(inputs) == NAMES
    views = (step.labelled, step.weak, step.strong, step.view("simclr"))
    assert all(a is b for a, b in zip(inputs.values(), views, strict=True))
    method.build(make_problem())
    shapes = [tuple(weights.shape) for weights in method.projector.parameters()]
    assert shapes == [(FEATURES, FEATURES), (FEATURES,), (64, FEATURES), (64,)]


def test_guesses_as_like_as_asked_for_are_connected() -> None:
    same = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert CoMatch(like=1.0).guess_graph(same).tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
