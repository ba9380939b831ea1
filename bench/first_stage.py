"""Training from scratch on a CPU: which first stage without labels, and what the whole recipe comes to.

    python -m bench.first_stage screen --root DIR               variants, 10 minutes each, judged by a probe
    python -m bench.first_stage screen --root DIR --minutes 12 --threads 1 --only cnn default cnn-3
    python -m bench.first_stage train --root DIR                30 and 60 minutes, 4 labels per class, seeds 0 to 2
    python -m bench.first_stage train --root DIR --data svhn --minutes 30
    python -m bench.first_stage train --root DIR --minutes 30 --steps 20672 --threads 1
                                                                the same with the steps that those minutes had room for
    python -m bench.first_stage probe --root DIR --runs RUN ... judge runs of `fewlabel pretrain cifar10`
    python -m bench.first_stage show                            the tables, from what there is

Every result is added to docs/results/first-stage.jsonl, and what is there is not run again. A run takes both cores: let
nothing else run beside it. The probe never looks at test images: networks are trained on the training images without
labels, and judged by logistic regression on 4 labels per class (mean of ten draws) and on 8,000 labels of the first
40,000 training images, tested on the others.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from bench.results import FOLDER, add_result, read_results
from fewlabel import Dataset, FewLabelClassifier, Recipe, load, pretrain, suggest, train
from fewlabel.evaluate import features_by
from fewlabel.networks.saved import load_network
from fewlabel.run_files import FIRST_STAGE
from fewlabel.runs.directory import RunDirectory
from fewlabel.runs.first_stage import encoded_by_first_stage

RESULTS = FOLDER / "first-stage.jsonl"
HELD_OUT = 40_000  # of the training images, from this one on
SCREEN_MINUTES = 10.0
# What a screen changes; the first is what all others are compared with.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "views of the full size": {"settings": {"simclr.views": "simclr"}},
    "float32": {"precision": "float32"},
    "full size and float32": {"settings": {"simclr.views": "simclr"}, "precision": "float32"},
    "learning rate 0.1": {"learning_rate": 0.1},
    "learning rate 0.6": {"learning_rate": 0.6},
    "temperature 0.5": {"settings": {"simclr.temperature": 0.5}},
    "temperature 0.1": {"settings": {"simclr.temperature": 0.1}},
    "batch 512": {"batch": 512},
    "cnn": {"network": "cnn"},
    "cnn-3": {"network": "cnn-3"},
    "wrn-10-1": {"network": "wrn-10-1"},
    "moco": {"method": "moco"},
    "barlow-twins": {"method": "barlow-twins"},
    "simsiam": {"method": "simsiam"},
    "icl": {"method": "icl"},
    "icl, temperature 0.2": {"method": "icl", "settings": {"icl.temperature": 0.2}},
}


# ---- screens


def screen(name: str, data: Dataset, minutes: float, threads: int | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        changes = VARIANTS[name]
        usual: dict[str, Any] = {"method": "simclr", "batch": 256, "minutes": minutes, "evaluations": 2}
        usual["threads"] = threads
        recipe = Recipe(data="cifar10", out=f"{folder}/run", **(usual | changes))
        run = pretrain(recipe, data, quiet=True)
        _, network = load_network(run)
        rows = features_by(network, data.train.inputs).numpy()
        history = RunDirectory(run).finished_history()
    labels = data.train.labels.numpy()
    return {
        "part": "screen",
        "variant": name,
        "minutes": minutes,
        "threads": threads,
        "steps": history[-1]["step"],
        "images_per_second": round(2 * recipe.batch * history[-1]["step"] / history[-1]["seconds"]),
        "neighbours": round(100 * history[-1]["neighbour_accuracy"], 2),
        **probe(rows, labels),
    }


def probe(rows: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[str, float]:
    rows = (rows - rows.mean(0)) / rows.std(0).clip(1e-6)
    train, test = slice(0, HELD_OUT), slice(HELD_OUT, None)

    def right(chosen: NDArray[np.int64], strength: float) -> float:
        model = LogisticRegression(C=strength, max_iter=200).fit(rows[chosen], labels[chosen])
        return 100 * float(model.score(rows[test], labels[test]))

    few = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        picks = [draw.choice(np.flatnonzero(labels[train] == label), 4, replace=False) for label in np.unique(labels)]
        few.append(right(np.concatenate(picks), 1.0))
    return {"few": round(statistics.mean(few), 2), "many": round(right(np.arange(8000), 0.01), 2)}


# ---- whole runs


def whole_run(
    place: dict[str, Any], root: str, out: Path, steps: int | None, threads: int | None
) -> list[dict[str, Any]]:
    """The documented command of one `place` (data, network, minutes, seed), and its features with labels by `suggest`.

    With the steps that the minutes had room for on two cores it can run beside other work.
    """
    data, network, minutes, seed = (place[name] for name in ("data", "network", "minutes", "seed"))
    length: dict[str, Any] = {"minutes": minutes} if steps is None else {"pretrain_steps": steps, "threads": threads}
    what = {"data": data, "root": root, "network": network, "out": str(out / f"{data}-{network}-{minutes:g}-{seed}")}
    recipe = Recipe(**what, labels_per_class=4, pretrain="simclr", seed=seed, **length)
    began = time.perf_counter()
    run = train(recipe, resume=True, quiet=True)
    facts = {"part": "train", **place}
    results = [
        facts
        | {
            "labels": "balanced",
            "accuracy": run.accuracy,
            "floor": run.floor,
            "steps": RunDirectory(run.directory).history(FIRST_STAGE)[-1]["step"],
            "took": round((time.perf_counter() - began) / 60, 2) if steps is None else None,
        }
    ]
    images = load(data, root)
    features = encoded_by_first_stage(RunDirectory(run.directory), images)
    assert features.test is not None
    count = 4 * len(images.train.classes)
    chosen = suggest(features.train.inputs.numpy(), count, seed=seed)
    labels = np.full(len(features.train), -1)
    labels[chosen] = features.train.labels.numpy()[chosen]
    head = FewLabelClassifier(steps=2000, random_state=seed).fit(features.train.inputs.numpy(), labels)
    right = head.predict(features.test.inputs.numpy()) == features.test.labels.numpy()
    seen = len(np.unique(labels[chosen]))  # a class that was not seen cannot be predicted
    results.append(facts | {"labels": "suggested", "accuracy": float(right.mean()), "classes": seen})
    return results


# ---- tables


def show() -> str:
    lines = [
        "| variant | minutes | threads | images/s | steps | 4 labels per class | 8,000 labels |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in read_results(RESULTS):
        if row["part"] == "screen":
            speed = f"{row['minutes']:g} | {row['threads'] or 'all'} | {row['images_per_second']:.0f} | {row['steps']}"
            lines.append(f"| {row['variant']} | {speed} | {row['few']:.1f} | {row['many']:.1f} |")
    cells: dict[tuple[str, str, float, str], list[float]] = defaultdict(list)
    for row in read_results(RESULTS):
        if row["part"] == "train" and row["accuracy"] is not None:
            cells[row["data"], row["network"], row["minutes"], row["labels"]].append(100 * row["accuracy"])
    lines += ["", "| data | network | minutes | labels | test accuracy | seeds |", "|---|---|---|---|---|---|"]
    for (data, network, minutes, labels), found in cells.items():
        spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
        each = ", ".join(f"{value:.1f}" for value in found)
        lines.append(f"| {data} | {network} | {minutes:g} | {labels} | {statistics.mean(found):.1f}{spread} | {each} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("screen", "train", "probe", "show"))
    parser.add_argument("--root", default=".", help="where the official files lie")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--network", default="cnn-2", help="of whole runs")
    parser.add_argument("--minutes", type=float, nargs="+")
    parser.add_argument("--steps", type=int, help="of the first stage, instead of timing them")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), help="variants to screen")
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/first-stage"))
    options = parser.parse_args()
    done = read_results(RESULTS)
    if options.part == "screen":
        data, (minutes,) = load("cifar10", options.root), options.minutes or [SCREEN_MINUTES]
        for name in options.only:
            same = {"part": "screen", "variant": name, "minutes": minutes, "threads": options.threads}
            if not any(same.items() <= row.items() for row in done):
                add_result(RESULTS, screen(name, data, minutes, options.threads))
    elif options.part == "train":
        for minutes in options.minutes or [30.0, 60.0]:
            for seed in options.seeds:
                place = {"data": options.data, "network": options.network, "minutes": minutes, "seed": seed}
                if not any(({"part": "train"} | place).items() <= row.items() for row in done):
                    for line in whole_run(place, options.root, options.out, options.steps, options.threads):
                        add_result(RESULTS, line)
    elif options.part == "probe":
        data = load("cifar10", options.root)
        for path in options.runs:
            history = RunDirectory(path).finished_history()
            facts = {"part": "probe", "run": path.name, "steps": history[-1]["step"]}
            found = probe(features_by(load_network(path)[1], data.train.inputs).numpy(), data.train.labels.numpy())
            add_result(RESULTS, facts | {"neighbours": round(100 * history[-1]["neighbour_accuracy"], 2)} | found)
    print(show())


if __name__ == "__main__":
    main()
