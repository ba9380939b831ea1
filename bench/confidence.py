"""How much is a confidence of 0.9 worth, before and after it is calibrated from the labels?

    python -m bench.confidence --root DIR --clipart FOLDER --sentences sentences.npz
    python -m bench.confidence --root DIR --clipart FOLDER --sentences sentences.npz --seeds 5
    python -m bench.confidence --show

The sets of bench.heads and bench.suggest; 2, 4 and 10 labels per class; the default head on features. Labels are drawn
evenly or at random, suggested, or given in rounds: 2 per class suggested at first, then again and again 2 per class of
which the model so far is uncertain. Measured on the unlabelled rows, at many temperatures: the mean confidence, how
many rows have one of 0.9 or more, and how many of those are right. So the constants of fewlabel/confidence.py can be
chosen afterwards: on seed 0, for each set by the six others (leave one set out), and for the library by all. Seed 5
confirms. Results go line by line into docs/results/confidence.jsonl.
"""

import argparse
import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray

from bench import confidence as here
from bench.heads import draw_labels, read_set
from bench.results import FOLDER, keep_results, read_results
from bench.suggest import rows_of
from fewlabel import FewLabelClassifier, suggest
from fewlabel.confidence import DOUBT, LEAST, SPREAD, USUAL, expected_accuracy
from fewlabel.evaluate import fit_temperature
from fewlabel.guessing import first_guess
from fewlabel.methods import full_settings
from fewlabel.suggesting import find_suggestions

RESULTS = FOLDER / "confidence.jsonl"
SETS = ("cifar10", "cifar100", "svhn", "clipart", "tail", "mnist", "sentences")
WAYS = ("even", "random", "suggested", "rounds")
AT_FIRST = 2  # labels per class of each round
SURE = 0.9
LOG_TEMPERATURES = np.linspace(-1, 4, 101)
Constants = tuple[float, float, float]  # usual temperature, spread of its logarithm, doubt
CONSTANTS: list[Constants] = list(
    itertools.product((0.7, 0.75, 0.8, 0.85, 0.9, 1.0), (0.05, 0.1, 0.15, 0.2, 0.3, 0.4), (0.02, 0.05, 0.1))
)
CHOSEN: Constants = (USUAL, SPREAD, DOUBT)
Array = NDArray[np.float64]
Line = dict[str, Any]


def run(rows: Any, labels: Any, data: str, each: int, way: str, seed: int) -> Line:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # alarms
    labelled = np.sort(chosen_labels(rows, labels, each, way, seed))
    model = fitted(rows, labels, labelled, seed)
    hidden = np.setdiff1d(np.arange(len(labels)), labelled)
    probabilities = model.predict_proba(rows[hidden])
    guess = first_guess(rows, labelled, np.searchsorted(model.classes_, labels[labelled]))
    places = {label: i for i, label in enumerate(model.classes_.tolist())}
    truth = np.array([places.get(label, -1) for label in labels[hidden].tolist()])
    facts = {"data": data, "each": each, "way": way, "seed": seed}
    expected = round(expected_accuracy(guess), 5) if len(guess.told) else None
    return facts | measured(probabilities, truth) | {"told": len(guess.told), "expected": expected}


def chosen_labels(rows: Any, labels: Any, each: int, way: str, seed: int) -> NDArray[np.int64]:
    if way in ("even", "random"):
        return draw_labels(labels, each, way, seed)
    classes = len(np.unique(labels))
    if way == "suggested":
        return suggest(rows, each * classes, seed=seed)
    chosen = suggest(rows, AT_FIRST * classes, seed=seed)
    while len(chosen) < each * classes:
        probabilities = fitted(rows, labels, chosen, seed).predict_proba(rows)
        known = np.full(len(labels), -1)
        known[chosen] = labels[chosen]
        more = find_suggestions(rows, AT_FIRST * classes, known, probabilities.astype(np.float64), seed)
        chosen = np.concatenate([chosen, more.positions])
    return chosen


def fitted(rows: Any, labels: Any, labelled: NDArray[np.int64], seed: int) -> FewLabelClassifier:
    """Not calibrated."""
    known = np.full(len(labels), -1)
    known[labelled] = labels[labelled]
    settings = full_settings("icl-ssl", {}, "features")  # as `fewlabel train --encoder` has them
    model = FewLabelClassifier(settings=settings, steps=600, random_state=seed).fit(rows, known)
    model.model_.network.temperature.fill_(1.0)
    return model


def measured(probabilities: Array, truth: NDArray[np.int64]) -> Line:
    """At each temperature: the mean confidence, how many reach SURE, and how many of those are right."""
    logits, right = np.log(np.maximum(probabilities, 1e-12)), probabilities.argmax(1) == truth
    curve = []
    for temperature in np.exp(LOG_TEMPERATURES):
        scaled = logits / temperature
        confidence = 1 / np.exp(scaled - scaled.max(1, keepdims=True)).sum(1)
        there = confidence >= SURE
        curve.append((round(float(confidence.mean()), 5), int(there.sum()), int(right[there].sum())))
    best = fit_temperature(torch.from_numpy(probabilities), torch.from_numpy(truth))
    return {"rows": len(truth), "accuracy": round(float(right.mean()), 5), "best": round(best, 4), "curve": curve}


