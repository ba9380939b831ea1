"""`fewlabel demo`: two labels per class, and how much the unlabelled rest helps.

On scikit-learn's digits, from scratch; or, with --photos, on tiles cut from scikit-learn's two photographs, on top of a
pre-trained encoder.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from .data import Dataset, Examples, Images, encoded, load
from .data.examples import numbered
from .encoders import ENCODERS, PHOTOS, find_encoder
from .errors import UserError
from .evaluate import accuracy
from .runs import Run, RunDirectory, train
from .training import Recipe, make_plan

TILE = 32  # side in pixels
REGIONS = {  # class -> photograph and rectangles (left, top, right, bottom) that show nothing else
    "leaves": ("flower.jpg", [(0, 0, 160, 416), (448, 0, 640, 352)]),
    "pagoda": ("china.jpg", [(104, 80, 296, 336)]),
    "petals": ("flower.jpg", [(214, 126, 406, 318)]),
    "sky": ("china.jpg", [(336, 0, 624, 160), (0, 0, 96, 128)]),
    "trees": ("china.jpg", [(416, 331, 640, 427), (64, 363, 288, 427), (576, 171, 640, 331)]),
    "water": ("china.jpg", [(352, 224, 544, 288)]),
}


@dataclass(frozen=True)
class Demo:
    """Accuracies on the same test images, from the same labels."""

    labels: int
    tested: int
    labels_alone: float
    label_spreading: float
    fewlabel: float
    run: Run


def demo_recipe(seed: int, out: str | None) -> Recipe:
    """ICL-SSL with distribution alignment, which helps with very few labels and classes of equal size."""
    return Recipe(
        data="digits",
        labels_per_class=2,
        method="icl-ssl",
        settings={"fixmatch.align": 1.0, "icl.weight": 0.5},
        batch=64,
        mu=1,
        steps=1000,
        seed=seed,
        evaluations=5,
        out=out or f"runs/demo-{seed}",
    )


def photos_recipe(seed: int, out: str | None) -> Recipe:
    return Recipe(
        data="tiles",
        labels_per_class=2,
        encoder="lite0",
        steps=500,
        seed=seed,
        evaluations=5,
        out=out or f"runs/demo-photos-{seed}",
    )


def demo(
    seed: int = 0, out: str | None = None, *, photos: bool = False, overwrite: bool = False, quiet: bool = False
) -> Demo:
    if photos and not ENCODERS["lite0"].installed:
        raise UserError(f"the demo with photographs needs a pre-trained encoder: {PHOTOS}.")
    recipe = photos_recipe(seed, out) if photos else demo_recipe(seed, out)
    dataset = encoded(photo_tiles(), find_encoder("lite0")) if photos else load("digits")
    if out and not overwrite and RunDirectory(Path(out)).facts():
        raise UserError(f"{out} already holds a run: replace it with --overwrite.")
    run = train(recipe, dataset, overwrite=overwrite or out is None, quiet=quiet)
    assert run.accuracy is not None and run.floor is not None and dataset.test is not None
    labels = recipe.labels_per_class * len(dataset.train.classes) if recipe.labels_per_class else 0
    return Demo(labels, len(dataset.test), run.floor, label_spreading(recipe, dataset), run.accuracy, run)


def photo_tiles() -> Dataset:
    """Tiles of two photographs, none of which overlap; every third one is held out."""
    from sklearn.datasets import load_sample_image

    tiles, labels = [], []
    for number, (photograph, rectangles) in enumerate(REGIONS.values()):
        pixels = load_sample_image(photograph)
        for left, top, right, bottom in rectangles:
            for y in range(top, bottom - TILE + 1, TILE):
                for x in range(left, right - TILE + 1, TILE):
                    tiles.append(pixels[y : y + TILE, x : x + TILE].transpose(2, 0, 1))
                    labels.append(number)
    held_out = np.arange(len(tiles)) % 3 == 2

    def part(name: str, chosen: np.ndarray) -> Examples:
        count = int(chosen.sum())
        stack = torch.from_numpy(np.stack(tiles)[chosen])
        return Images(stack, torch.tensor(labels)[torch.from_numpy(chosen)], tuple(REGIONS), numbered(name, count))

    return Dataset("tiles", part("train", ~held_out), part("test", held_out), flip=True)


def label_spreading(recipe: Recipe, dataset: Dataset) -> float:
    """scikit-learn's LabelSpreading on the same labels, with a 7-nearest-neighbour kernel."""
    from sklearn.semi_supervised import LabelSpreading

    assert dataset.test is not None
    labels = torch.full_like(dataset.train.labels, -1)
    labelled = make_plan(recipe, dataset).labelled
    labels[labelled] = dataset.train.labels[labelled]
    train_rows, test_rows = (part.inputs.flatten(1).double().numpy() for part in (dataset.train, dataset.test))
    model = LabelSpreading(kernel="knn", n_neighbors=7).fit(train_rows, labels.numpy())
    with np.errstate(invalid="ignore"):  # an image that no label reaches has no probabilities
        return accuracy(torch.from_numpy(model.predict(test_rows)), dataset.test.labels)
