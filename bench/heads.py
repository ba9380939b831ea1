"""Which head for few labels on frozen features?

    python -m bench.heads --root DIR --clipart FOLDER            seeds 0 to 4: choose by hidden training labels
    python -m bench.heads --root DIR --clipart FOLDER --seeds 5 6 7 8 9 --heads "logistic regression" default
    python -m bench.heads --root DIR --encoder lite --sets cifar10 --labels 4 --drawn even --heads default
    python -m bench.heads --show

EfficientNet-Lite0 encodes 8,000 training and 4,000 test pictures of each set: CIFAR-10, CIFAR-100 with its 20 coarse
classes, SVHN, clip art (Debian's package openclipart-png; FOLDER is usr/share/openclipart/png within it; its 8 largest
classes, about 7,000 pictures in all) and a long-tailed part of CIFAR-10 (1:20, balanced accuracy). 1, 2, 4 and 10
labels per class are drawn evenly from each class ("even"), or as many at random ("random"). Results go line by line
into docs/results/heads.jsonl; a default is chosen by `hidden` of seeds 0 to 4 and confirmed by `test` of seeds 5 to 9.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from torch import Tensor
from torch.nn import functional

from bench import heads
from bench.results import FOLDER, keep_results, read_results
from fewlabel import FewLabelClassifier, load
from fewlabel.data import Dataset
from fewlabel.data.cifar import read_batch
from fewlabel.encoders import Picture, encode_pictures, find_encoder
from fewlabel.methods import METHODS, Outputs, Problem, Step
from fewlabel.methods.fixmatch import FixMatch

RESULTS = FOLDER / "heads.jsonl"
SETS = ("cifar10", "cifar100", "svhn", "clipart", "tail")
ENCODER = "lite0"
TRAIN, TEST = 8000, 4000
NOT_A_CLASS = {"unsorted", "special", "decorations"}  # folders of the clip art


class Rows(NamedTuple):
    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def features(method: str, **settings: Any) -> Callable[[int], Any]:
    return lambda seed: FewLabelClassifier(method, settings=settings, steps=600, random_state=seed)


class ClassWeighted(FixMatch):
    """FixMatch whose labelled term counts every class alike, however many labels it has."""

    weights: Tensor

    def build(self, problem: Problem) -> None:
        super().build(problem)
        counts = torch.bincount(problem.labels, minlength=problem.classes).clamp(min=1)
        self.register_buffer("weights", len(problem.labels) / (problem.classes * counts.float()))

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        terms = super().loss(step, out)
        each = functional.cross_entropy(out["labelled"].logits, step.labels, reduction="none")
        terms["labelled"] = (self.weights[step.labels] * each).mean()
        return terms


METHODS["class-weighted"] = ClassWeighted


class FromClassMeans:
    """The default, with a head that starts at the mean features of each class."""

    def __init__(self, seed: int) -> None:
        self.model = features("icl-ssl", **{"fixmatch.guess": 1.0})(seed).set_params(steps=1, warm_start=True)

    def fit(self, rows: Any, labels: Any) -> None:
        found = self.model.fit(rows, labels).transform(rows)
        means = np.stack([found[labels == label].mean(0) for label in self.model.classes_]) - found.mean(0)
        head = self.model.model_.network.head
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(5 * means / np.linalg.norm(means, axis=1, keepdims=True)))
            head.bias.zero_()
        self.model.set_params(steps=600).fit(rows, labels)

    def predict(self, rows: Any) -> Any:
        return self.model.predict(rows)


class AverageOfEncoders:
    """The default on each of the encoders that stand side by side, and the mean of their probabilities."""

    def __init__(self, seed: int, parts: int = 3) -> None:
        self.models = [features("icl-ssl", **{"fixmatch.guess": 1.0})(seed) for _ in range(parts)]

    def fit(self, rows: Any, labels: Any) -> None:
        for model, part in zip(self.models, np.split(rows, len(self.models), axis=1), strict=True):
            model.fit(np.ascontiguousarray(part), labels)

    def predict(self, rows: Any) -> Any:
        parts = np.split(rows, len(self.models), axis=1)
        found = [model.predict_proba(part) for model, part in zip(self.models, parts, strict=True)]
        return self.models[0].classes_[np.mean(found, axis=0).argmax(1)]


HEADS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "default": features("icl-ssl", **{"fixmatch.guess": 1.0}),
    "no first guess": features("icl-ssl", **{"fixmatch.guess": 0.0}),
    "no first guess, fully aligned": features("icl-ssl", **{"fixmatch.guess": 0.0, "fixmatch.align": 1.0}),
    "first guess alone": features("fixmatch", **{"fixmatch.guess": 1.0, "fixmatch.weight": 0.0}),
    "freematch": features("freematch"),
    "softmatch": features("softmatch"),
    "adamatch": features("adamatch"),
    "simmatch": features("simmatch"),
    "class-weighted labels": features("class-weighted+icl", **{"class-weighted.guess": 1.0}),
    "from class means": FromClassMeans,
    "average of encoders": AverageOfEncoders,  # for --encoder lite
}
GRID = ("logistic regression", "default", "no first guess")  # the others are compared with 4 labels on two sets only
SCREENED = ("cifar10", "clipart")


def read_set(name: str, root: Path, clipart: Path | None, encoder: str) -> Rows:
    """The features of one set and its labels."""
    if name == "tail":
        return long_tail(read_set("cifar10", root, clipart, encoder))
    if name == "clipart":
        assert clipart is not None, "give --clipart"
        return read_clipart(clipart, encoder)
    data = load(name, root)
    assert data.test is not None
    labels = [part.labels.numpy() for part in (data.train, data.test)]
    if name == "cifar100":
        labels = [read_batch(root / "cifar-100-python" / part, "coarse_labels")[1] for part in ("train", "test")]
    return encoded_parts(data, labels, encoder)


def encoded_parts(data: Dataset, labels: list[NDArray[np.int64]], encoder: str) -> Rows:
    found: list[Any] = []
    for part, known, count in zip((data.train, data.test), labels, (TRAIN, TEST), strict=True):
        assert part is not None
        rows = np.sort(np.random.default_rng(0).permutation(len(part))[:count])
        pictures: list[Picture] = [row.numpy() for row in part.inputs[torch.from_numpy(rows)]]
        features = encode_pictures(find_encoder(encoder), pictures).features.numpy()
        found += [features, known[rows].astype(np.int64)]
    return Rows(*found)


def read_clipart(folder: Path, encoder: str) -> Rows:
    paths = [path for path in sorted(folder.rglob("*.png")) if len(path.relative_to(folder).parts) > 1]
    tops = np.array([path.relative_to(folder).parts[0] for path in paths])
    classes = [top for top in np.unique(tops) if top not in NOT_A_CLASS and (tops == top).sum() >= 150]
    paths = [path for path, top in zip(paths, tops, strict=True) if top in classes]
    found = encode_pictures(find_encoder(encoder), paths)
    labels = np.array([classes.index(paths[row].relative_to(folder).parts[0]) for row in found.rows])
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    rows = found.features.numpy()
    return Rows(rows[train], labels[train], rows[test], labels[test])


def long_tail(rows: Rows) -> Rows:
    """The last class has a twentieth of the pictures of the first, in training."""
    draw, labels = np.random.default_rng(1), rows.train_labels
    kept = []
    for label in range(10):
        there = np.flatnonzero(labels == label)
        kept.append(draw.choice(there, round(len(there) * 20 ** (-label / 9)), replace=False))
    chosen = np.sort(np.concatenate(kept))
    return Rows(rows.train[chosen], labels[chosen], rows.test, rows.test_labels)


def draw_labels(labels: NDArray[np.int64], each: int, way: str, seed: int) -> NDArray[np.int64]:
    draw, classes = np.random.default_rng((seed, each)), np.unique(labels)
    if way == "random":
        return draw.choice(len(labels), each * len(classes), replace=False)
    return np.concatenate([draw.choice(np.flatnonzero(labels == label), each, replace=False) for label in classes])


def run(rows: Rows, data: str, each: int, way: str, seed: int, head: str, encoder: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # alarms
    labelled = draw_labels(rows.train_labels, each, way, seed)
    model, began = HEADS[head](seed), time.perf_counter()
    if head == "logistic regression":
        model.fit(rows.train[labelled], rows.train_labels[labelled])
    else:
        known = np.full(len(rows.train_labels), -1)
        known[labelled] = rows.train_labels[labelled]
        model.fit(rows.train, known)
    seconds = time.perf_counter() - began
    hidden = np.ones(len(rows.train_labels), bool)
    hidden[labelled] = False
    accuracies = {
        "hidden": score(data, rows.train_labels[hidden], model.predict(rows.train[hidden])),
        "test": score(data, rows.test_labels, model.predict(rows.test)),
    }
    place = {"data": data, "each": each, "way": way, "seed": seed, "head": titled(head, encoder)}
    return {**place, **accuracies, "seconds": round(seconds, 1)}


def titled(head: str, encoder: str) -> str:
    return head if encoder == ENCODER else f"{head} ({encoder})"


def score(data: str, truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    if data == "tail":
        return float(balanced_accuracy_score(truth, predicted))
    return float((truth == predicted).mean())


def cells(
    names: list[str], sets: list[str], labels: list[int], drawn: list[str]
) -> Iterator[tuple[str, int, str, str]]:
    for head in names:
        for data in sets:
            for each in labels:
                for way in drawn:
                    uneven = head == "class-weighted labels"  # which is the same where labels are even
                    if head in GRID or (data in SCREENED and each == 4 and way == ("random" if uneven else "even")):
                        yield data, each, way, head


def show() -> None:
    """Means over seeds, and the paired difference to logistic regression with its standard error."""
    found = read_results(RESULTS)
    for title, measure, seeds in (("chosen on hidden labels", "hidden", range(5)), ("test", "test", range(5, 10))):
        print(f"\n{title}: seeds {seeds[0]} to {seeds[-1]}\n")
        table = {(r["data"], r["way"], r["each"], r["head"], r["seed"]): 100 * r[measure] for r in found}
        print("| data | labels | per class | head | accuracy | over logistic regression |\n|---|---|---|---|---|---|")
        for data in SETS:
            for way in ("even", "random"):
                for each in (1, 2, 4, 10):
                    for head in (*HEADS, *sorted({r["head"] for r in found} - set(HEADS))):
                        values = [table.get((data, way, each, head, seed)) for seed in seeds]
                        base = [table.get((data, way, each, "logistic regression", seed)) for seed in seeds]
                        pairs = [(v, b) for v, b in zip(values, base, strict=True) if v is not None and b is not None]
                        if len(pairs) > 1:
                            changes = [value - base for value, base in pairs]
                            mean, error = statistics.mean(changes), statistics.stdev(changes) / len(changes) ** 0.5
                            value = statistics.mean(value for value, _ in pairs)
                            print(f"| {data} | {way} | {each} | {head} | {value:.1f} | {mean:+.1f} ± {error:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--clipart", type=Path)
    parser.add_argument("--heads", nargs="+", default=list(HEADS))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--labels", nargs="+", type=int, default=[4, 1, 2, 10], help="per class")
    parser.add_argument("--drawn", nargs="+", default=["even", "random"])
    parser.add_argument("--encoder", default=ENCODER)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        there = {tuple(line[key] for key in ("data", "each", "way", "head", "seed")) for line in read_results(RESULTS)}
        sets = {name: read_set(name, options.root, options.clipart, options.encoder) for name in options.sets}
        chosen = list(cells(options.heads, options.sets, options.labels, options.drawn))
        work = [(*cell, seed) for seed in options.seeds for cell in chosen]
        task = joblib.delayed(heads.run)  # by its module, since __main__ has another name in a worker
        calls = (
            task(sets[data], data, each, way, seed, head, options.encoder)
            for data, each, way, head, seed in work
            if (data, each, way, titled(head, options.encoder), seed) not in there
        )
        keep_results(RESULTS, calls, options.jobs)
    show()


if __name__ == "__main__":
    main()
