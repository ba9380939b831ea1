"""What bench/texts.py and bench/tables.py share: splits, and the printed comparison."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from bench.results import read_results
from fewlabel import few_label_split, suggest

MOST = 8000  # rows of a set
OURS = "fewlabel"
STEPS = 1000  # FewLabelClassifier's default; `fewlabel train` takes 2000
EACH = (2, 4, 8)  # labels per class


def some_rows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most MOST rows, the same ones always."""
    return np.sort(np.random.default_rng(0).permutation(len(labels))[:MOST])


def divide(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training rows and test rows, 7 to 3, the same share of each class in both."""
    train, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=seed, stratify=labels)
    return train, test


def choose_labelled(
    labels: NDArray[np.int64], each: int, way: str, seed: int, rows: NDArray[np.float32] | None = None
) -> NDArray[np.int64]:
    """Positions to label: so many of each class at random, or as many in all as `fewlabel.suggest` says."""
    if way == "random":
        return few_label_split(torch.from_numpy(labels), each, seed)
    return suggest(rows, each * len(np.unique(labels)), seed=seed)


def known_labels(labels: NDArray[np.int64], labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    known = np.full(len(labels), -1)
    known[labelled] = labels[labelled]
    return known


class Cell(NamedTuple):
    """Accuracies in percent of all sides on one set with so many labels, in the order of the seeds."""

    data: str
    way: str
    each: int
    accuracies: dict[str, list[float]]

    @property
    def name(self) -> str:
        return f"{self.data}, {self.each} {self.way}"

    def lead(self, rival: str) -> tuple[float, float]:
        """Our mean lead over seeds, and its standard error."""
        changes = [a - b for a, b in zip(self.accuracies[OURS], self.accuracies[rival], strict=True)]
        return statistics.mean(changes), statistics.stdev(changes) / len(changes) ** 0.5


def read_cells(path: Path, sides: Sequence[str], ways: Sequence[str]) -> tuple[list[int], list[Cell]]:
    """The seeds with which everything was measured, and all cells."""
    found = {(r["data"], r["way"], r["each"], r["side"], r["seed"]): 100 * r["test"] for r in read_results(path)}
    names, every = dict.fromkeys(key[0] for key in found), sorted({key[-1] for key in found})
    places = [(name, way, each) for name in names for way in ways for each in EACH]
    seeds = [s for s in every if all((*place, side, s) in found for place in places for side in sides)]
    return seeds, [Cell(*p, {side: [found[*p, side, s] for s in seeds] for side in sides}) for p in places]


def show(path: Path, rivals: Sequence[str], ways: Sequence[str]) -> None:
    """Mean and standard deviation of each cell, then our lead over each rival."""
    seeds, cells = read_cells(path, [OURS, *rivals], ways)
    if len(seeds) < 2:
        print(f"{len(seeds)} seeds are complete: two are needed.")
        return
    print(f"Seeds {', '.join(map(str, seeds))}.\n\n| set, labels per class | {' | '.join([OURS, *rivals])} |")
    print("|---" * (2 + len(rivals)) + "|")
    for cell in cells:
        shown = (f"{statistics.mean(a):.1f} ± {statistics.stdev(a):.1f}" for a in cell.accuracies.values())
        print(f"| {cell.name} | {' | '.join(shown)} |")
    print(f"\nMean lead in points, at {', '.join(map(str, EACH))} labels per class:")
    for rival in rivals:
        leads = (statistics.mean(cell.lead(rival)[0] for cell in cells if cell.each == each) for each in EACH)
        print(f"- {rival}: {', '.join(f'{lead:+.1f}' for lead in leads)}")
    print("\nLead over the best other of each cell, with its standard error:")
    for cell in cells:
        best = max(rivals, key=lambda rival: statistics.mean(cell.accuracies[rival]))
        lead, error = cell.lead(best)
        where = "behind by more than one error" if lead < -error else "ahead" if lead > 0 else "within one error"
        print(f"- {cell.name}: {lead:+.1f} ± {error:.1f}, {best}: {where}")
    print("\nBehind by more than two standard errors:")
    for cell in cells:
        for rival in rivals:
            lead, error = cell.lead(rival)
            if lead < -2 * error:
                print(f"- {cell.name}: {lead:+.1f} ± {error:.1f}, {rival}")
