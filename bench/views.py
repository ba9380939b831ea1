"""Do views that a frozen encoder makes beforehand pay? `--encoder-views K` with K = 0, 1, 2 and 4.

    python -m bench.views --root DIR            can be stopped and continued
    python -m bench.views --show

2,000 training pictures of a set, EfficientNet-Lite0, 4 labels per class, seeds 0 to 4. Judged by training pictures
whose labels were hidden. Results go line by line into docs/results/views.jsonl.
"""

import argparse
import statistics
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import torch

from bench import views
from bench.results import FOLDER, keep_results, read_results
from fewlabel import Dataset, Recipe, load
from fewlabel.data import encoded
from fewlabel.encoders import find_encoder
from fewlabel.evaluate import accuracy, predict_probabilities
from fewlabel.training import Trainer, check_recipe, fit, make_plan

RESULTS = FOLDER / "views.jsonl"
SETS, COUNTS, METHODS = ("cifar10", "svhn"), (0, 1, 2, 4), ("icl-ssl", "freematch")
PICTURES = 2000


def pictures(data: str, root: str | None) -> Dataset:
    """Some of the training pictures."""
    whole = load(data, root)
    rows = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(len(whole.train))[:PICTURES]))
    train = replace(
        whole.train,
        inputs=whole.train.inputs[rows],
        labels=whole.train.labels[rows],
        names=[whole.train.names[row] for row in rows.tolist()],
    )
    return replace(whole, train=train, test=None)


def run(data: str, root: str | None, method: str, count: int, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    dataset = encoded(pictures(data, root), find_encoder("lite0"), count)
    recipe = Recipe(data=data, root=root, labels_per_class=4, method=method, steps=600, seed=seed, device="cpu")
    trainer = Trainer(make_plan(check_recipe(recipe), dataset), dataset)
    fit(trainer)
    hidden = torch.ones(len(dataset.train), dtype=torch.bool)
    hidden[trainer.plan.labelled] = False
    rows = hidden.nonzero().flatten()
    predicted = predict_probabilities(trainer.averaged(), dataset.train.inputs[rows]).argmax(1)
    return key(data, method, count, seed) | {"hidden": accuracy(predicted, dataset.train.labels[rows])}


def key(data: str, method: str, count: int, seed: int) -> dict[str, Any]:
    return {"data": data, "method": method, "views": count, "seed": seed}


def show() -> None:
    """Means over seeds, and what views add to none, paired."""
    found = {(r["data"], r["method"], r["views"], r["seed"]): 100 * r["hidden"] for r in read_results(RESULTS)}
    print("| data | method | views | accuracy | over none |\n|---|---|---|---|---|")
    for data in SETS:
        for method in METHODS:
            for count in COUNTS:
                seeds = [s for *cell, s in found if cell == [data, method, count] and (data, method, 0, s) in found]
                if len(seeds) > 1:
                    values = [found[data, method, count, seed] for seed in seeds]
                    changes = [value - found[data, method, 0, seed] for value, seed in zip(values, seeds, strict=True)]
                    error = statistics.stdev(changes) / len(changes) ** 0.5
                    change = f"{statistics.mean(changes):+.1f} ± {error:.1f}"
                    print(f"| {data} | {method} | {count} | {statistics.mean(values):.1f} | {change} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    there = [{name: line[name] for name in key("", "", 0, 0)} for line in read_results(RESULTS)]
    for data in () if options.show else options.sets:
        for count in COUNTS:
            encoded(pictures(data, options.root), find_encoder("lite0"), count)  # once, before the runs
            work = [(method, seed) for seed in range(5) for method in METHODS]
            task = joblib.delayed(views.run)  # by its module, since __main__ has another name in a worker
            calls = (task(data, options.root, m, count, s) for m, s in work if key(data, m, count, s) not in there)
            keep_results(RESULTS, calls, options.jobs)
    show()


if __name__ == "__main__":
    main()
