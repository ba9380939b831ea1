"""A first guess for every row from a few labels, for rows in which similar ones are close, such as features.

Three ways to guess are weighed by how well each predicts labels that were held out:
- labels: logistic regression on the labelled rows alone;
- neighbours: labels spread over a graph of nearest neighbours (Zhou et al., "Learning with Local and Global
  Consistency");
- clusters: one centre per class, found by expectation maximisation that starts at the labelled rows.
Which of them is right depends on the data: clusters where each class is one heap, neighbours where a class is several,
the labels where the rows say little about the classes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .scratch import room, slices

Array = NDArray[np.float64]

NEIGHBOURS = 15
SPREAD, ROUNDS = 0.99, 60  # share that a row takes from its neighbours in each round, and number of rounds
DIMENSIONS = 128  # of rows as neighbours and clusters see them
CONCENTRATION, UPDATES = 20.0, 30  # of clusters, and how often they are updated
SCALE, PENALTY = 30.0, 0.1  # of rows of length 1, and scikit-learn's C, for logistic regression
FOLDS = 4
PRIOR = 10
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MOST = 40_000  # rows of the graph and the clusters, at most
REFERENCE = 10_000  # of these rows, at most, in which other rows look for their nearest neighbours
CHUNK = 1024  # rows whose neighbours are searched at a time
JUDGED = 2000  # rows without a label that are guessed like held-out labels, at most
PART = 4096  # rows that are prepared at a time
TINY = 1e-9


class Guess(NamedTuple):
    """Class probabilities (N, classes), and the weights of labels, neighbours and clusters.

    What is known of its quality: guesses of the labels that were held out in turn, those whose class has another one,
    with these labels (`told`). And guesses of other rows, from just as many labels.
    """

    probabilities: Array
    weights: tuple[float, float, float]
    held_out: Array
    told: NDArray[np.int64]
    others: Array


def first_guess(rows: NDArray[np.float32], labelled: NDArray[np.int64], labels: NDArray[np.int64]) -> Guess:
    """A guess for each row from the labels of those at the positions `labelled`; classes are counted from 0."""
    classes = int(labels.max()) + 1
    whole = Prepared(rows)
    small = whole.reduced()
    chosen = graph_rows(len(rows), labelled)
    place = {position: i for i, position in enumerate(chosen.tolist())}
    inside = np.array([place[position] for position in labelled.tolist()])
    inner = small[chosen]
    kernel = spread(neighbour_graph(inner), inside)
    known = whole[labelled]
    found = [by_neighbours(kernel, labels, classes), by_clusters(inner, inside, labels, classes)]
    guesses = [by_labels(len(rows), whole.times, known, labels, classes), *outside(small, chosen, found)]
    some = evenly(np.setdiff1d(np.arange(len(chosen)), inside), JUDGED)
    both, others = np.concatenate([inside, some]), whole[chosen[some]]

    def labels_of(part: NDArray[np.int64]) -> Array:
        return by_labels(len(both), lambda span: [known @ span, others @ span], known[part], labels[part], classes)

    folds = [
        in_folds(labels, classes, labels_of),
        in_folds(labels, classes, lambda part: by_neighbours(kernel[:, part], labels[part], classes)[both]),
        in_folds(labels, classes, lambda part: by_clusters(inner, inside[part], labels[part], classes)[both]),
    ]
    held_out = [folds[0].held_out, leave_one_out(kernel, inside, labels, classes), folds[2].held_out]
    weights, temperatures = weigh(held_out, labels)
    pairs = zip(weights, guesses, temperatures, strict=True)
    # A temperature above 1 says that a way is too sure, which its weight says already. Flat targets teach nothing.
    ways, mixed = list(pairs), room((len(rows), classes), np.float64)
    for part in slices(len(rows), PART if len(rows) > MOST else len(rows)):
        mixed[part] = 0
        for w, guess, t in ways:
            mixed[part] += w * tempered(guess[part], min(t, 1.0))
    mixed[labelled] = np.eye(classes)[labels]
    told = np.bincount(labels)[labels] > 1
    tried, judged = (sum(w * g for w, g in zip(weights, found, strict=True)) for found in zip(*folds, strict=True))
    return Guess(mixed, weights, tried[told], labels[told], judged)


# ---- rows


class Prepared:
    """Rows centred and of length 1; of features that are never negative the roots, so that large ones count less.

    They are prepared some at a time, so that a large memory-mapped table never lies in memory as a whole.
    """

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self._rows, self._mean = rows, np.zeros(rows.shape[1])
        self._roots = all(part.min() >= 0 for part in self._parts())
        self._mean = sum((self._scaled(part).sum(0) for part in self._parts()), self._mean) / len(rows)

    def __getitem__(self, positions: NDArray[np.int64] | slice) -> Array:
        return self._made(self._rows[positions])

    def times(self, matrix: Array) -> Iterator[Array]:
        """The products of all rows with a matrix: at once, or some rows at a time where they are many."""
        parts = (self._made(part) @ matrix for part in self._parts())
        return parts if len(self._rows) > MOST else iter([np.concatenate(list(parts))])

    def reduced(self, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """The rows projected on the directions of largest variance."""
        width = self._rows.shape[1]
        if width <= DIMENSIONS:
            return self._filled((self._made(part) for part in self._parts()), width, dtype)
        products = np.zeros((width, width))
        for part in self._parts():
            made = self._made(part)
            products += made.T @ made
        _, directions = np.linalg.eigh(products)
        main = directions[:, -DIMENSIONS:]
        return self._filled((unit(self._made(part) @ main) for part in self._parts()), DIMENSIONS, dtype)

    def _filled(self, parts: Iterator[Array], width: int, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        """One array of the parts of all rows."""
        found, first = room((len(self._rows), width), dtype), 0
        for part in parts:
            found[first : first + len(part)] = part
            first += len(part)
        return found

    def _parts(self) -> Iterator[NDArray[np.float32]]:
        return parts_of(self._rows)

    def _scaled(self, part: NDArray[np.float32]) -> Array:
        values = part.astype(np.float64)
        return np.sqrt(values) if self._roots else values

    def _made(self, part: NDArray[np.float32]) -> Array:
        return unit(self._scaled(part) - self._mean)


def parts_of(rows: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    return (rows[first : first + PART] for first in range(0, len(rows), PART))


def unit(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY)


def graph_rows(count: int, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of the graph: all, or evenly spaced ones and the labelled."""
    return np.union1d(evenly(np.arange(count), MOST), labelled)


