"""report.html: one self-contained page with the results of a run."""

import os
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import NAMED, Dataset, Examples, is_folder
from ..evaluate import confusion, features_by
from ..pages import Shown, write_page
from ..predictions import Predictions
from ..scratch import slices
from ..training import Plan
from ..training.alarms import advice
from ..verdict import Verdict, verdict_in_words
from .charts import confusion_matrix, first_stage_curves, learning_curves, pseudo_labels
from .stages import StageResult

PICTURES = 24  # in each gallery
LABELLED = 100  # pictures, at most
LATE = 20  # evaluations
PART = 1 << 14  # predictions that are sorted at a time
COMPARED, ROWS, ALIKE = 5000, 8, 9  # examples that are compared, rows that are shown, similar ones in each


@dataclass(frozen=True, eq=False)
class Findings:
    """The contents of a report."""

    plan: Plan
    dataset: Dataset
    history: list[dict[str, Any]]
    floor: list[dict[str, Any]]  # history of training on the labels alone; empty where there was none
    first: list[dict[str, Any]]  # history of the first stage; empty where there was none
    test_predictions: Tensor | None  # classes
    positions: Tensor  # of the unlabelled training examples that were predicted
    predictions: Predictions
    verdict: Verdict | None = None  # None of runs that an earlier version made
    run: str = "RUN"  # the directory, to be typed
    measured: Sequence[str] = ()  # about the accuracy, by an audit


def write_report(path: Path, found: Findings) -> None:
    write_page(path, "report.html.jinja", contents(found))


def contents(found: Findings) -> dict[str, Any]:
    """Everything that the template shows."""
    plan, dataset, train = found.plan, found.dataset, found.dataset.train
    by_class = plan.labelled[train.labels[plan.labelled].argsort(stable=True)][:LABELLED].tolist()
    most, least = certainty(found)
    test = dataset.test
    return {
        "title": f"{dataset.name}: {len(plan.labelled)} labels, {len(train.classes)} classes",
        "noun": train.kind.noun,
        "verdict": verdict_of(found),
        "numbers": headline(found),
        "result": result(found.history, test.known if test else 0),
        "alarms": alarm_boxes(plan, found.history),
        "first": first_stage(plan.first, found.first),
        "curves": learning_curves(found.history, found.floor),
        "pseudo_labels": pseudo_labels(found.history, train.classes),
        "confusion": None
        if test is None or found.test_predictions is None
        else confusion_matrix(
            confusion(found.test_predictions, test.labels, len(train.classes)).numpy(), train.classes
        ),
        "labelled": [shown(train, i, train.classes[train.labels[i]]) for i in by_class],
        "labelled_count": len(plan.labelled),
        "most_certain": most,
        "least_certain": least,
        "predicted_count": f"{len(found.positions):,}",
        "no_class": dataset.no_class,
        "skipped": train.skipped | (test.skipped if test else {}),
        "settings": settings(plan),
    }


def verdict_of(found: Findings) -> list[str]:
    if found.verdict is None:
        return [*found.measured]
    suggest = command_on_data(found.plan, "suggest", "--run", found.run, "-o", "more.csv")
    noun, labels = found.dataset.train.kind.noun, len(found.plan.labelled)
    unlabelled = len(found.positions) > 0
    return verdict_in_words(found.verdict, noun, labels, found.run, suggest, found.measured, unlabelled)


