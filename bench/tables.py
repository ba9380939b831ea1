"""Tables: fewlabel beside what a scikit-learn user would take instead, on the same rows and labels.

    pip install rdata; pip download --no-deps palmerpenguins         penguins.csv of the wheel into DIR
    apt-get download r-cran-mlbench r-cran-kernlab                   dpkg-deb -x; their .rda files into DIR
    python -m bench.tables DIR
    python -m bench.tables --show

Seven sets: wine and breast cancer (scikit-learn), penguins (palmerpenguins: numbers, categories, missing values), votes
(mlbench's HouseVotes84: categories, missing values), DNA and satellite (mlbench), spam (kernlab). fewlabel reads a CSV
file, as `fewlabel train table.csv --label-column class` does. The others get numbers standardised, missing ones as the
median, and categories one-hot, by all training rows. Gradient boosting may split off single rows, since by default it
would not split so few at all. 2, 4 and 8 random labels per class. Defaults were chosen on seeds 0 to 4, the comparison
is of seeds 5 to 9. Each line of docs/results/tables.jsonl is one run; run the same command to continue.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading

from bench import tables as this
from bench.compared import EACH, OURS, STEPS, choose_labelled, divide, known_labels, show, some_rows
from bench.results import FOLDER, keep_results, read_results
from fewlabel import Recipe, load
from fewlabel.data import Roles
from fewlabel.evaluate import predict_probabilities
from fewlabel.training import Trainer, check_recipe, fit, make_plan

RESULTS = FOLDER / "tables.jsonl"
LABEL = "class"
ALONE = ("logistic regression", "gradient boosting")  # learn from the labels alone
RIVALS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=2000),
    "gradient boosting": lambda seed: HistGradientBoostingClassifier(min_samples_leaf=1, random_state=seed),
    "LabelSpreading": lambda seed: LabelSpreading(kernel="knn"),
}
Labels = NDArray[np.int64]


def of_scikit_learn(read: Callable[..., Any]) -> Callable[[Path], pd.DataFrame]:
    return lambda folder: read(as_frame=True).frame.rename(columns={"target": LABEL})


def of_r(name: str, label: str) -> Callable[[Path], pd.DataFrame]:
    def read(folder: Path) -> pd.DataFrame:
        import rdata  # type: ignore[import-not-found, unused-ignore]

        (frame,) = rdata.read_rda(folder / f"{name}.rda", default_encoding="utf8").values()
        return frame.rename(columns={label: LABEL})

    return read


def read_penguins(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "penguins.csv").rename(columns={"species": LABEL})


SETS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "wine": of_scikit_learn(load_wine),
    "breast cancer": of_scikit_learn(load_breast_cancer),
    "penguins": read_penguins,
    "votes": of_r("HouseVotes84", "Class"),
    "DNA": of_r("DNA", "Class"),
    "satellite": of_r("Satellite", "classes"),
    "spam": of_r("spam", "type"),
}


def read_set(name: str, folder: Path) -> tuple[pd.DataFrame, Labels]:
    """Columns to learn from, categories as pandas has them, and the labels."""
    frame = SETS[name](folder)
    labels = np.unique(frame[LABEL].astype(str), return_inverse=True)[1].astype(np.int64)
    chosen = some_rows(labels)
    columns = frame.drop(columns=LABEL).iloc[chosen].reset_index(drop=True)
    for column in columns.columns[[dtype.kind not in "biuf" for dtype in columns.dtypes]]:
        columns[column] = columns[column].astype(object).where(columns[column].notna(), None).astype("category")
    return columns, labels[chosen]


def prepare(train: pd.DataFrame) -> Any:
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_include="category")),
    ).fit(train)


def predict_ours(train: pd.DataFrame, known: Labels, parts: list[pd.DataFrame], seed: int) -> list[Labels]:
    """As the command does it, from a CSV file; a prediction for each of the parts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        train.assign(**{LABEL: pd.Series(known, index=train.index).replace(-1, None)}).to_csv(path, index=False)
        dataset = load(path, roles=Roles(label=LABEL))
    plan = make_plan(check_recipe(Recipe(data="table.csv", steps=STEPS, seed=seed, device="cpu")), dataset)
    trainer = Trainer(plan, dataset)
    fit(trainer, [], 1)
    classes, network = np.array([int(name) for name in dataset.train.classes]), trainer.averaged().cpu()
    rows = [dataset.train.kind.read(part) for part in parts]
    return [classes[predict_probabilities(network, part).argmax(1).numpy()] for part in rows]


def run(table: tuple[pd.DataFrame, Labels], data: str, each: int, side: str, seed: int) -> dict[str, Any]:
    """Accuracy on the test rows, and on the training rows whose labels were hidden."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    columns, labels = table
    train, test = divide(labels, seed)
    truth = labels[train]
    labelled = choose_labelled(truth, each, "random", seed)
    known, hidden = known_labels(truth, labelled), np.setdiff1d(np.arange(len(train)), labelled)
    frames = [columns.iloc[train[hidden]], columns.iloc[test]]
    began = time.perf_counter()
    if side == OURS:
        answers = predict_ours(columns.iloc[train], known, frames, seed)
    else:
        prepared = prepare(columns.iloc[train])
        whole, model = prepared.transform(columns.iloc[train]), RIVALS[side](seed)
        frames = [prepared.transform(frame) for frame in frames]
        model.fit(whole[labelled], truth[labelled]) if side in ALONE else model.fit(whole, known)
        answers = [model.predict(frame) for frame in frames]
    place = {"data": data, "each": each, "way": "random", "side": side, "seed": seed}
    found = {
        "hidden": float((answers[0] == truth[hidden]).mean()),
        "test": float((answers[1] == labels[test]).mean()),
    }
    return {**place, **found, "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the files lie")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--sides", nargs="+", default=[*RIVALS, OURS])
    parser.add_argument("--labels", nargs="+", type=int, default=list(EACH), help="per class")
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6, 7, 8, 9])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--show", action="store_true", help="print the comparison only")
    options = parser.parse_args()
    if not options.show:
        there = {tuple(line[key] for key in ("data", "each", "side", "seed")) for line in read_results(RESULTS)}
        sets = {name: read_set(name, options.folder) for name in options.sets}
        task = joblib.delayed(this.run)  # by its module, since __main__ has another name in a worker
        work = [
            (name, each, side, seed)
            for seed in options.seeds
            for side in options.sides
            for name in options.sets
            for each in options.labels
        ]
        keep_results(RESULTS, (task(sets[item[0]], *item) for item in work if item not in there), options.jobs)
    show(RESULTS, list(RIVALS), ("random",))


if __name__ == "__main__":
    main()
