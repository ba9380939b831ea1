"""Which pictures to label first? Ways to choose them without labels, beside random ones and as many of each class.

    python -m bench.suggest --root DIR --sentences sentences.npz            seeds 0 to 4: choose, by the first guess
    python -m bench.suggest --root DIR --sentences sentences.npz --seeds 5 6 7 8 9 --ways random balanced suggest
    python -m bench.suggest --root DIR --judge default --ways random suggest --sets cifar10 --seeds 5 6 7 8 9
    python -m bench.suggest --show

1, 2 and 4 labels per class (that many times the number of classes; only `balanced` knows them). EfficientNet-Lite0
features of 8,000 pictures each of CIFAR-10, CIFAR-100 (20 coarse classes), SVHN and a long-tailed part of CIFAR-10
(1:20, balanced accuracy); pixels of 8,000 MNIST images; embeddings of 8,000 sentences (bench/sentences.py). Judged by
the unlabelled rows: by `first_guess` alone, which takes seconds, or by the default head (--judge default). Results go
line by line into docs/results/suggest.jsonl.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from bench import suggest as here
from bench.heads import read_set, score
from bench.results import FOLDER, keep_results, read_results
from fewlabel import FewLabelClassifier, load
from fewlabel import suggest as fewlabel_suggest
from fewlabel.guessing import Prepared, first_guess, nearest

RESULTS = FOLDER / "suggest.jsonl"
SETS = ("cifar10", "cifar100", "svhn", "tail", "mnist", "sentences")
ROWS = 8000
HEADS = {"default": 1.0, "no first guess": 0.0}  # judge -> fixmatch.guess
Rows = NDArray[np.float32]
Positions = NDArray[np.int64]


def by_chance(rows: Rows, n: int, labels: Positions, seed: int) -> Positions:
    return np.random.default_rng((seed, n)).choice(len(rows), n, replace=False)


def balanced(rows: Rows, n: int, labels: Positions, seed: int) -> Positions:
    """As many of each class, which nobody without labels can draw."""
    draw, classes = np.random.default_rng((seed, n)), np.unique(labels)
    each = n // len(classes)
    return np.concatenate([draw.choice(np.flatnonzero(labels == label), each, replace=False) for label in classes])


def suggested(rows: Rows, n: int, labels: Positions, seed: int) -> Positions:
    return fewlabel_suggest(rows, n, seed=seed)


def typical(rows: Rows, n: int, labels: Positions, seed: int) -> Positions:
    """TypiClust as published: n groups, in each the row with the nearest neighbours."""
    small = Prepared(rows).reduced()
    group = KMeans(n, n_init=1, random_state=seed).fit(small).labels_
    found = []
    for g in range(n):
        members = np.flatnonzero(group == g)
        count = max(1, min(20, len(members) // 2))
        if len(members) > 1:
            _, similarity = nearest(small[members], small[members], min(count, len(members) - 1), skip_self=True)
            distance = np.sqrt(np.maximum(2 - 2 * similarity, 0)).mean(1)
            found.append(members[distance.argmin()])
        else:
            found.append(members[0])
    return np.array(found)


def centres(rows: Rows, n: int, labels: Positions, seed: int) -> Positions:
    """n groups, in each the row that is nearest to the centre."""
    small = Prepared(rows).reduced()
    found = KMeans(n, n_init=1, random_state=seed).fit(small)
    distance = found.transform(small)
    distance[found.labels_[:, None] != np.arange(n)] = np.inf
    return distance.argmin(0)


def coverage(rows: Rows, n: int, labels: Positions, seed: int) -> Positions:
    """ProbCover (https://arxiv.org/abs/2205.11320): greedily, balls that cover most rows not yet covered.

    Their radius is the largest in which 95% of balls hold one of n groups only.
    """
    small = Prepared(rows).reduced().astype(np.float32)
    group = KMeans(n, n_init=1, random_state=seed).fit(small).labels_
    draw = np.random.default_rng(seed)
    some = draw.choice(len(small), min(500, len(small)), replace=False)
    similarity = small[some] @ small.T
    radius = 1.0
    for candidate in np.arange(0.95, 0.0, -0.05):
        pure = [(group[row > candidate] == group[i]).all() for i, row in zip(some, similarity, strict=True)]
        if np.mean(pure) < 0.95:
            break
        radius = candidate
    near = small @ small.T > radius
    left, found = np.ones(len(small), bool), list[int]()
    for _ in range(n):
        gain = near[:, left].sum(1) + draw.random(len(small)) / 2
        gain[found] = -1
        found.append(int(gain.argmax()))  # by chance where all are covered
        left &= ~near[found[-1]]
    return np.array(found)


WAYS: dict[str, Callable[[Rows, int, Positions, int], Positions]] = {
    "random": by_chance,
    "balanced": balanced,
    "suggest": suggested,
    "typiclust": typical,
    "centres": centres,
    "probcover": coverage,
}


def rows_of(name: str, root: Path, sentences: Path | None) -> tuple[Rows, Positions]:
    if name == "mnist":
        images = load("mnist", root).train
        chosen = np.random.default_rng(0).permutation(len(images))[:ROWS]
        return images.inputs[chosen].flatten(1).float().numpy(), images.labels[chosen].numpy()
    if name == "sentences":
        assert sentences is not None, "give --sentences"
        table = np.load(sentences)
        chosen = np.random.default_rng(0).permutation(len(table["y"]))[:ROWS]
        return table["x"][chosen], table["y"][chosen]
    found = read_set(name, root, None, "lite0")
    return found.train, found.train_labels


def run(rows: Rows, labels: Positions, data: str, each: int, way: str, seed: int, judge: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    chosen = WAYS[way](rows, each * len(np.unique(labels)), labels, seed)
    if judge in HEADS:
        known = np.full(len(labels), -1)
        known[chosen] = labels[chosen]
        head = FewLabelClassifier("icl-ssl", settings={"fixmatch.guess": HEADS[judge]}, steps=600, random_state=seed)
        guess = head.fit(rows, known).predict(rows)
    else:
        guess = first_guess(rows, chosen, labels[chosen]).probabilities.argmax(1)
    hidden = np.ones(len(labels), bool)
    hidden[chosen] = False
    found = {"accuracy": score(data, labels[hidden], guess[hidden]), "classes": len(np.unique(labels[chosen]))}
    return {"data": data, "each": each, "way": way, "seed": seed, "judge": judge, **found}


def show() -> None:
    found = {(r["judge"], r["data"], r["each"], r["way"], r["seed"]): r for r in read_results(RESULTS)}
    for judge in ("first guess", *HEADS):
        for seeds in (range(5), range(5, 10)):
            print(f"\n{judge}, seeds {seeds[0]} to {seeds[-1]}: accuracy, over random, classes seen\n")
            print("| data | per class | " + " | ".join(WAYS) + " |\n|---|---|" + "---|" * len(WAYS))
            for data in SETS:
                for each in (1, 2, 4):
                    cells = [
                        cell(found, seeds, (judge, data, each, way), (judge, data, each, "random")) for way in WAYS
                    ]
                    if any(cells):
                        print(f"| {data} | {each} | {' | '.join(cells)} |")


def cell(found: dict[Any, dict[str, Any]], seeds: range, key: tuple[Any, ...], base: tuple[Any, ...]) -> str:
    lines = [(found.get((*key, seed)), found.get((*base, seed))) for seed in seeds]
    pairs = [(a, b) for a, b in lines if a is not None and b is not None]
    if len(pairs) < 2:
        return ""
    changes = [100 * (a["accuracy"] - b["accuracy"]) for a, b in pairs]
    error = statistics.stdev(changes) / len(changes) ** 0.5
    mean = 100 * statistics.mean(a["accuracy"] for a, _ in pairs)
    classes = statistics.mean(a["classes"] for a, _ in pairs)
    over = "" if key == base else f" ({statistics.mean(changes):+.1f} ± {error:.1f})"
    return f"{mean:.1f}{over}, {classes:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--judge", choices=("first guess", *HEADS), default="first guess")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=2, help="at a time, one thread each")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        keys = ("data", "each", "way", "seed", "judge")
        there = {tuple(line[key] for key in keys) for line in read_results(RESULTS)}
        sets = {name: rows_of(name, options.root, options.sentences) for name in options.sets}
        work = [
            (d, e, w, s, options.judge)
            for s in options.seeds
            for d in options.sets
            for e in (1, 2, 4)
            for w in options.ways
        ]
        task = joblib.delayed(here.run)  # by its module, since __main__ has another name in a worker
        calls = (task(*sets[item[0]], *item) for item in work if item not in there)
        keep_results(RESULTS, calls, options.jobs)
    show()


if __name__ == "__main__":
    main()
