"""The first guess: each way against a calculation in plain loops, and which of them is believed."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from fewlabel import FewLabelClassifier, UserError, guessing
from fewlabel.guessing import first_guess


def blobs(count: int = 300, classes: int = 3, spread: float = 1.0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rows, labels = make_blobs(count, 20, centers=classes, cluster_std=spread, random_state=0)
    return rows.astype(np.float32), labels.astype(np.int64)


def some(labels: NDArray[np.int64], each: int, seed: int = 0) -> NDArray[np.int64]:
    draw = np.random.default_rng(seed)
    return np.concatenate([draw.choice(np.flatnonzero(labels == c), each, replace=False) for c in np.unique(labels)])


def accuracy(rows: NDArray[np.float32], labels: NDArray[np.int64], labelled: NDArray[np.int64]) -> float:
    found = first_guess(rows, labelled, labels[labelled]).probabilities
    return float((found.argmax(1) == labels).mean())


def test_rows_are_centred_and_of_length_1() -> None:
    rows = np.array([[4.0, 0.0], [0.0, 9.0], [1.0, 1.0]], np.float32)
    roots = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])  # since none is negative
    expected = roots - roots.mean(0)
    expected /= np.sqrt((expected**2).sum(1, keepdims=True))
    np.testing.assert_allclose(guessing.Prepared(rows)[:], expected)
    below = rows - 2
    expected = below - below.mean(0)
    expected /= np.sqrt((expected**2).sum(1, keepdims=True))
    np.testing.assert_allclose(guessing.Prepared(below)[:], expected, rtol=1e-6)


def test_neighbours_in_loops() -> None:
    """Spreading step by step over a graph that is found by sorting; class masses made equal."""
    rows, labels = blobs(40, spread=6.0)
    whole, labelled = guessing.Prepared(rows)[:], some(labels, 2)
    count, near = len(whole), []
    for i in range(count):
        similar = sorted(((float(whole[i] @ whole[j]), j) for j in range(count) if j != i), reverse=True)[:15]
        near.append({j: max(value, 0) ** 3 for value, j in similar})
    weight = [[near[i].get(j, 0) + near[j].get(i, 0) for j in range(count)] for i in range(count)]
    degree = [sum(row) for row in weight]
    graph = [[weight[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(count)] for i in range(count)]
    start = [[(labels[i] == c) / 2 if i in labelled else 0.0 for c in range(3)] for i in range(count)]
    found = start
    for _ in range(60):
        found = [
            [0.99 * sum(graph[i][j] * found[j][c] for j in range(count)) + 0.01 * start[i][c] for c in range(3)]
            for i in range(count)
        ]
    mass = [sum(row[c] for row in found) for c in range(3)]
    shares = [[row[c] / mass[c] for c in range(3)] for row in found]
    expected = [[value / sum(row) for value in row] for row in shares]
    kernel = guessing.spread(guessing.neighbour_graph(whole), labelled)
    np.testing.assert_allclose(guessing.by_neighbours(kernel, labels[labelled], 3), expected, rtol=1e-4)
    without = guessing.leave_one_out(kernel, labelled, labels[labelled], 3)
    for k, position in enumerate(labelled):
        sent = [sum(kernel[position][m] for m in range(6) if labels[labelled[m]] == c and m != k) for c in range(3)]
        own = labels[position]
        scores = [sent[c] / (1 if c == own else 2) / mass[c] + 1e-12 for c in range(3)]
        np.testing.assert_allclose(without[k], np.array(scores) / sum(scores), rtol=1e-4)


def test_clusters_in_loops() -> None:
    rows, labels = blobs(30, spread=5.0)
    whole, labelled = guessing.Prepared(rows)[:], some(labels, 2)
    centres = [whole[[i for i in labelled if labels[i] == c]].sum(0) for c in range(3)]
    centres = [centre / np.linalg.norm(centre) for centre in centres]
    for _ in range(guessing.UPDATES):
        belongs = []
        for row in whole:
            powers = [math.exp(20 * float(row @ centre)) for centre in centres]
            belongs.append([power / sum(powers) for power in powers])
        for _ in range(10):
            mean = [sum(row[c] for row in belongs) / len(belongs) for c in range(3)]
            belongs = [[row[c] / math.sqrt(3 * mean[c]) for c in range(3)] for row in belongs]
            belongs = [[value / sum(row) for value in row] for row in belongs]
        for i in labelled:
            belongs[i] = [float(labels[i] == c) for c in range(3)]
        centres = [sum(belongs[i][c] * whole[i] for i in range(30)) for c in range(3)]
        centres = [centre / np.linalg.norm(centre) for centre in centres]
    np.testing.assert_allclose(guessing.by_clusters(whole, labelled, labels[labelled], 3), belongs, rtol=1e-6)


def test_logistic_regression_in_the_span_of_the_labelled_rows_is_that_of_all_columns() -> None:
    rows, labels = blobs(spread=8.0)
    whole, labelled = guessing.Prepared(rows)[:], some(labels, 3)
    model = LogisticRegression(C=0.1, max_iter=500, tol=1e-8).fit(30 * whole[labelled], labels[labelled])
    found = guessing.by_labels(len(whole), lambda span: [whole @ span], whole[labelled], labels[labelled], 3)
    np.testing.assert_allclose(found, model.predict_proba(30 * whole), atol=1e-3)


def test_neighbours_are_believed_where_classes_are_no_heaps() -> None:
    """Each class is four heaps, somewhere among those of the other."""
    rows, heaps = make_blobs(800, 8, centers=8, cluster_std=3.0, random_state=1)
    labels = (heaps % 2).astype(np.int64)
    labelled = some(heaps.astype(np.int64), 4)
    guess = first_guess(rows.astype(np.float32), labelled, labels[labelled])
    assert guess.weights[1] > 0.85
    assert (guess.probabilities.argmax(1) == labels).mean() > 0.95


def test_clusters_are_believed_where_classes_are_heaps() -> None:
    rows, labels = blobs(600, 6, spread=7.0)
    labelled = some(labels, 3)
    assert first_guess(rows, labelled, labels[labelled]).weights[2] > 0.5
    assert accuracy(rows, labels, labelled) > 0.95


def test_labels_are_believed_where_the_rest_tells_nothing() -> None:
    """The rows lie in heaps that have nothing to do with the classes, which are in one small direction."""
    labels = np.random.default_rng(0).integers(0, 2, 400)
    rows, _ = make_blobs(400, 20, centers=6, cluster_std=1.0, random_state=0)
    rows[:, 0] = 3 * labels
    guess = first_guess(rows.astype(np.float32), np.arange(40), labels[:40])
    assert guess.weights[0] > 0.85


def test_one_label_per_class_cannot_tell_which_to_believe() -> None:
    rows, labels = blobs()
    labelled = some(labels, 1)
    assert first_guess(rows, labelled, labels[labelled]).weights == (0.5, 0.5, 0.0)


def test_few_held_out_labels_are_believed_little() -> None:
    """With four of them and a prior of ten the weights stay near one half each."""
    guesses = [np.full((4, 2), 0.5), np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]), np.full((4, 2), 0.5)]
    weights, temperatures = guessing.weigh(guesses, np.array([0, 0, 1, 1]))
    likelihoods = [
        4 * math.log(0.5),
        max(4 * math.log(0.9 ** (1 / t) / (0.9 ** (1 / t) + 0.1 ** (1 / t))) for t in guessing.TEMPERATURES),
    ]
    share = math.exp(likelihoods[1]) / (2 * math.exp(likelihoods[0]) + math.exp(likelihoods[1]))
    assert weights[1] == pytest.approx(4 / 14 * share + 10 / 14 / 2)
    assert weights[2] == pytest.approx(4 / 14 * (1 - share) / 2)
    assert temperatures[1] == 0.25


def test_labelled_rows_keep_their_labels_and_all_rows_are_probabilities() -> None:
    rows, labels = blobs(spread=8.0)
    labelled = some(labels, 3)
    wrong = labels[labelled].copy()
    wrong[0] = (wrong[0] + 1) % 3
    found = first_guess(rows, labelled, wrong).probabilities
    assert (found[labelled].argmax(1) == wrong).all()
    np.testing.assert_allclose(found.sum(1), 1)
    assert (found >= 0).all()


def test_many_rows_take_the_guess_of_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = blobs(600, spread=2.0)
    labelled = some(labels, 2)
    monkeypatch.setattr(guessing, "MOST", 150)
    monkeypatch.setattr(guessing, "REFERENCE", 50)
    assert len(guessing.graph_rows(600, labelled)) < 160
    assert accuracy(rows, labels, labelled) > 0.95
    whole = guessing.Prepared(rows)[:]
    chosen = guessing.graph_rows(600, labelled)
    guess = np.eye(3)[labels[chosen]]
    found, other = guessing.outside(whole, chosen, [guess, guess[:, ::-1]])
    np.testing.assert_array_equal(found[chosen], guess)
    np.testing.assert_array_equal(other, found[:, ::-1])
    assert (found.argmax(1) == labels).mean() > 0.95


@pytest.mark.parametrize("rows", [np.zeros((20, 4)), np.ones((20, 4)), np.eye(20)])
def test_rows_that_tell_nothing(rows: NDArray[np.float64]) -> None:
    found = first_guess(rows.astype(np.float32), np.arange(4), np.array([0, 1, 0, 1])).probabilities
    assert np.isfinite(found).all()


def test_fixmatch_learns_from_it() -> None:
    """With weight 1 it is trained to the guess; of images there is none."""
    rows, labels = blobs(400, 4, spread=9.0)
    labelled = some(labels, 2)
    few = np.full(len(labels), -1)
    few[labelled] = labels[labelled]
    settings = {"fixmatch.guess": 1.0}
    model = FewLabelClassifier("fixmatch", settings=settings, steps=200, random_state=0).fit(rows, few)
    guess = first_guess(rows, labelled, labels[labelled]).probabilities.argmax(1)
    assert (model.predict(rows) == guess).mean() > 0.95
    images = torch.zeros(8, 3, 8, 8, dtype=torch.uint8).numpy()
    with pytest.raises(UserError, match=r"fixmatch.guess works on rows of numbers and on features only"):
        FewLabelClassifier("fixmatch", settings=settings, steps=2).fit(images, [0, 1, 0, 1, -1, -1, -1, -1])


def test_rows_that_are_prepared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to rounding: a large table gives what it would give as a whole."""
    draw = np.random.default_rng(0)
    rows, matrix = draw.random((50, 200)).astype(np.float32), draw.normal(size=(200, 3))
    whole = guessing.Prepared(rows)
    expected = whole[:], np.concatenate(list(whole.times(matrix))), whole.reduced()
    monkeypatch.setattr(guessing, "PART", 7)
    parts = guessing.Prepared(rows)
    np.testing.assert_allclose(parts[:], expected[0], atol=1e-12)
    np.testing.assert_allclose(np.concatenate(list(parts.times(matrix))), expected[1], atol=1e-12)
    found = parts.reduced()
    np.testing.assert_allclose(found @ found.T, expected[2] @ expected[2].T, atol=1e-8)


