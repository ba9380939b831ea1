"""Calibrate confidence from the labels alone: its mean is set to the accuracy that the labels suggest.

A classifier trained on a few labels and its own pseudo-labels is overconfident. Here labels are held out in turn and
predicted from the others (guessing.py). The share of correct predictions, slightly lowered, is the expected accuracy of
the classifier. The temperature is chosen so that its mean confidence on the unlabelled examples is the same. The three
constants were chosen over seven data sets, see docs/results/confidence.md.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .data import Examples
from .evaluate import predict_probabilities
from .guessing import first_guess
from .model import Model

LEAST = 8  # minimum number of labels that can be held out
PRIOR, PRIOR_ACCURACY = 3, 0.6  # prior: number of held-out labels, and their accuracy
LOWERED = 0.95  # guesses of labels are right a little more often than those of other examples
ROWS = 10_000  # maximum number of examples used
RANGE = (-1.5, 4.5)  # logarithms of the temperature


class Expected(NamedTuple):
    """The accuracy that is expected, the temperature that follows, and how many labels were held out."""

    accuracy: float
    temperature: float
    labels: int


def fit_confidence(model: Model, examples: Examples, labelled: Tensor) -> Expected | None:
    """Set the temperature of a model trained on the labels at these positions.

    None, and nothing is changed, where inputs are no rows of numbers or the labels are too few.
    """
    labels = examples.labels[labelled].numpy()
    if examples.kind.rows(examples.inputs[:1]) is None or held_out(labels) < LEAST:
        return None
    some = np.union1d(np.arange(0, len(examples), -(-len(examples) // ROWS)), labelled.numpy())
    rows = examples.kind.rows(examples.inputs[torch.from_numpy(some)])
    assert rows is not None
    _, numbers = np.unique(labels, return_inverse=True)
    guess = first_guess(rows.numpy(), np.searchsorted(some, labelled.numpy()), numbers)
    expected = LOWERED * (guess.right + PRIOR * PRIOR_ACCURACY) / (guess.told + PRIOR)
    others = torch.from_numpy(np.setdiff1d(some, labelled.numpy()))
    if not len(others):
        return None
    probabilities = predict_probabilities(model.network, examples.inputs, others).double().numpy()
    temperature = matching_temperature(probabilities, expected)
    model.network.temperature.mul_(temperature)
    return Expected(expected, model.network.temperature.item(), guess.told)


def held_out(labels: NDArray[np.int64]) -> int:
    """The number of labels that share their class with another label."""
    return int((np.bincount(labels)[labels] > 1).sum())


def matching_temperature(probabilities: NDArray[np.float64], confidence: float) -> float:
    """The temperature at which the mean confidence is closest to the given one."""
    logits = np.log(np.maximum(probabilities, 1e-12))

    def excess(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        weights = np.exp(scaled - scaled.max(1, keepdims=True))
        return float((1 / weights.sum(1)).mean()) - confidence

    low, high = RANGE
    if excess(low) <= 0:
        return float(np.exp(low))
    if excess(high) >= 0:
        return float(np.exp(high))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(np.exp((low + high) / 2))