def evenly(positions: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """All, or evenly spaced ones."""
    return positions[:: max(-(-len(positions) // most), 1)]


# ---- three guesses


def by_labels(
    count: int, times: Callable[[Array], Iterable[Array]], known: Array, labels: NDArray[np.int64], classes: int
) -> Array:
    """Logistic regression on the labelled rows alone; its weights lie in their span, so only that is looked at.

    `times` multiplies the `count` rows to be guessed by a matrix, in one part or several.
    """
    from sklearn.linear_model import LogisticRegression  # slow to import

    span, _ = np.linalg.qr(known.T)
    found = room((count, classes), np.float64)
    found[:] = TINY
    if len(np.unique(labels)) < 2:
        found[:, labels[0]] = 1
        return found
    model = LogisticRegression(C=PENALTY, max_iter=500, tol=1e-6).fit(SCALE * known @ span, labels)
    first = 0
    for rows in filter(len, times(span)):
        found[first : first + len(rows), model.classes_] = model.predict_proba(SCALE * rows)
        first += len(rows)
    return found


def neighbour_graph(rows: Array) -> Any:
    """The symmetric graph of nearest neighbours, normalised; a sparse matrix."""
    from scipy.sparse import csr_array

    count = len(rows)
    near, similarity = nearest(rows, rows, min(NEIGHBOURS, count - 1), skip_self=True)
    weights = np.maximum(similarity, 0) ** 3
    start = np.repeat(np.arange(count), near.shape[1])
    graph = csr_array((weights.ravel(), (start, near.ravel())), shape=(count, count))
    graph = graph + graph.T
    root = 1 / np.sqrt(np.maximum(np.asarray(graph.sum(1)).ravel(), TINY))
    return csr_array(graph.multiply(root[:, None]).multiply(root[None]))


def nearest(rows: Array, others: Array, count: int, skip_self: bool = False) -> tuple[NDArray[np.int64], Array]:
    """Positions of the most similar others of each row, and how similar they are."""
    found, similarities = [], []
    short = others.astype(np.float32).T
    for first in range(0, len(rows), CHUNK):
        similarity = rows[first : first + CHUNK].astype(np.float32) @ short
        if skip_self:
            similarity[np.arange(len(similarity)), first + np.arange(len(similarity))] = -2
        best = torch.from_numpy(similarity).topk(count, 1)  # five times as fast as numpy's
        found.append(best.indices.numpy())
        similarities.append(best.values.double().numpy())
    return np.concatenate(found), np.concatenate(similarities)


def spread(graph: Any, labelled: NDArray[np.int64]) -> Array:
    """How much of each labelled row arrives at each row: (rows, labelled)."""
    start = np.zeros((graph.shape[0], len(labelled)))
    start[labelled, np.arange(len(labelled))] = 1
    found = start
    for _ in range(ROUNDS):
        found = SPREAD * (graph @ found) + (1 - SPREAD) * start
    return found


def by_neighbours(kernel: Array, labels: NDArray[np.int64], classes: int) -> Array:
    """All classes send out the same, however many labels they have."""
    sent = np.eye(classes)[labels]
    found = kernel @ (sent / np.maximum(sent.sum(0), 1))
    return rows_to_1(found / np.maximum(found.sum(0), TINY))


def leave_one_out(kernel: Array, labelled: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> Array:
    """The neighbours' prediction for each labelled row without its own label."""
    sent = np.eye(classes)[labels]
    total = (kernel @ (sent / np.maximum(sent.sum(0), 1))).sum(0)
    among = kernel[labelled].copy()
    np.fill_diagonal(among, 0)
    found = (among @ sent) / np.maximum(sent.sum(0) - sent, 1)
    return rows_to_1(found / np.maximum(total, TINY) + 1e-12)


def by_clusters(rows: Array, labelled: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> Array:
    """One centre per class, moved to the rows that are likely its own; half aligned to classes of equal size."""
    known = np.eye(classes)[labels]
    there = np.unique(labels)
    centres = unit(known.T @ rows[labelled])[there]
    found = np.zeros((len(rows), classes))
    for _ in range(UPDATES):
        logits = CONCENTRATION * (rows @ centres.T)
        belongs = rows_to_1(np.exp(logits - logits.max(1, keepdims=True)))
        for _ in range(10):
            belongs = rows_to_1(belongs / np.sqrt(belongs.mean(0) * len(there)))
        belongs[labelled] = known[:, there]
        centres = unit(belongs.T @ rows)
    found[:, there] = belongs
    return found


def outside(rows: Array, chosen: NDArray[np.int64], guesses: list[Array]) -> list[Array]:
    """Rows that are not in the graph take the mean guess of their nearest neighbours among evenly spaced rows there."""
    if len(chosen) == len(rows):
        return guesses
    found = [room((len(rows), guess.shape[1]), np.float64) for guess in guesses]
    for whole, guess in zip(found, guesses, strict=True):
        whole[chosen] = guess
    some = np.arange(0, len(chosen), -(-len(chosen) // REFERENCE))
    among = rows[chosen[some]]
    for part in in_parts(others_than(chosen, len(rows))):
        near, similarity = nearest(rows[part], among, NEIGHBOURS)
        weights = np.maximum(similarity, TINY) ** 3
        for whole, guess in zip(found, guesses, strict=True):
            whole[part] = rows_to_1((guess[some[near]] * weights[:, :, None]).sum(1))
    return found


def others_than(chosen: NDArray[np.int64], count: int) -> Iterator[NDArray[np.int64]]:
    """The positions up to `count` that are not among the chosen ones, which are in order; some at a time."""
    for part in slices(count, PART):
        own = chosen[np.searchsorted(chosen, part.start) : np.searchsorted(chosen, part.stop)]
        yield np.setdiff1d(np.arange(part.start, part.stop), own)


def in_parts(arrays: Iterator[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """The same numbers, PART at a time."""
    rest = np.empty(0, np.int64)
    for array in arrays:
        rest = np.concatenate([rest, array])
        while len(rest) >= PART:
            yield rest[:PART]
            rest = rest[PART:]
    if len(rest):
        yield rest


# ---- which of them to believe


class Folds(NamedTuple):
    """Guesses from the labels outside a fold."""

    held_out: Array  # of the labels in it (labels, classes)
    others: Array  # of other rows, those of each fold one after the other (folds * rows, classes)


def in_folds(labels: NDArray[np.int64], classes: int, guess: Callable[[NDArray[np.int64]], Array]) -> Folds:
    """`guess` guesses all labelled rows, then the others, from a part of the labels."""
    fold = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        fold[rows] = np.arange(len(rows)) % FOLDS
    held_out, others = np.full((len(labels), classes), 1 / classes), []
    for number in range(FOLDS):
        test, train = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if len(test) and len(np.unique(labels[train])) > 1:
            found = guess(train)
            held_out[test] = found[test]
            others.append(found[len(labels) :])
    return Folds(held_out, np.concatenate(others) if others else np.empty((0, classes)))


def weigh(held_out: list[Array], labels: NDArray[np.int64]) -> tuple[tuple[float, float, float], list[float]]:
    """Weights by the likelihood of held-out labels, each way at its best temperature.

    Only labels whose class has another one tell anything. As if PRIOR such labels had been seen before, labels and
    neighbours have one half each of their weight.
    """
    told = np.flatnonzero(np.bincount(labels)[labels] > 1)
    best = []
    for guess in held_out:
        likelihoods = [np.log(tempered(guess[told], t)[np.arange(len(told)), labels[told]]).sum() for t in TEMPERATURES]
        best.append((max(likelihoods), TEMPERATURES[int(np.argmax(likelihoods))]))
    scores = np.array([likelihood for likelihood, _ in best])
    likelihood = np.exp(scores - scores.max())
    believed = PRIOR / (PRIOR + len(told))
    weights = (1 - believed) * likelihood / likelihood.sum() + believed * np.array([0.5, 0.5, 0.0])
    first, second, third = weights.tolist()
    return (first, second, third), [temperature for _, temperature in best]


def tempered(probabilities: Array, temperature: float) -> Array:
    logits = np.log(np.maximum(probabilities, TINY)) / temperature
    return rows_to_1(np.exp(logits - logits.max(1, keepdims=True)))


def rows_to_1(values: Array) -> Array:
    return values / np.maximum(values.sum(1, keepdims=True), 1e-300)