def test_held_out_labels_and_other_rows_are_guessed_alike() -> None:
    """Each from three quarters of the labels, by refitting every way by hand."""
    draw = np.random.default_rng(3)
    truth = draw.integers(0, 3, 60)
    rows = (2 * np.eye(4)[truth] + draw.normal(size=(60, 4))).astype(np.float32)
    labelled = np.sort(np.concatenate([np.flatnonzero(truth == k)[:4] for k in range(3)]))
    labels = truth[labelled]
    found = first_guess(rows, labelled, labels)
    others = np.setdiff1d(np.arange(60), labelled)
    assert found.told.tolist() == labels.tolist() and found.others.shape == (4 * len(others), 3)
    whole = guessing.Prepared(rows)[:]
    kernel = guessing.spread(guessing.neighbour_graph(whole), labelled)
    seen = [0, 0, 0]
    for place, label in enumerate(labels):
        fold = seen[label] % 4
        seen[label] += 1
        order = [sum(labels[:i] == labels[i]) % 4 for i in range(len(labels))]
        part = np.array([i for i in range(len(labels)) if order[i] != fold])
        ways = (
            guessing.by_labels(60, lambda span: [whole @ span], whole[labelled[part]], labels[part], 3),
            guessing.by_neighbours(kernel[:, part], labels[part], 3),
            guessing.by_clusters(whole, labelled[part], labels[part], 3),
        )
        mixed = np.einsum("w,wnc->nc", found.weights, np.stack(ways))
        np.testing.assert_allclose(found.held_out[place], mixed[labelled[place]], rtol=1e-6)
        mine = found.others[fold * len(others) : (fold + 1) * len(others)]
        np.testing.assert_allclose(mine, mixed[others], rtol=1e-6)


def test_all_rows_may_be_labelled() -> None:
    draw = np.random.default_rng(0)
    found = first_guess(draw.normal(size=(12, 3)).astype(np.float32), np.arange(12), np.arange(12) % 3)
    assert found.others.shape == (0, 3) and found.probabilities.argmax(1).tolist() == (np.arange(12) % 3).tolist()
