"""`fewlabel demo`: twenty labels of scikit-learn's digits, and what the unlabelled rest is worth."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from .data import Dataset, load
from .errors import UserError
from .evaluate import accuracy
from .runs import Run, RunDirectory, train
from .training import Recipe, make_plan


@dataclass(frozen=True)
class Demo:
    """Accuracies on the same 500 test images, from the same 20 labels."""

    labels_alone: float
    label_spreading: float
    icl_ssl: float
    run: Run


def demo_recipe(seed: int, out: str | None) -> Recipe:
    """ICL-SSL with distribution alignment, which helps where classes are of equal size and labels very few."""
    return Recipe(
        data="digits",
        labels_per_class=2,
        method="icl-ssl",
        settings={"fixmatch.align": 1.0},
        batch=64,
        mu=1,
        steps=1000,
        seed=seed,
        evaluations=5,
        out=out or f"runs/demo-{seed}",
    )


def demo(seed: int = 0, out: str | None = None, *, overwrite: bool = False, quiet: bool = False) -> Demo:
    dataset = load("digits")
    recipe = demo_recipe(seed, out)
    if out and not overwrite and RunDirectory(Path(out)).facts():
        raise UserError(f"{out} already holds a run: replace it with --overwrite.")
    run = train(recipe, dataset, overwrite=overwrite or out is None, quiet=quiet)
    assert run.accuracy is not None and run.floor is not None
    return Demo(run.floor, label_spreading(recipe, dataset), run.accuracy, run)


def label_spreading(recipe: Recipe, dataset: Dataset) -> float:
    """scikit-learn's LabelSpreading on the same labels, with a 7-nearest-neighbour kernel."""
    from sklearn.semi_supervised import LabelSpreading

    assert dataset.test is not None
    labels = torch.full_like(dataset.train.labels, -1)
    labelled = make_plan(recipe, dataset).labelled
    labels[labelled] = dataset.train.labels[labelled]
    train_rows, test_rows = (part.pixels.flatten(1).double().numpy() / 255 for part in (dataset.train, dataset.test))
    model = LabelSpreading(kernel="knn", n_neighbors=7).fit(train_rows, labels.numpy())
    with np.errstate(invalid="ignore"):  # an image that no label reaches has no probabilities
        return accuracy(torch.from_numpy(model.predict(test_rows)), dataset.test.labels)
