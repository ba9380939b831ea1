"""How much is a confidence of 0.9 worth, before and after it is fitted to the labels?

    python -m bench.confidence --root DIR --clipart FOLDER --sentences sentences.npz
    python -m bench.confidence --root DIR --clipart FOLDER --sentences sentences.npz --seeds 5 6 7
    python -m bench.confidence --show

The sets of bench.heads and bench.suggest; 2, 4 and 10 labels per class, drawn evenly or at random; the default head.
Measured on the unlabelled rows: how many have a confidence of 0.9 or more, and how many of those are right. The
constants of fewlabel/confidence.py are chosen on seeds 0 to 2: for each set by the six others (leave one set out), and
for the library by all. Seeds 5 to 7 confirm. Results go line by line into docs/results/confidence.jsonl.
"""

import argparse
import itertools
import warnings
from collections import defaultdict
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
from fewlabel import FewLabelClassifier
from fewlabel.confidence import LOWERED, PRIOR, PRIOR_ACCURACY, matching_temperature
from fewlabel.evaluate import fit_temperature
from fewlabel.guessing import first_guess

RESULTS = FOLDER / "confidence.jsonl"
SETS = ("cifar10", "cifar100", "svhn", "clipart", "tail", "mnist", "sentences")
SURE = 0.9
CONSTANTS = list(itertools.product((3, 5, 8), (0.4, 0.5, 0.6), (0.85, 0.9, 0.95, 1.0)))
CHOSEN = (PRIOR, PRIOR_ACCURACY, LOWERED)
Array = NDArray[np.float64]


def run(rows: Any, labels: Any, data: str, each: int, way: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # alarms
    labelled = draw_labels(labels, each, way, seed)
    known = np.full(len(labels), -1)
    known[labelled] = labels[labelled]
    model = FewLabelClassifier(steps=600, random_state=seed).fit(rows, known)
    network = model.model_.network
    network.temperature.fill_(1.0)
    hidden = known < 0
    probabilities = model.predict_proba(rows[hidden])
    right = model.classes_[probabilities.argmax(1)] == labels[hidden]
    numbers = np.searchsorted(model.classes_, labels[labelled])
    guess = first_guess(rows, labelled, numbers)
    places = {label: i for i, label in enumerate(model.classes_.tolist())}
    truth = torch.tensor([places.get(label, -1) for label in labels[hidden].tolist()])
    best = fit_temperature(torch.from_numpy(probabilities), truth)
    found = {"raw": sure(probabilities, right, 1.0), "best": sure(probabilities, right, best)}
    for constants in CONSTANTS:
        prior, accuracy, lowered = constants
        expected = lowered * (guess.right + prior * accuracy) / (guess.told + prior)
        found[named(constants)] = sure(probabilities, right, matching_temperature(probabilities, expected))
    facts = {"data": data, "each": each, "way": way, "seed": seed, "rows": int(hidden.sum())}
    return {**facts, "accuracy": float(right.mean()), "told": guess.told, "guessed": guess.right, **found}


def sure(probabilities: Array, right: NDArray[np.bool_], temperature: float) -> tuple[int, int]:
    """How many reach the confidence, and how many of those are right."""
    logits = np.log(np.maximum(probabilities, 1e-12)) / temperature
    weights = np.exp(logits - logits.max(1, keepdims=True))
    there = 1 / weights.sum(1) >= SURE
    return int(there.sum()), int(right[there].sum())


def named(constants: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in constants)


def share_right(lines: list[dict[str, Any]], way: str) -> tuple[float, float, float]:
    """Of a set: the share that reaches the confidence, the share of those that is right, and times the best way's."""
    reached, right = (sum(line[way][place] for line in lines) for place in (0, 1))
    best = sum(line["best"][0] for line in lines)
    return reached / sum(line["rows"] for line in lines), right / max(reached, 1), reached / max(best, 1)


def cost(lines: dict[str, list[dict[str, Any]]], way: str) -> float:
    """How far from what is wanted: 87 to 95% right, and as many as with the best temperature, at least 0.6 times."""
    total = 0.0
    for some in lines.values():
        reached, right, ratio = share_right(some, way)
        if reached > 0.002:
            total += 3 * max(0.0, 0.87 - right) + max(0.0, right - 0.95) + max(0.0, 0.6 - ratio)
    return total


def show() -> None:
    for title, seeds in (("chosen", range(3)), ("confirmed", range(5, 8))):
        lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in read_results(RESULTS):
            if line["seed"] in seeds:
                lines[line["data"]].append(line)
        print(f"\n{title}, seeds {seeds[0]} to {seeds[-1]}: share with confidence 0.9 or more, and right of those\n")
        print("| set | as trained | fitted to the labels | best temperature | constants of the others |")
        print("|---|---|---|---|---|")
        for data, some in lines.items():
            others = {name: rows for name, rows in lines.items() if name != data}
            left_out = min(map(named, CONSTANTS), key=lambda way: cost(others, way)) if others else named(CHOSEN)
            cells = [share_right(some, way) for way in ("raw", named(CHOSEN), "best", left_out)]
            words = [f"{100 * reached:.0f}%, {100 * right:.0f}%" for reached, right, _ in cells]
            print(f"| {data} | {' | '.join(words)} ({left_out}) |")
        print(f"by all: {min(map(named, CONSTANTS), key=lambda way: cost(lines, way))}")


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
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        there = {tuple(line[key] for key in ("data", "each", "way", "seed")) for line in read_results(RESULTS)}
        sets = {name: read_rows(name, options) for name in options.sets}
        work = itertools.product(options.seeds, (2, 4, 10), ("even", "random"), options.sets)
        task = joblib.delayed(here.run)  # by its module, since __main__ has another name in a worker
        calls = (
            task(*sets[data], data, each, way, seed)
            for seed, each, way, data in work
            if (data, each, way, seed) not in there
        )
        keep_results(RESULTS, calls, options.jobs)
    show()


if __name__ == "__main__":
    main()
