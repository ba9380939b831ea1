"""Calibrate confidence from the labels alone, by a temperature.

Labels are held out in turn and predicted from the others (guessing.py), which gives the accuracy to be expected. The
mean confidence of the classifier on the unlabelled examples should be the same. A classifier that started from a first
guess needs nearly the same temperature on all data. So this is the prior, and the estimate moves it as far as it can be
trusted. Other classifiers are overconfident by very different factors: there the estimate decides alone, slightly
lowered. The constants were chosen over seven data sets, see docs/results/confidence.md.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .data import Examples
from .evaluate import predict_probabilities
from .guessing import Guess, first_guess
from .model import Model
from .training import Plan

LEAST = 8  # minimum number of labels that can be held out
PRIOR, PRIOR_ACCURACY = 3, 0.6  # prior: number of held-out labels, and their accuracy
USUAL, SPREAD = 0.7, 0.3  # temperature after a first guess, and how far its logarithm varies between data sets
DOUBT = 0.02  # by which the estimate of the accuracy may be wrong, however many labels were held out
LOWERED = 0.95  # without a first guess: guesses of labels are right a little more often than those of other examples
ROWS = 10_000  # maximum number of examples used
RANGE = (-3.0, 4.5)  # logarithms of the temperature


class Expected(NamedTuple):
    """The accuracy that is expected, the temperature that follows, and how many labels were held out."""

    accuracy: float
    temperature: float
    labels: int


def fit_confidence(model: Model, examples: Examples, plan: Plan) -> Expected | None:
    """Set the temperature of a model that was trained as planned.

    None, and nothing is changed, where inputs are no rows of numbers or the labels are too few.
    """
    labelled = plan.labelled
    labels = examples.labels[labelled].numpy()
    if examples.kind.rows(examples.inputs[:1]) is None or held_out(labels) < LEAST:
        return None
    some = np.union1d(np.arange(0, len(examples), -(-len(examples) // ROWS)), labelled.numpy())
    rows = examples.kind.rows(examples.inputs[torch.from_numpy(some)])
    assert rows is not None
    _, numbers = np.unique(labels, return_inverse=True)
    others = torch.from_numpy(np.setdiff1d(some, labelled.numpy()))
    if not len(others):
        return None
    guess = first_guess(rows.numpy(), np.searchsorted(some, labelled.numpy()), numbers)
    expected = expected_accuracy(guess)
    probabilities = predict_probabilities(model.network, examples.inputs, others).double().numpy()
    if any(value for name, value in plan.recipe.settings.items() if name.endswith(".guess")):
        temperature = likely_temperature(probabilities, expected, len(guess.told))
    else:
        expected *= LOWERED
        temperature = matching_temperature(probabilities, expected)
    model.network.temperature.mul_(temperature)
    return Expected(expected, model.network.temperature.item(), len(guess.told))


def expected_accuracy(guess: Guess) -> float:
    """The accuracy on other rows, estimated from guesses of held-out labels.

    Labels may be harder than other rows, such as those of uncertain examples, or easier. So the temperature is fitted
    at which held-out labels are guessed with as much confidence as accuracy. The mean confidence in other rows at this
    temperature, guessed from as many labels, is their expected accuracy.
    """
    right = int((guess.held_out.argmax(1) == guess.told).sum())
    share = (right + PRIOR * PRIOR_ACCURACY) / (len(guess.told) + PRIOR)
    if not len(guess.others):
        return share
    temperature = matching_temperature(guess.held_out, share)
    return mean_confidence(np.log(np.maximum(guess.others, 1e-12)), float(np.log(temperature)))


def held_out(labels: NDArray[np.int64]) -> int:
    """The number of labels that share their class with another label."""
    return int((np.bincount(labels)[labels] > 1).sum())


def likely_temperature(probabilities: NDArray[np.float64], accuracy: float, labels: int) -> float:
    """The temperature that is most likely: near the usual one, with a mean confidence near the accuracy.

    The accuracy was estimated from so many labels.
    """
    from scipy.optimize import minimize_scalar  # slow to import

    logits = np.log(np.maximum(probabilities, 1e-12))
    variance = accuracy * (1 - accuracy) / labels + DOUBT**2

    def unlikeness(log_temperature: float) -> float:
        unusual = (log_temperature - np.log(USUAL)) ** 2 / SPREAD**2
        return float(unusual + (mean_confidence(logits, log_temperature) - accuracy) ** 2 / variance)

    return float(np.exp(minimize_scalar(unlikeness, bounds=RANGE, method="bounded", options={"xatol": 1e-4}).x))


def matching_temperature(probabilities: NDArray[np.float64], confidence: float) -> float:
    """The temperature at which the mean confidence is closest to the given one."""
    logits = np.log(np.maximum(probabilities, 1e-12))

    def excess(log_temperature: float) -> float:
        return mean_confidence(logits, log_temperature) - confidence

    low, high = RANGE
    if excess(low) <= 0:
        return float(np.exp(low))
    if excess(high) >= 0:
        return float(np.exp(high))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(np.exp((low + high) / 2))


def mean_confidence(logits: NDArray[np.float64], log_temperature: float) -> float:
    scaled = logits / np.exp(log_temperature)
    weights = np.exp(scaled - scaled.max(1, keepdims=True))
    return float((1 / weights.sum(1)).mean())