def first_stage(plan: Plan | None, history: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The part of the report about the first stage: its curves and alarms."""
    if plan is None or not history:
        return None
    last = history[-1]
    return {
        "method": plan.recipe.method,
        "steps": f"{plan.steps:,}",
        "minutes": f"{last['seconds'] / 60:.1f}",
        "neighbours": f"{last['neighbour_accuracy']:.1%}" if "neighbour_accuracy" in last else "",
        "curves": first_stage_curves(history),
        "alarms": alarm_boxes(plan, history),
    }


def headline(found: Findings) -> list[tuple[str, str]]:
    """The numbers on top of the page."""
    noun, last = found.dataset.train.kind.noun, found.history[-1]
    numbers = []
    if "accuracy" in last:
        numbers.append(("test accuracy", f"{last['accuracy']:.1%}"))
        if found.floor:
            numbers.append(("with the labels alone", f"{found.floor[-1]['accuracy']:.1%}"))
    minutes = last["seconds"] / 60
    time, unit = (f"{minutes:.1f}", "minutes") if minutes >= 1 else (f"{last['seconds']:.0f}", "seconds")
    return [
        *numbers,
        (f"labelled {noun}", f"{len(found.plan.labelled)}"),
        (f"training {noun}", f"{len(found.dataset.train):,}"),
        (f"{unit} for {found.plan.steps:,} steps", time),
    ]


def result(history: Sequence[dict[str, Any]], count: int) -> dict[str, Any] | None:
    """The accuracy and what to compare it with; None without a test set."""
    evaluated = [line["accuracy"] for line in history if "accuracy" in line]
    if not evaluated:
        return None
    late = evaluated[-LATE:]
    return {
        "accuracy": f"{evaluated[-1]:.2%}",
        "count": count,
        "late": len(late),
        "median": f"{statistics.median(late):.2%}",
        "best": f"{max(evaluated):.2%}",
        "raw": f"{history[-1]['raw_accuracy']:.2%}",
    }


def write_pretraining_report(path: Path, plan: Plan, result: StageResult, run: str) -> None:
    """The report of a run without labels: its curves, and examples beside those with the most similar features."""
    train = result.dataset.train
    contents = {
        "title": f"{plan.recipe.method} on {result.dataset.name}",
        "noun": train.kind.noun,
        "count": f"{len(train):,}",
        "commands": {name: command_on_top(plan, run, name, train.known > 0) for name in ("train", "suggest")},
        "first": first_stage(plan, result.history),
        "alike": alike(result),
        "skipped": train.skipped,
        "settings": settings(plan),
    }
    write_page(path, "pretrained.html.jinja", contents)


def command_on_top(plan: Plan, run: str, command: str, labelled: bool) -> str:
    """The command to run next, on the features of a run without labels; are there labels in its data?"""
    more = ["-n", "20", "-o", "to-label.csv"] if command == "suggest" else []
    if command == "train" and not labelled and is_folder(plan.recipe.data):
        more = ["--labels", "to-label.csv"]
    return command_on_data(plan, command, "--encoder", run, *more)


def command_on_data(plan: Plan, command: str, *options: str) -> str:
    """A command on the data of a run."""
    data = plan.recipe.data
    shorter = min(data, os.path.relpath(data), key=len) if Path(data).exists() else data
    root = ["--root", plan.recipe.root] if plan.recipe.root and data in NAMED else []
    return shlex.join(["fewlabel", command, shorter, *root, *options])


def alike(result: StageResult) -> list[list[Shown]]:
    """Some training examples, each followed by those that are most similar to it."""
    train = result.dataset.train
    some = torch.arange(len(train))[:: -(-len(train) // COMPARED)]
    rows = torch.nn.functional.normalize(features_by(result.network, train.inputs, some), dim=1)
    asked = torch.arange(len(some))[:: -(-len(some) // ROWS)]
    nearest = (rows[asked] @ rows.T).argsort(1, descending=True)[:, : ALIKE + 1]
    return [[shown(train, int(some[i]), "") for i in row] for row in nearest]


def alarm_boxes(plan: Plan, history: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The alarms that are still on at the end, with advice, and those that passed."""
    since: dict[str, int] = {}  # the last unbroken stretch of each alarm, and what was seen
    until: dict[str, int] = {}
    seen: dict[str, str] = {}
    before: dict[str, str] = {}
    for line in history:
        now = line.get("alarms", {})
        for alarm, text in now.items():
            since[alarm] = since[alarm] if alarm in before else line["step"]
            until[alarm], seen[alarm] = line["step"], text
        before = now
    boxes: dict[str, list[dict[str, Any]]] = {"now": [], "passed": []}
    for alarm, text in seen.items():
        boxes["now" if alarm in before else "passed"].append(
            {
                "text": text[0].upper() + text[1:],
                "since": f"{since[alarm]:,}",
                "until": f"{until[alarm]:,}",
                "advice": advice(alarm, plan),
            }
        )
    return boxes


def certainty(found: Findings) -> tuple[list[Shown], list[Shown]]:
    """The unlabelled training examples with the highest confidence of each class, and those with the lowest of all."""
    train, confidence = found.dataset.train, found.predictions.confidence

    def gallery(rows: Tensor) -> list[Shown]:
        labels = found.predictions.at(rows).labels
        return [
            shown(train, int(found.positions[r]), f"{label} ({confidence[r]:.0%})")
            for r, label in zip(rows.tolist(), labels, strict=True)
        ]

    return gallery(largest_of_each(found.predictions.probabilities)), gallery(smallest(confidence, PICTURES))


def largest_of_each(probabilities: Tensor) -> Tensor:
    """Positions of the most confident predictions of each class, about PICTURES in all."""
    confidence, guesses = probabilities.max(1)
    predicted = guesses.bincount().nonzero().flatten()[:PICTURES].tolist()
    each = PICTURES // max(1, len(predicted))
    places = [(guesses == k).nonzero().flatten() for k in predicted]
    return torch.cat([torch.empty(0, dtype=torch.int64), *(rows[largest(confidence[rows], each)] for rows in places)])


def largest(values: Tensor, count: int) -> Tensor:
    """Positions of the largest values, of equal ones the first; some are sorted at a time."""
    best = torch.empty(0, dtype=torch.int64)
    for part in slices(len(values), PART):
        both = torch.cat([best, torch.arange(part.start, part.stop)])
        best = both[values[both].argsort(descending=True, stable=True)[:count]]
    return best


def smallest(values: Tensor, count: int) -> Tensor:
    """Positions of the smallest values, of equal ones the last."""
    best = torch.empty(0, dtype=torch.int64)
    for part in slices(len(values), PART):
        both = torch.cat([torch.arange(part.start, part.stop).flip(0), best])
        best = both[values[both].argsort(stable=True)[:count]]
    return best


def shown(examples: Examples, position: int, caption: str) -> Shown:
    return Shown(examples.names[position], examples.show(position), caption)


def settings(plan: Plan) -> list[tuple[str, str]]:
    values = plan.to_dict()
    facts = values.pop("recipe") | values
    if first := facts.pop("first"):
        of_first = first["recipe"]["settings"] | {name: first[name] for name in ("steps", "network", "learning_rate")}
        facts |= {f"first stage: {name}": value for name, value in of_first.items()}
    facts["without"] = ", ".join(facts["without"])
    return [(name.replace("_", "-"), in_words(value)) for name, value in facts.items() if value not in (None, {}, "")]


def in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
