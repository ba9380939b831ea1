"""Vectors: ours beside what a scikit-learn user would take instead, on the same splits.

    python -m bench.vectors --root DIR                              digits, wine, breast cancer, MNIST as vectors
    python -m bench.vectors --root DIR --sentences sentences.npz    and embeddings of sentences, see bench/sentences.py

2, 5 and 10 labels per class, seeds 0 to 4. A seed chooses the test rows (3 of 10), the labelled rows and everything
else random. Of large sets 10,000 rows are taken. Columns are standardised, which ours does by itself, unless it says
"unscaled". Results are kept in --out: the same command goes on from there.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from fewlabel import FewLabelClassifier, few_label_split, load

ROWS = 10_000
Rows = tuple[NDArray[Any], NDArray[Any]]


def data_sets(root: str | None, sentences: Path | None) -> dict[str, Callable[[], Rows]]:
    sets: dict[str, Callable[[], Rows]] = {
        "digits": lambda: load_digits(return_X_y=True),
        "wine": lambda: load_wine(return_X_y=True),
        "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    }
    if root is not None:
        sets["MNIST"] = lambda: mnist(root)
    if sentences is not None:
        sets["sentences"] = lambda: (np.load(sentences)["x"], np.load(sentences)["y"])
    return sets


def mnist(root: str) -> Rows:
    train = load("mnist", root).train
    return train.pixels.flatten(1).numpy(), train.labels.numpy()


def scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def ours(method: str, **settings: Any) -> Callable[[int], Any]:
    return lambda seed: FewLabelClassifier(method, random_state=seed, **settings)


# Each is given the seed. Those that know no unlabelled rows get the labelled ones alone.
ALONE = {"logistic regression", "logistic regression, unscaled"}
SIDES: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: scaled(LogisticRegression(max_iter=2000)),
    "logistic regression, unscaled": lambda seed: LogisticRegression(max_iter=2000),
    "LabelSpreading": lambda seed: scaled(LabelSpreading(kernel="knn", n_neighbors=7)),
    "LabelSpreading, unscaled": lambda seed: LabelSpreading(kernel="knn", n_neighbors=7),
    "LabelPropagation": lambda seed: scaled(LabelPropagation(kernel="knn", n_neighbors=7)),
    "SelfTraining(SVC)": lambda seed: scaled(SelfTrainingClassifier(SVC(probability=True, random_state=seed))),
    "supervised": ours("supervised"),
    "pseudo-label": ours("pseudo-label"),
    "supervised+icl": ours("supervised+icl"),
    "fixmatch": ours("fixmatch"),
    "fixmatch, fully aligned": ours("fixmatch", settings={"fixmatch.align": 1}),
    "fixmatch+icl": ours("fixmatch+icl"),
    "fixmatch+icl, no first guess": ours("fixmatch+icl", settings={"fixmatch.guess": 0.0}),
    "fixmatch+icl, first guess": ours("fixmatch+icl", settings={"fixmatch.guess": 1.0}),
}


def one(rows: Rows, side: str, per_class: int, seed: int) -> dict[str, float]:
    """Accuracy on rows that were not there in training, and the seconds it took."""
    torch.set_num_threads(1)
    x, y = rows
    chosen = np.random.default_rng(seed).permutation(len(x))[:ROWS]
    x_train, x_test, y_train, y_test = train_test_split(
        x[chosen], y[chosen], test_size=0.3, random_state=seed, stratify=y[chosen]
    )
    labelled = few_label_split(torch.from_numpy(y_train), per_class, seed)
    known = np.full(len(y_train), -1)
    known[labelled] = y_train[labelled]
    model = SIDES[side](seed)
    began = time.perf_counter()
    if side in ALONE:
        model.fit(x_train[labelled], y_train[labelled])
    else:
        model.fit(x_train, known)
    accuracy = float((model.predict(x_test) == y_test).mean())
    return {"accuracy": accuracy, "seconds": time.perf_counter() - began}


def table(found: dict[str, dict[str, float]], counts: list[int], sides: list[str], sets: list[str]) -> str:
    """Markdown, for each number of labels: mean and standard deviation over seeds of the accuracy in percent."""

    def of(measure: str, *key: object) -> list[float]:
        return [value[measure] for name, value in found.items() if json.loads(name)[: len(key)] == list(key)]

    lines = []
    for count in counts:
        head = " | ".join(sets)
        lines += [f"| {count} labels per class | {head} |", "|---" * (len(sets) + 1) + "|"]
        for side in sides:
            cells = []
            for name in sets:
                percent = [100 * accuracy for accuracy in of("accuracy", name, side, count)]
                there = len(percent) > 1
                cells.append(f"{statistics.mean(percent):.1f} ± {statistics.stdev(percent):.1f}" if there else "")
            lines.append(f"| {side} | {' | '.join(cells)} |")
        lines.append("")
    lines += [f"| seconds, median | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for side in sides:
        medians = (statistics.median(of("seconds", name, side) or [0.0]) for name in sets)
        lines.append(f"| {side} | {' | '.join(f'{median:.1f}' for median in medians)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the official files of MNIST lie")
    parser.add_argument("--sentences", type=Path, help="an .npz file with x and y")
    parser.add_argument("--data", nargs="+", help="only these")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--labels", nargs="+", type=int, default=[2, 5, 10])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/vectors.json"))
    options = parser.parse_args()
    sets = data_sets(options.root, options.sentences)
    names = options.data or list(sets)
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        work = [
            [name, side, count, seed] for side in options.sides for count in options.labels for seed in options.seeds
        ]
        left = [item for item in work if json.dumps(item) not in found]
        if not left:
            continue
        rows = sets[name]()
        calls = (delayed(one)(rows, side, count, seed) for _, side, count, seed in left)
        results = Parallel(n_jobs=options.jobs, return_as="generator")(calls)
        for item, result in zip(left, results, strict=True):
            found[json.dumps(item)] = result
            options.out.write_text(json.dumps(found, indent=1))
    print(table(found, options.labels, options.sides, names))


if __name__ == "__main__":
    main()
