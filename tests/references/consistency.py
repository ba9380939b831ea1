"""Terms of the methods that ask for consistent predictions, in plain Python: nothing shared with the package."""

import math
from collections.abc import Callable, Sequence

from tests.references.losses import Rows, interpolate, softmax

# index of a step, length of the ramp, and how much of the weight is given then
RAMPS = [(0, 10, 0.0), (3, 10, 0.3), (10, 10, 1.0), (40, 10, 1.0), (0, 0, 1.0)]


def best(row: Sequence[float]) -> int:
    return max(range(len(row)), key=row.__getitem__)


def one_hot(labels: Sequence[int], classes: int) -> list[list[float]]:
    return [[1.0 if c == label else 0.0 for c in range(classes)] for label in labels]


def mixed(rows: Rows, mix: Sequence[float], partner: Sequence[int]) -> list[list[float]]:
    return interpolate(rows, [rows[j] for j in partner], mix)


def soft_cross_entropy(logits: Rows, targets: Rows) -> float:
    total = 0.0
    for row, target in zip(logits, targets, strict=True):
        for p, t in zip(softmax(row), target, strict=True):
            total -= t * math.log(p)
    return total / len(logits)


def squared_error(logits: Rows, targets: Rows) -> float:
    """Of probabilities, mean over rows and classes."""
    total = 0.0
    for row, target in zip(logits, targets, strict=True):
        for p, t in zip(softmax(row), target, strict=True):
            total += (p - t) ** 2
    return total / (len(logits) * len(logits[0]))


def entropy(logits: Rows) -> float:
    return soft_cross_entropy(logits, [softmax(row) for row in logits])


def divergence(logits: Rows, target_logits: Rows) -> float:
    """KL(target, prediction): cross-entropy less the target's own entropy."""
    return soft_cross_entropy(logits, [softmax(row) for row in target_logits]) - entropy(target_logits)


def sharpened(row: Sequence[float], temperature: float) -> list[float]:
    powers = [p ** (1 / temperature) for p in row]
    return [p / sum(powers) for p in powers]


def mixmatch_guesses(first: Rows, second: Rows, temperature: float) -> list[list[float]]:
    guesses = []
    for a, b in zip(first, second, strict=True):
        mean = [(p + q) / 2 for p, q in zip(softmax(a), softmax(b), strict=True)]
        guesses.append(sharpened(mean, temperature))
    return guesses


def remixmatch_guesses(
    logits: Rows, prior: Sequence[float], batch_means: list[list[float]], temperature: float
) -> list[list[float]]:
    """`batch_means`, of earlier batches, gets this one's too; the 128 before it count, the first of them uniform."""
    rows = [softmax(row) for row in logits]
    uniform = [1 / len(prior)] * len(prior)
    recent = ([uniform] * 128 + batch_means)[-128:]
    batch_means.append([sum(column) / len(rows) for column in zip(*rows, strict=True)])
    running = [sum(column) / len(recent) for column in zip(*recent, strict=True)]
    guesses = []
    for row in rows:
        aligned = [p * wanted / seen for p, wanted, seen in zip(row, prior, running, strict=True)]
        guesses.append(sharpened([p / sum(aligned) for p in aligned], temperature))
    return guesses


def quarter_turn(image: Rows) -> list[list[float]]:
    """A square image turned by 90 degrees, counter-clockwise."""
    side = len(image)
    return [[image[column][side - 1 - row] for column in range(side)] for row in range(side)]


def linear(row: Sequence[float], weight: Rows, bias: Sequence[float]) -> list[float]:
    return [b + sum(w * x for w, x in zip(weights, row, strict=True)) for weights, b in zip(weight, bias, strict=True)]


def perceptron(
    row: Sequence[float], hidden: Rows, hidden_bias: Sequence[float], head: Rows, head_bias: Sequence[float]
) -> list[float]:
    """Logits of a network with one hidden layer of tanh."""
    return linear([math.tanh(x) for x in linear(row, hidden, hidden_bias)], head, head_bias)


def worst_direction(
    network: Callable[[list[float]], list[float]], image: Sequence[float], start: Sequence[float], step: float = 1e-5
) -> list[float]:
    """One power iteration: H d divided by its length, d = `start`, H = Hessian of KL(p(x), p(x + r)) at r = 0.

    H = J' (diag p - p p') J with the Jacobian J of the logits, here by central differences.
    """

    def slope(direction: Sequence[float]) -> list[float]:
        ahead, behind = (
            network([x + sign * step * d for x, d in zip(image, direction, strict=True)]) for sign in (1, -1)
        )
        return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]

    p, along = softmax(network(list(image))), slope(start)
    mean = sum(q * a for q, a in zip(p, along, strict=True))
    pull = [q * (a - mean) for q, a in zip(p, along, strict=True)]
    product = []
    for pixel in range(len(image)):
        column = slope([1.0 if k == pixel else 0.0 for k in range(len(image))])
        product.append(sum(x * y for x, y in zip(column, pull, strict=True)))
    length = math.sqrt(sum(x * x for x in product))
    return [x / length for x in product]
