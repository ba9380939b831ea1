"""Confidence that is fitted to the labels: on average as high as the accuracy that is estimated from them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fewlabel import FewLabelClassifier, load_model
from fewlabel.confidence import (
    DOUBT,
    LOWERED,
    PRIOR,
    PRIOR_ACCURACY,
    SPREAD,
    USUAL,
    expected_accuracy,
    held_out,
    likely_temperature,
    matching_temperature,
)
from fewlabel.guessing import Guess, first_guess
from fewlabel.suggesting import find_suggestions
from tests.processes import fewlabel


def blobs(spread: float, classes: int = 4, each: int = 60) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    centres = draw.normal(0, 1, (classes, 16))
    labels = np.repeat(np.arange(classes), each)
    return (centres[labels] + spread * draw.normal(0, 1, (len(labels), 16))).astype(np.float32), labels


@pytest.mark.parametrize("confidence", [0.3, 0.5, 0.9])
def test_the_mean_confidence_is_what_was_asked_for(confidence: float) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (500, 5))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    temperature = matching_temperature(probabilities, confidence)
    total = 0.0
    for row in logits:  # by hand
        powers = [np.exp(value / temperature) for value in row]
        total += max(powers) / sum(powers)
    assert total / len(logits) == pytest.approx(confidence, abs=1e-6)


def some_probabilities() -> np.ndarray:
    logits = np.random.default_rng(0).normal(0, 3, (500, 5))
    return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


@pytest.mark.parametrize(("accuracy", "labels"), [(0.5, 20), (0.7, 8), (0.9, 400)])
def test_the_likely_temperature_is_between_the_usual_and_that_of_the_accuracy(accuracy: float, labels: int) -> None:
    """Against a search by hand."""
    probabilities = some_probabilities()
    best, least = 0.0, np.inf
    for logarithm in np.arange(-1, 2, 0.002):
        total = 0.0
        for row in probabilities:
            powers = row ** (1 / np.exp(logarithm))
            total += powers.max() / powers.sum()
        off = total / len(probabilities) - accuracy
        unlikeness = ((logarithm - np.log(USUAL)) / SPREAD) ** 2
        unlikeness += off**2 / (accuracy * (1 - accuracy) / labels + DOUBT**2)
        if unlikeness < least:
            best, least = logarithm, unlikeness
    assert np.log(likely_temperature(probabilities, accuracy, labels)) == pytest.approx(best, abs=0.003)


def test_more_labels_move_the_temperature_further_from_the_usual_one() -> None:
    few, many = (np.log(likely_temperature(some_probabilities(), 0.5, n)) for n in (8, 400))
    whole = np.log(matching_temperature(some_probabilities(), 0.5))
    assert np.log(USUAL) < few < many < whole


def test_what_cannot_be_reached_is_approached() -> None:
    probabilities = np.full((10, 4), 0.25)
    probabilities[:, 0] += 0.03
    probabilities[:, 1] -= 0.03
    assert matching_temperature(probabilities, 0.99) == pytest.approx(np.exp(-3))
    assert matching_temperature(np.eye(4), 0.1) == pytest.approx(np.exp(4.5))


def test_labels_that_can_be_held_out() -> None:
    assert held_out(np.array([0, 0, 1, 2, 2, 2])) == 5


def test_labels_that_the_others_contradict_lower_the_expected_accuracy() -> None:
    rows, labels = blobs(0.1)
    labelled = np.concatenate([np.flatnonzero(labels == k)[:3] for k in range(4)])
    known = labels[labelled].copy()
    right = first_guess(rows, labelled, known)
    assert (right.held_out.argmax(1) == right.told).all() and len(right.told) == 12
    known[0] = 1  # wrong: the others speak against it
    wrong = first_guess(rows, labelled, known)
    assert (wrong.held_out.argmax(1) == wrong.told).sum() < len(wrong.told) == 12
    assert expected_accuracy(wrong) < expected_accuracy(right)


def test_the_expected_accuracy_by_hand() -> None:
    """The same temperature for both: found by a search over a grid."""
    draw = np.random.default_rng(0)
    tried, others = (draw.dirichlet(np.full(5, alpha), count) for alpha, count in ((1.5, 30), (0.5, 200)))
    told = np.where(draw.random(30) < 0.6, tried.argmax(1), 0)
    accuracy = (sum(tried.argmax(1) == told) + PRIOR * PRIOR_ACCURACY) / (30 + PRIOR)

    def sure(rows: np.ndarray, power: float) -> float:
        return float(np.mean([max(row**power) / sum(row**power) for row in rows]))

    power = min(np.exp(np.linspace(-4, 3, 7001)), key=lambda power: abs(sure(tried, power) - accuracy))
    guess = Guess(others, (1.0, 0.0, 0.0), tried, told, others)
    assert expected_accuracy(guess) == pytest.approx(sure(others, power), abs=1e-3)


def overlapping(each: int = 400, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    labels = np.repeat(np.arange(classes), each)
    return (2.2 * np.eye(6)[labels] + draw.normal(size=(len(labels), 6))).astype(np.float32), labels


def test_labels_that_are_harder_than_other_rows_lower_it_less() -> None:
    """Two rounds of labels for the least certain rows, after a first one that was drawn evenly."""
    rows, labels = overlapping()
    labelled = np.concatenate([np.flatnonzero(labels == k)[:8] for k in range(4)])
    for _ in range(2):
        guess = first_guess(rows, labelled, labels[labelled])
        known = np.full(len(labels), -1)
        known[labelled] = labels[labelled]
        more = find_suggestions(rows, 32, known, guess.probabilities).positions
        labelled = np.concatenate([labelled, more])
    guess = first_guess(rows, labelled, labels[labelled])
    hidden = np.setdiff1d(np.arange(len(rows)), labelled)
    truth = float((guess.probabilities.argmax(1) == labels)[hidden].mean())
    share = float((guess.held_out.argmax(1) == guess.told).mean())
    assert share < truth - 0.05 and abs(expected_accuracy(guess) - truth) < 0.5 * abs(share - truth)


@pytest.mark.parametrize("spread", [0.3, 1.5])
def test_the_estimator_is_as_sure_as_it_may_be(spread: float) -> None:
    rows, labels = blobs(spread)
    known = np.full(len(labels), -1)
    for k in range(4):
        known[np.flatnonzero(labels == k)[:5]] = k
    model = FewLabelClassifier(steps=60, random_state=0).fit(rows, known)
    guess = first_guess(rows, np.flatnonzero(known >= 0), known[known >= 0])
    expected = LOWERED * expected_accuracy(guess)
    assert model.predict_proba(rows[known < 0]).max(1).mean() == pytest.approx(expected, abs=0.005)
    assert model.model_.calibrated


def test_after_a_first_guess_the_temperature_is_the_likely_one() -> None:
    rows, labels = blobs(0.8)
    known = np.full(len(labels), -1)
    for k in range(4):
        known[np.flatnonzero(labels == k)[:5]] = k
    fitted = FewLabelClassifier(settings={"fixmatch.guess": 1.0}, steps=60, random_state=0).fit(rows, known)
    network = fitted.model_.network
    found = network.temperature.item()
    network.temperature.fill_(1.0)
    guess = first_guess(rows, np.flatnonzero(known >= 0), known[known >= 0])
    expected = likely_temperature(fitted.predict_proba(rows[known < 0]), expected_accuracy(guess), len(guess.told))
    assert found == pytest.approx(expected, rel=1e-3)


def test_too_few_labels_change_nothing() -> None:
    rows, labels = blobs(0.3)
    known = np.full(len(labels), -1)
    for k in range(4):
        known[np.flatnonzero(labels == k)[0]] = k
    model = FewLabelClassifier(steps=20, random_state=0).fit(rows, known)
    assert model.model_.network.temperature.item() == 1 and not model.model_.calibrated


@pytest.mark.slow
def test_train_says_so_and_keeps_it(tmp_path: Path) -> None:
    rows, labels = blobs(0.8)
    known = np.full(len(labels), -1)
    for k in range(4):
        known[np.flatnonzero(labels == k)[:4]] = k
    np.savez(tmp_path / "rows.npz", x_train=rows, y_train=known)
    result = fewlabel("train", "rows.npz", "--steps", "60", "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Confidence is calibrated on 16 of your labels" in result.stdout
    model = load_model(tmp_path / "run")
    assert model.calibrated and torch.isfinite(model.network.temperature)
    said = fewlabel("predict", "run", "rows.npz", "-o", "out.csv", cwd=tmp_path)
    assert said.returncode == 0 and "not calibrated" not in said.stdout
