"""Training labels that look wrong, because the other labels disagree."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .data import Dataset
from .guessing import PENALTY, SCALE, Prepared
from .model import load_model
from .runs import RunDirectory
from .runs.first_stage import data_of_run

AGREEING = 2 / 3  # of the labels, at least; with less, they are too few or too mixed to judge each other
MOST = 200  # times that a model is fitted: with more labels several are left out together


class Suspicious(NamedTuple):
    name: str
    label: str
    other: str  # that the other labels speak for
    probability: float  # of the label itself


def suspicious_labels(run: RunDirectory, root: str | None = None) -> list[Suspicious]:
    """Training labels with which the others disagree, the least likely first: each is left out in turn.

    None where the others disagree with many.
    """
    plan, dataset = data_of_run(run, root)
    train = dataset.train
    rows = rows_to_compare(run, dataset, plan.labelled.numpy())
    labels = train.labels[plan.labelled].numpy()
    found = []
    for position, (probability, other) in disagreements(rows, labels).items():
        name = train.names[int(plan.labelled[position])]
        found.append(Suspicious(name, train.classes[labels[position]], train.classes[other], probability))
    return sorted(found, key=lambda one: one.probability) if len(found) <= (1 - AGREEING) * len(labels) else []


def rows_to_compare(run: RunDirectory, dataset: Dataset, positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """Features of those examples: of an encoder, or of the run's own network."""
    train = dataset.train
    rows = train.kind.comparable_rows(train.inputs[positions])
    if rows is not None:
        return rows.numpy()
    names = [train.names[position] for position in positions]
    some = replace(train, inputs=train.inputs[positions], labels=train.labels[positions], names=names)
    return load_model(run.path).features(some)


def disagreements(rows: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[int, tuple[float, int]]:
    """Positions whose label is not what logistic regression on the others says; with its probability, and what it says.

    Only classes with another label can be judged.
    """
    from sklearn.linear_model import LogisticRegression  # slow to import

    scaled = SCALE * Prepared(rows)[:]
    span, _ = np.linalg.qr(scaled.T)
    scaled = scaled @ span
    found: dict[int, tuple[float, int]] = {}
    for left_out in np.array_split(np.arange(len(labels)), min(len(labels), MOST)):
        others = np.setdiff1d(np.arange(len(labels)), left_out)
        if len(np.unique(labels[others])) < 2:
            continue
        model = LogisticRegression(C=PENALTY, max_iter=500, class_weight="balanced").fit(scaled[others], labels[others])
        for position, probabilities in zip(left_out.tolist(), model.predict_proba(scaled[left_out]), strict=True):
            label, other = int(labels[position]), int(model.classes_[probabilities.argmax()])
            if label in model.classes_ and other != label:
                found[position] = (float(probabilities[model.classes_ == label][0]), other)
    return found
