"""The losses once more, in plain Python: loops and float64, nothing shared with the package."""

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]


def softmax(row: Sequence[float]) -> list[float]:
    top = max(row)
    powers = [math.exp(x - top) for x in row]
    return [p / sum(powers) for p in powers]


def cross_entropy(logits: Rows, labels: Sequence[int]) -> float:
    return sum(-math.log(softmax(row)[k]) for row, k in zip(logits, labels, strict=True)) / len(labels)


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def interpolation_contrast(
    mixed_embeddings: Rows,
    embeddings_of_mixed: Rows,
    embeddings: Rows,
    temperature: float,
    same: Sequence[int] = (),
    anchors: Sequence[int] | None = None,
) -> float:
    """`same`, where given, are class numbers: images of one class do not push each other apart.

    `anchors` are the rows that were mixed, in the order of the mixes; default all.
    """
    total = 0.0
    anchors = range(len(embeddings)) if anchors is None else anchors
    for pair, i in enumerate(anchors):
        z = embeddings[i]
        total -= dot(mixed_embeddings[pair], embeddings_of_mixed[pair]) / temperature
        pushes = [
            math.exp(dot(z, other) / temperature)
            for k, other in enumerate(embeddings)
            if k != i and not (same and same[i] == same[k])
        ]
        if pushes:
            total += math.log(sum(pushes))
    return total / len(anchors)


def fixmatch(
    weak: Rows, strong: Rows, threshold: float, running_mean: Sequence[float] | None = None
) -> tuple[float, list[int], list[bool]]:
    """The unlabelled term, the guesses, and which of them were kept."""
    total = 0.0
    guesses, kept = [], []
    for u, s in zip(weak, strong, strict=True):
        p = softmax(u)
        if running_mean is not None:
            p = [x / m for x, m in zip(p, running_mean, strict=True)]
            p = [x / sum(p) for x in p]
        guess = max(range(len(p)), key=p.__getitem__)
        guesses.append(guess)
        kept.append(p[guess] >= threshold)
        if kept[-1]:
            total -= math.log(softmax(s)[guess])
    return total / len(weak), guesses, kept


def interpolate(a: Rows, b: Rows, mix: Sequence[float]) -> list[list[float]]:
    return [[m * x + (1 - m) * y for x, y in zip(p, q, strict=True)] for p, q, m in zip(a, b, mix, strict=True)]
