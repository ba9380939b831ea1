"""The methods that match a strong view to its weak one, in plain Python; each carries its own memory.

What is left to every method is how it makes a `Guess` out of the weak views. `assert_matches` then holds the method's
terms and records against it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from fewlabel.methods import Step
from fewlabel.networks import Output
from tests.gradients import assert_gradient
from tests.references.losses import Rows, cross_entropy, dot, softmax


def top(row: Sequence[float]) -> int:
    return max(range(len(row)), key=row.__getitem__)


def normalised(row: Sequence[float]) -> list[float]:
    total = sum(row)
    return [x / total for x in row]


def mean(rows: Rows) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def running(old: Sequence[float], new: Sequence[float], momentum: float) -> list[float]:
    return [momentum * a + (1 - momentum) * b for a, b in zip(old, new, strict=True)]


def aligned(row: Sequence[float], mean_prediction: Sequence[float], target: Sequence[float]) -> list[float]:
    return normalised([p * t / m for p, m, t in zip(row, mean_prediction, target, strict=True)])


def one_hot(label: int, classes: int) -> list[float]:
    return [float(c == label) for c in range(classes)]


def unit(row: Sequence[float]) -> list[float]:
    length = math.sqrt(dot(row, row))
    return [x / length for x in row]


def similarities(row: Sequence[float], others: Rows, temperature: float) -> list[float]:
    return [dot(row, other) / temperature for other in others]


def matched(logits: Rows, targets: Rows, counts: Sequence[float] = ()) -> float:
    """Cross-entropy of every row, times its count where given, over ALL rows."""
    total = 0.0
    for row, target, count in zip(logits, targets, counts or [1.0] * len(logits), strict=True):
        total -= count * sum(t * math.log(p) for t, p in zip(target, softmax(row), strict=True))
    return total / len(logits)


@dataclass
class Guess:
    """What the strong views must answer, and how much each row counts."""

    targets: list[list[float]]
    counts: list[float]

    @property
    def labels(self) -> list[int]:
        return [top(row) for row in self.targets]

    @property
    def kept(self) -> list[bool]:
        return [count >= 0.5 for count in self.counts]

    @property
    def how_many(self) -> str:
        return "all" if all(self.kept) else "some" if any(self.kept) else "none"


def confident(targets: list[list[float]], threshold: float) -> Guess:
    return Guess(targets, [float(max(row) >= threshold) for row in targets])


def assert_matches(
    step: Step, out: Mapping[str, Output], terms: Mapping[str, Tensor], guess: Guess, weight: float = 1.0
) -> None:
    """The labelled term, if given, and the unlabelled one, their gradients, and the records.

    No term has a gradient through the weak views: a pseudo-label is a target, not a variable.
    """
    labelled, weak, strong = (out[name].logits for name in ("labelled", "weak", "strong"))
    labels = step.labels.tolist()
    if "labelled" in terms:
        assert terms["labelled"].item() == pytest.approx(cross_entropy(labelled.tolist(), labels))
        assert_gradient(terms["labelled"], labelled, lambda x: cross_entropy(x, labels))
    expected = weight * matched(strong.tolist(), guess.targets, guess.counts)
    assert terms["unlabelled"].item() == pytest.approx(expected, abs=1e-12)
    assert_gradient(terms["unlabelled"], strong, lambda x: weight * matched(x, guess.targets, guess.counts))
    total = torch.stack(list(terms.values())).sum()
    assert_no_gradient(total, weak, out["weak"].features)
    assert step.records["pseudo_labels"].tolist() == guess.labels
    assert step.records["kept"].tolist() == guess.kept


def assert_no_gradient(loss: Tensor, *variables: Tensor) -> None:
    found = torch.autograd.grad(loss, variables, allow_unused=True, retain_graph=True)
    assert found == (None,) * len(variables)


class Projector:
    """Linear - leaky ReLU - Linear, to unit length; a plain ReLU has slope 0."""

    def __init__(self, module: nn.Module, slope: float) -> None:
        self.first, self.first_bias, self.second, self.second_bias = (x.tolist() for x in module.parameters())
        self.slope = slope

    def __call__(self, features: Rows) -> list[list[float]]:
        rows = []
        for x in features:
            inside = [dot(w, x) + b for w, b in zip(self.first, self.first_bias, strict=True)]
            inside = [h if h > 0 else self.slope * h for h in inside]
            rows.append(unit([dot(w, inside) + b for w, b in zip(self.second, self.second_bias, strict=True)]))
        return rows


def uda(weak: Rows, threshold: float, temperature: float) -> Guess:
    rows = [softmax(row) for row in weak]
    guess = confident(rows, threshold)
    guess.targets = [normalised([p ** (1 / temperature) for p in row]) for row in rows]
    return guess


@dataclass
class FlexMatch:
    classes: int
    images: int
    threshold: float
    latest: dict[int, int] = field(default_factory=dict)  # image -> its latest confident label

    def thresholds(self) -> list[float]:
        learnt = [sum(k == c for k in self.latest.values()) for c in range(self.classes)]
        most = max(*learnt, self.images - len(self.latest))
        return [self.threshold * (n / most) / (2 - n / most) for n in learnt]

    def guess(self, weak: Rows, index: Sequence[int]) -> Guess:
        rows, thresholds = [softmax(row) for row in weak], self.thresholds()
        for image, row in zip(index, rows, strict=True):
            if max(row) >= self.threshold:
                self.latest[image] = top(row)
        kept = [float(max(row) >= thresholds[top(row)]) for row in rows]
        return Guess([one_hot(top(row), self.classes) for row in rows], kept)


class FreeMatch:
    def __init__(self, classes: int, momentum: float) -> None:
        self.classes, self.momentum = classes, momentum
        self.confidence = 1 / classes
        self.prediction = self.histogram = [1 / classes] * classes

    def guess(self, weak: Rows) -> Guess:
        rows = [softmax(row) for row in weak]
        hard = [one_hot(top(row), self.classes) for row in rows]
        (self.confidence,) = running([self.confidence], mean([[max(row)] for row in rows]), self.momentum)
        self.prediction = running(self.prediction, mean(rows), self.momentum)
        self.histogram = running(self.histogram, mean(hard), self.momentum)
        thresholds = [self.confidence * p / max(self.prediction) for p in self.prediction]
        return Guess(hard, [float(max(row) >= thresholds[top(row)]) for row in rows])

    def unfairness(self, strong: Rows, kept: Sequence[bool]) -> float:
        """A class that has never been guessed (h~ = 0), or not among the kept rows (h = 0), is left out."""
        rows = [softmax(row) for row, keep in zip(strong, kept, strict=True) if keep]
        if not rows:
            return 0.0
        histogram = mean([one_hot(top(row), self.classes) for row in rows])
        now = normalised([p / h if h else 0.0 for p, h in zip(mean(rows), histogram, strict=True)])
        before = normalised([p / h if h else 0.0 for p, h in zip(self.prediction, self.histogram, strict=True)])
        return sum(b * math.log(n) for b, n in zip(before, now, strict=True) if n)


class SoftMatch:
    def __init__(self, classes: int, sigmas: float, momentum: float) -> None:
        self.classes, self.sigmas, self.momentum = classes, sigmas, momentum
        self.mean, self.variance = 1 / classes, 1.0
        self.even = [1 / classes] * classes
        self.prediction: list[float] = []

    def guess(self, weak: Rows) -> Guess:
        rows = [softmax(row) for row in weak]
        self.prediction = self.prediction or mean(rows)
        self.prediction = running(self.prediction, mean(rows), self.momentum)
        confidence = [max(aligned(row, self.prediction, self.even)) for row in rows]
        middle = sum(confidence) / len(rows)
        variance = sum((c - middle) ** 2 for c in confidence) / (len(rows) - 1)
        self.mean, self.variance = running([self.mean, self.variance], [middle, variance], self.momentum)
        counts = [
            1.0 if c >= self.mean else math.exp(-(self.sigmas**2) * (c - self.mean) ** 2 / (2 * self.variance))
            for c in confidence
        ]
        return Guess([one_hot(top(row), self.classes) for row in rows], counts)


def adamatch(labelled: Rows, weak: Rows, threshold: float) -> Guess:
    """`labelled` are the interpolated logits of the weak views."""
    known, rows = [softmax(row) for row in labelled], [softmax(row) for row in weak]
    targets = [aligned(row, mean(rows), mean(known)) for row in rows]
    return confident(targets, threshold * sum(max(row) for row in known) / len(known))


@dataclass
class Alignment:
    """Divides by the mean of the last batches, each counting as much as another."""

    batches: int
    means: list[list[float]] = field(default_factory=list)

    def __call__(self, rows: Rows, target: Sequence[float] = ()) -> list[list[float]]:
        self.means = [*self.means, mean(rows)][-self.batches :]
        return [aligned(row, mean(self.means), target or [1.0] * len(row)) for row in rows]


@dataclass
class CoMatch:
    classes: int
    room: int  # how many rows are remembered
    threshold: float
    temperature: float
    smoothing: float
    like: float
    align: Alignment = field(default_factory=lambda: Alignment(32))
    memory: list[tuple[list[float], list[float]]] = field(default_factory=list)  # embeddings and guesses

    def guess(self, weak: Rows, z_weak: list[list[float]], z_labelled: list[list[float]], labels: list[int]) -> Guess:
        own = self.align([softmax(row) for row in weak])
        targets = own
        if len(self.memory) == self.room:
            targets = []
            for row, z in zip(own, z_weak, strict=True):
                shares = softmax(similarities(z, [other for other, _ in self.memory], self.temperature))
                near = [
                    sum(a * q[c] for a, (_, q) in zip(shares, self.memory, strict=True)) for c in range(self.classes)
                ]
                targets.append(running(row, near, self.smoothing))
        known = [one_hot(k, self.classes) for k in labels]
        self.memory = [*self.memory, *zip(z_weak + z_labelled, own + known, strict=True)][-self.room :]
        return confident(targets, self.threshold)

    def edges(self, targets: Rows) -> list[list[float]]:
        """Every image is connected to itself, and to those of like guesses; rows of sum 1."""
        products = [[1.0 if a is b else dot(a, b) for b in targets] for a in targets]
        return [normalised([product if product >= self.like else 0.0 for product in row]) for row in products]

    def graph(self, z_strong: Rows, z_second: Rows, edges: Rows) -> float:
        return matched([similarities(z, z_second, self.temperature) for z in z_strong], edges)


@dataclass
class SimMatch:
    classes: int
    positions: list[int]
    labels: list[int]
    bank: list[list[float]]
    threshold: float
    temperature: float
    smoothing: float
    momentum: float
    align: Alignment = field(default_factory=lambda: Alignment(32))

    def guess(self, weak: Rows, z_weak: Rows) -> tuple[Guess, list[list[float]]]:
        """And how much each weak view, given its class, resembles each labelled image."""
        targets, resembled = [], []
        for row, z in zip(self.align([softmax(row) for row in weak]), z_weak, strict=True):
            shares = softmax(similarities(z, self.bank, self.temperature))
            near = [
                sum(share for share, k in zip(shares, self.labels, strict=True) if k == c) for c in range(self.classes)
            ]
            targets.append(running(row, near, self.smoothing))
            resembled.append(normalised([share * row[k] for share, k in zip(shares, self.labels, strict=True)]))
        return confident(targets, self.threshold), resembled

    def remember(self, index: Sequence[int], z_labelled: Rows) -> None:
        for place, position in enumerate(self.positions):
            here = [z for i, z in zip(index, z_labelled, strict=True) if i == position]
            if here:
                self.bank[place] = unit(running(self.bank[place], mean(here), self.momentum))