def nearest(temperature: float) -> int:
    return int(np.abs(LOG_TEMPERATURES - np.log(temperature)).argmin())


def chosen(line: Line, constants: Constants) -> int:
    """The temperature that fewlabel/confidence.py would take, as its place in the list."""
    usual, spread, doubt = constants
    if line["told"] < LEAST:
        return nearest(1.0)
    accuracy = line["expected"]
    variance = accuracy * (1 - accuracy) / line["told"] + doubt**2
    off = np.array([confidence for confidence, _, _ in line["curve"]]) - accuracy
    return int(((LOG_TEMPERATURES - np.log(usual)) ** 2 / spread**2 + off**2 / variance).argmin())


def share_right(lines: list[Line], place: Callable[[Line], int]) -> tuple[float, float, float]:
    """Of a set: the share that reaches the confidence, the share of those that is right, and times the best way's."""
    found = [line["curve"][place(line)] for line in lines]
    best = sum(line["curve"][nearest(line["best"])][1] for line in lines)
    reached, right = sum(n for _, n, _ in found), sum(n for _, _, n in found)
    return reached / sum(line["rows"] for line in lines), right / max(reached, 1), reached / max(best, 1)


def cost(lines: dict[str, list[Line]], constants: Constants) -> float:
    """How far from what is wanted: 90 to 95% right, and at least 0.7 times as many as with the best temperature."""
    total = 0.0
    for some in lines.values():
        reached, right, ratio = share_right(some, lambda line: chosen(line, constants))
        if reached > 0.002:
            total += 3 * max(0.0, 0.9 - right) + max(0.0, right - 0.95) + 0.3 * max(0.0, 0.7 - ratio)
    return total


def show() -> None:
    for title, seeds in (("chosen", (0, 1, 2)), ("confirmed", (5, 6, 7))):
        lines: dict[str, list[Line]] = defaultdict(list)
        for line in read_results(RESULTS):
            if line["seed"] in seeds:
                lines[line["data"]].append(line)
        there = sorted({line["seed"] for some in lines.values() for line in some})
        print(f"\n{title}, seeds {there}: share with confidence 0.9 or more, right of those, times the best way's\n")
        print("| set | accuracy | as trained | calibrated | best temperature | constants of the others |")
        print("|---|---|---|---|---|---|")
        for data, some in lines.items():
            others = {name: rows for name, rows in lines.items() if name != data}
            left_out = min(CONSTANTS, key=lambda constants: cost(others, constants))
            places = (
                lambda line: nearest(1.0),
                lambda line: chosen(line, CHOSEN),
                lambda line: nearest(line["best"]),
                lambda line: chosen(line, left_out),  # noqa: B023  # called at once
            )
            cells = [
                f"{100 * reached:.1f}%, {100 * right:.0f}%, {ratio:.2f}"
                for reached, right, ratio in (share_right(some, place) for place in places)
            ]
            accuracy = 100 * np.mean([line["accuracy"] for line in some])
            print(f"| {data} | {accuracy:.0f}% | {' | '.join(cells)} {left_out} |")
        if lines:
            print(f"by all: {min(CONSTANTS, key=lambda constants: cost(lines, constants))}")
            show_ways([line for some in lines.values() for line in some if line["told"] >= LEAST])


def show_ways(lines: list[Line]) -> None:
    """The mean over sets for each way to choose labels."""
    print("\n| labels | per class | accuracy | expected, minus the accuracy | calibrated |\n|---|---|---|---|---|")
    for way, each in itertools.product(WAYS, (2, 4, 10)):
        some = [line for line in lines if (line["way"], line["each"]) == (way, each)]
        if not some:
            continue
        off = np.array([line["expected"] - line["accuracy"] for line in some])
        reached, right, _ = share_right(some, lambda line: chosen(line, CHOSEN))
        accuracy, spread = 100 * np.mean([line["accuracy"] for line in some]), f"{100 * off.std():.0f}"
        cells = f"{accuracy:.0f}% | {100 * off.mean():+.0f} ± {spread} | {100 * reached:.0f}%, {100 * right:.0f}% right"
        print(f"| {way} | {each} | {cells} |")


def read_rows(name: str, options: argparse.Namespace) -> tuple[Any, Any]:
    if name == "clipart":
        rows = read_set(name, options.root, options.clipart, "lite0")
        return rows.train, rows.train_labels
    return rows_of(name, options.root, options.sentences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--clipart", type=Path)
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        there = {tuple(line[key] for key in ("data", "each", "way", "seed")) for line in read_results(RESULTS)}
        sets = {name: read_rows(name, options) for name in options.sets}
        work = itertools.product(options.seeds, (2, 4, 10), WAYS, options.sets)
        task = joblib.delayed(here.run)  # by its module, since __main__ has another name in a worker
        calls = (
            task(*sets[data], data, each, way, seed)
            for seed, each, way, data in work
            if (data, each, way, seed) not in there and not (way == "rounds" and each == AT_FIRST)
        )
        keep_results(RESULTS, calls, options.jobs)
    show()


if __name__ == "__main__":
    main()
