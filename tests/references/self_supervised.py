"""The losses of first stages once more, in plain Python: loops and float64, nothing shared with the package."""

import math
from collections.abc import Sequence

from torch import nn

from tests.references.losses import Rows, dot


def unit(row: Sequence[float]) -> list[float]:
    length = math.sqrt(dot(row, row))
    return [x / length for x in row]


def simclr(first: Rows, second: Rows, temperature: float) -> float:
    """Each of 2 N rows looks for its partner among all others."""
    rows, count = [*first, *second], len(first)
    total = 0.0
    for i, row in enumerate(rows):
        partner = (i + count) % len(rows)
        others = sum(math.exp(dot(row, rows[k]) / temperature) for k in range(len(rows)) if k != i)
        total -= math.log(math.exp(dot(row, rows[partner]) / temperature) / others)
    return total / len(rows)


def moco(queries: Rows, keys: Rows, queue: Rows, temperature: float) -> float:
    total = 0.0
    for query, key in zip(queries, keys, strict=True):
        own = math.exp(dot(query, key) / temperature)
        total -= math.log(own / (own + sum(math.exp(dot(query, old) / temperature) for old in queue)))
    return total / len(queries)


def standardised(rows: Rows, epsilon: float = 1e-5) -> list[list[float]]:
    """Columns of mean 0 and variance 1, as a batch norm makes them."""
    columns = []
    for column in zip(*rows, strict=True):
        mean = sum(column) / len(column)
        variance = sum((x - mean) ** 2 for x in column) / len(column)
        columns.append([(x - mean) / math.sqrt(variance + epsilon) for x in column])
    return [list(row) for row in zip(*columns, strict=True)]


def barlow_twins(first: Rows, second: Rows, weight: float) -> float:
    a, b = standardised(first), standardised(second)
    count, width = len(a), len(a[0])
    total = 0.0
    for i in range(width):
        for j in range(width):
            correlation = sum(a[n][i] * b[n][j] for n in range(count)) / count
            total += (1 - correlation) ** 2 if i == j else weight * correlation**2
    return total / width


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return dot(unit(a), unit(b))


def simsiam(predictions: Sequence[Rows], targets: Sequence[Rows]) -> float:
    """`predictions` from the first and second view; `targets`, which are constants, of the first and second view."""
    total = 0.0
    for predicted, wanted in ((predictions[0], targets[1]), (predictions[1], targets[0])):
        total -= sum(cosine(p, z) for p, z in zip(predicted, wanted, strict=True)) / len(predicted)
    return total / 2


class Projector:
    """What `make_projector` builds, layer by layer."""

    def __init__(self, module: nn.Sequential) -> None:
        self.layers = list(module)

    def __call__(self, rows: Rows) -> list[list[float]]:
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight = layer.weight.tolist()
                bias = [0.0] * len(weight) if layer.bias is None else layer.bias.tolist()
                rows = [[dot(w, row) + b for w, b in zip(weight, bias, strict=True)] for row in rows]
            elif isinstance(layer, nn.BatchNorm1d):
                rows = standardised(rows)
                if layer.affine:
                    scale, shift = layer.weight.tolist(), layer.bias.tolist()
                    rows = [[s * x + t for s, x, t in zip(scale, row, shift, strict=True)] for row in rows]
            else:
                assert isinstance(layer, nn.ReLU)
                rows = [[max(0.0, x) for x in row] for row in rows]
        return [list(row) for row in rows]
