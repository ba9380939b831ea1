"""CIFAR-10, 4 labels per class, from scratch, in half an hour: accuracy on the way, and what the features are worth.

    python -m bench.cifar --root DIR                        fixmatch and icl-ssl, seeds 0 and 1; supervised, seed 0
    python -m bench.cifar --root DIR --methods comatch --seeds 0 --minutes 10
    python -m bench.cifar --root DIR --show                 run nothing, show what there is

A run that was stopped goes on where it was. The last column tells features and labels apart: how often a logistic
regression is right that gets the network's features of 10,000 training images with all their labels.
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fewlabel import Recipe, load, load_model, train
from fewlabel.charts import BLUE, GREEN, GREY, ORANGE
from fewlabel.data import Dataset

PROBED = 10_000  # training images
COLOURS = {"fixmatch": ORANGE, "icl-ssl": BLUE, "supervised": GREY}


def probe(run: Path, dataset: Dataset) -> float:
    """Accuracy of a linear classifier on the features, with many labels."""
    assert dataset.test is not None
    trained = load_model(run, "cpu")
    x, x_test = (trained.features(pixels) for pixels in (dataset.train.inputs[:PROBED], dataset.test))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x, dataset.train.labels[:PROBED])
    return float(model.score(x_test, dataset.test.labels))


def curve(run: Path) -> tuple[list[float], list[float]]:
    """Share of the run that is done, and test accuracy in percent by then."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = json.loads((run / "recipe.json").read_text())["steps"]
    looks = [line for line in lines if "accuracy" in line]
    return [line["step"] / steps for line in looks], [100 * line["accuracy"] for line in looks]


def draw(runs: list[tuple[str, int, Path]], minutes: float, path: Path) -> None:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for method, seed, run in runs:
        share, accuracy = curve(run)
        style = "-" if seed == 0 else "--"
        label = f"{method}, seed {seed}"
        axes.plot([minutes * s for s in share], accuracy, style, color=COLOURS.get(method, GREEN), label=label)
    axes.set(xlabel="minutes", ylabel="test accuracy (%)", ylim=(0, None))
    axes.legend(frameon=False, fontsize=8, ncols=2)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, help="where the official files of CIFAR-10 lie")
    parser.add_argument("--methods", nargs="+", default=["fixmatch", "icl-ssl", "supervised"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", type=Path, default=Path("runs/cifar"))
    parser.add_argument("--show", action="store_true", help="run nothing, show what there is")
    options = parser.parse_args()
    dataset = load("cifar10", options.root)
    runs = [
        (method, seed, options.out / f"{method}-{seed}")
        for method in options.methods
        for seed in (options.seeds[:1] if method == "supervised" else options.seeds)
    ]
    if not options.show:
        for method, seed, run in runs:
            recipe = Recipe(
                data="cifar10",
                root=options.root,
                labels_per_class=4,
                network="cnn",
                method=method,
                minutes=options.minutes,
                evaluations=20,
                floor=False,
                seed=seed,
                out=str(run),
            )
            train(recipe, dataset, resume=True)
    there = [entry for entry in runs if (entry[2] / "model.json").exists()]
    print("| method | seed | steps | accuracy at 1/4, 1/2, 3/4 and the end (%) | features (%) |\n|---|---|---|---|---|")
    for method, seed, run in there:
        _, accuracy = curve(run)
        quarters = ", ".join(f"{accuracy[len(accuracy) * k // 4 - 1]:.1f}" for k in (1, 2, 3, 4))
        steps = json.loads((run / "recipe.json").read_text())["steps"]
        print(f"| `{method}` | {seed} | {steps:,} | {quarters} | {100 * probe(run, dataset):.1f} |", flush=True)
    draw(there, options.minutes, options.out / "curves.png")
    print(options.out / "curves.png")


if __name__ == "__main__":
    main()
