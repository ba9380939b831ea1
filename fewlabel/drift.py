"""Find augmentations that change the meaning of pictures, after the paper's first finding.

For each operation small models are trained on the same labels with and without it, paired over seeds, and judged on
labelled pictures that were not trained on. Where accuracy drops by more than two standard errors, the operation is
flagged: it makes of some picture what another class looks like.
"""

import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import joblib
import torch
from matplotlib.figure import Figure
from torch import Tensor

from .augment import CHANGES, weak
from .augment.colour import grey, hue
from .augment.randaugment import LEVELS, OPERATIONS, apply_geometric, apply_point
from .augment.simclr import crop_and_resize, draw_boxes
from .augment.strong import cutout
from .charts import ORANGE
from .data import UNLABELLED, Dataset, Examples, few_label_split
from .data.examples import numbered
from .data.images import ImageKind, as_picture
from .data.kind import Making
from .errors import UserError, unknown
from .evaluate import accuracy
from .files import make_folder, write_csv
from .randomness import Draws, generator
from .terminal import with_progress
from .training import Recipe, Trainer, fit, make_plan

STEPS, BATCH, LEARNING_RATE = 200, 64, 0.05
MOST_LABELS, MOST_TESTS, FOLDS = 500, 4000, 10
CONTROL = "one-pixel-shift"  # can hardly change a meaning: were it flagged, no other verdict could be trusted
Operation = Callable[[Tensor, Draws], Tensor]


# ---- the operations, as strong as views make them; every image draws its own


def flip(images: Tensor, draws: Draws, side: int) -> Tensor:
    return images.flip(side)


def one_pixel_shift(images: Tensor, draws: Draws) -> Tensor:
    """Up, down, left or right; the edge is repeated."""
    padded = torch.nn.functional.pad(images.double(), (1, 1, 1, 1), "replicate").to(torch.uint8)
    height, width = images.shape[-2:]
    corners = ((0, 1), (2, 1), (1, 0), (1, 2))
    moved = torch.stack([padded[..., y : y + height, x : x + width] for y, x in corners])
    return moved[draws.integers(0, len(corners)), torch.arange(len(images))]


def crop(images: Tensor, draws: Draws) -> Tensor:
    """A part of any size, stretched to the whole."""
    boxes = draw_boxes(images.shape[-2], images.shape[-1], draws)
    return crop_and_resize(images, boxes, torch.zeros(len(images), dtype=torch.bool))


def of_randaugment(images: Tensor, draws: Draws, name: str) -> Tensor:
    """At a random level and sign."""
    level = draws.integers(1, LEVELS + 1, 2)
    sign = draws.integers(0, 2, 2) * 2 - 1
    chosen = torch.tensor([OPERATIONS.index(name), 0]).expand(level.shape)
    return apply_geometric(apply_point(images, chosen[:, 0], level[:, 0]), chosen, level * sign)


def turned_hue(images: Tensor, draws: Draws) -> Tensor:
    return hue(images, 0.2 * draws.uniform() - 0.1)


DRIFTS: dict[str, Operation] = {
    CONTROL: one_pixel_shift,
    "horizontal-flip": partial(flip, side=3),
    "vertical-flip": partial(flip, side=2),
    "shift": partial(weak, without=("horizontal-flip",)),
    "crop": crop,
    "cutout": cutout,
    "hue": turned_hue,
    "grey": lambda images, draws: grey(images).expand(images.shape),
    **{name: partial(of_randaugment, name=name) for name in OPERATIONS[1:]},
}
COLOUR_ONLY = ("hue", "grey", "colour")  # which do nothing to a picture of one channel


# ---- small models


@dataclass(frozen=True)
class Fold:
    """The training and test data of a small model."""

    train: Tensor
    labels: Tensor
    test: Tensor
    truth: Tensor


def folds(dataset: Dataset, per_class: int | None, seeds: int) -> list[Fold]:
    """One for each seed where there are test images; else parts of the labelled images, each judged by the others."""
    train, test = dataset.train, dataset.test
    if len(train.classes) < 2:
        raise UserError(f"{dataset.name} has labels of {len(train.classes)} classes: at least two are needed.")
    if test is not None and not test.known:
        raise UserError(
            f"the test images of {dataset.name} have no labels, so accuracy cannot be measured on them: label them."
        )
    fewest, least = min(train.class_counts), 2 if test is None else 1
    if fewest < least:
        raise UserError(
            f"a class of {dataset.name} has {fewest} labelled images: each class needs at least one for training"
            + (", and without --test one more for testing." if test is None else ".")
        )
    if per_class is not None and per_class < least:
        raise UserError(f"labels-per-class must be at least {least}, not {per_class}.")
    if per_class is not None and per_class > fewest:
        raise UserError(
            f"a class of {dataset.name} has {fewest} labelled images, {per_class} per class were asked for."
        )
    if test is not None:
        judged = (test.labels != UNLABELLED).nonzero().flatten()
        judged = judged[torch.randperm(len(judged), generator=generator(0, 0, "drift"))[:MOST_TESTS]]
        most = per_class or min(fewest, max(1, MOST_LABELS // len(train.classes)))
        chosen = [torch.from_numpy(few_label_split(train.labels, most, seed)) for seed in range(seeds)]
        return [Fold(train.inputs[c], train.labels[c], test.inputs[judged], test.labels[judged]) for c in chosen]
    known = (train.labels != UNLABELLED).nonzero().flatten()
    if per_class is not None:
        known = torch.from_numpy(few_label_split(train.labels, per_class, 0))
    shuffled = known[torch.randperm(len(known), generator=generator(0, 0, "drift"))]
    known = shuffled[train.labels[shuffled].argsort(stable=True)]  # class by class: two of one are in different parts
    part = torch.arange(len(known))
    part %= FOLDS if len(known) > 3 * FOLDS else len(known)  # of few images each is left out by itself
    return [
        Fold(train.inputs[rest], train.labels[rest], train.inputs[here], train.labels[here])
        for here, rest in ((known[part == n], known[part != n]) for n in range(int(part.max()) + 1))
    ]


@dataclass(frozen=True)
class HalfChanged(ImageKind):
    """Images whose only view is the image itself, for every second one under the operation."""

    operation: str | None = None

    def view(self, rows: Tensor, name: str, make: Making) -> Tensor:
        if self.operation is not None:
            changed = (make.draws.uniform() < 0.5).view(-1, 1, 1, 1)
            rows = torch.where(changed, DRIFTS[self.operation](rows, make.draws), rows)
        return make.scale(make.gather(rows))


def train_small(fold: Fold, classes: int, operation: str | None, seed: int, network: str, steps: int) -> float:
    """Accuracy of a small model that was trained on the labels alone, half of its pictures under the operation."""
    torch.set_num_threads(1)
    channels, size = fold.train.shape[1:3]
    kind = HalfChanged(channels, size, operation=operation)
    names = tuple(str(number) for number in range(classes))
    train = Examples(fold.train, fold.labels, names, numbered("train", len(fold.train)), kind)
    test = Examples(fold.test, fold.truth, names, numbered("test", len(fold.test)), kind)
    dataset = Dataset("drift", train, test, flip=False)
    recipe = Recipe(
        method="supervised",
        network=network,
        batch=BATCH,
        steps=steps,
        evaluations=1,
        learning_rate=LEARNING_RATE,
        seed=seed,
        device="cpu",
    )
    trainer = Trainer(make_plan(recipe, dataset), dataset)
    fit(trainer)
    predicted = trainer.test_predictions()
    assert predicted is not None
    return accuracy(predicted, fold.truth)


# ---- the verdict


@dataclass(frozen=True)
class Drift:
    """The effect of an operation on accuracy, over seeds or folds."""

    operation: str
    accuracy: float  # with it
    change: float  # with it minus without it, on the same labels
    error: float  # standard error of the change

    @property
    def flagged(self) -> bool:
        return self.change < -2 * self.error


def measure(
    dataset: Dataset,
    *,
    labels_per_class: int | None = None,
    operations: Sequence[str] = (),
    seeds: int = 5,
    network: str = "cnn",
    steps: int = STEPS,
    jobs: int | None = None,
) -> tuple[float, list[Drift]]:
    """The accuracy without any operation, and the effect of each operation."""
    if not dataset.train.kind.image_views:
        raise UserError(f"drift is for images; {dataset.name} holds {dataset.train.kind.describe()}.")
    for name in operations:
        if name not in DRIFTS:
            raise unknown("operation", name, DRIFTS)
    if seeds < 2:
        raise UserError("--seeds must be at least 2, to estimate the standard error.")
    chosen = list(operations) or [name for name in DRIFTS if dataset.train.kind.shape[0] > 1 or name not in COLOUR_ONLY]
    made = folds(dataset, labels_per_class, seeds)
    work = [(name, number) for number in range(len(made)) for name in (None, *chosen)]
    calls = (
        joblib.delayed(train_small)(made[number], len(dataset.train.classes), name, number, network, steps)
        for name, number in work
    )
    results: Iterable[float] = joblib.Parallel(n_jobs=jobs or joblib.cpu_count(), return_as="generator")(calls)
    found = dict(zip(work, with_progress(results, len(work), "Training small models"), strict=True))
    plain = [found[None, number] for number in range(len(made))]
    drifts = []
    for name in chosen:
        values = [found[name, number] for number in range(len(made))]
        changes = [value - other for value, other in zip(values, plain, strict=True)]
        error = statistics.stdev(changes) / len(changes) ** 0.5
        drifts.append(Drift(name, statistics.mean(values), statistics.mean(changes), error))
    return statistics.mean(plain), drifts


def by_chance(operations: int, seeds: int) -> float:
    """The expected number of flagged operations if none of them changes anything."""
    from scipy.stats import t

    return operations * float(t.cdf(-2, seeds - 1))


def remarks(dataset: Dataset, drifts: Sequence[Drift], seeds: int) -> list[str]:
    """How reliable the verdicts are."""
    found = []
    if any(drift.flagged for drift in drifts if drift.operation == CONTROL):
        found.append(f"Even {CONTROL} was flagged, although it changes nothing: use more labels or more --seeds.")
    if dataset.test is not None:
        found.append(
            f"If all {len(drifts)} augmentations were harmless, {by_chance(len(drifts), seeds):.1f} would be flagged "
            "by chance on average; more --seeds lower this number."
        )
    else:
        found.append(
            "Warning: without a test set (--test), labelled pictures were held out in turn. With few labels this is "
            "unreliable: a drop may be chance, and an augmentation that is not flagged may still do harm."
        )
    return found


def advice(drifts: Collection[Drift]) -> str:
    """The option of `fewlabel train` that disables the flagged augmentations."""
    names = [drift.operation for drift in drifts if drift.flagged and drift.operation in CHANGES]
    return f"--without {','.join(names)}" if names else ""


# ---- the picture


def write_drifts(folder: Path, images: Examples, drifts: Sequence[Drift]) -> None:
    """drift.csv, and drift.png with pictures before and after each operation."""
    make_folder(folder)
    rows = [
        [drift.operation, f"{drift.accuracy:.4f}", f"{drift.change:+.4f}", f"{drift.error:.4f}", str(drift.flagged)]
        for drift in drifts
    ]
    write_csv(folder / "drift.csv", ("operation", "accuracy", "change", "standard error", "flagged"), rows)
    picture(images, drifts).savefig(folder / "drift.png", dpi=120)


def picture(images: Examples, drifts: Sequence[Drift], shown: int = 4) -> Figure:
    """A row for each operation: original pictures, augmented pictures, and the verdict."""
    classes = images.labels[images.labels != UNLABELLED].unique()
    chosen = classes[torch.linspace(0, len(classes) - 1, shown).long()].tolist()
    places = [(images.labels == c).nonzero().flatten() for c in chosen]
    examples = images.inputs[[int(place[k % len(place)]) for k, place in enumerate(places)]]
    figure = Figure(figsize=(9, 0.8 * len(drifts) + 0.5), layout="constrained")
    grid = figure.subplots(len(drifts), 2 * shown + 2, squeeze=False, width_ratios=[2.2] + [1] * (2 * shown) + [2.6])
    for row, drift in zip(grid, drifts, strict=True):
        changed = DRIFTS[drift.operation](examples, Draws(generator(0, 0, drift.operation), len(examples)))
        for axes in row:
            axes.set_axis_off()
        for axes, pixels in zip(row[1:-1], [*examples, *changed], strict=True):
            axes.imshow(as_picture(pixels), cmap="gray", vmin=0, vmax=255)
        colour = ORANGE if drift.flagged else "black"
        verdict = "changes the meaning" if drift.flagged else ""
        row[0].text(0, 0.5, drift.operation, va="center", color=colour, fontsize=9)
        points = f"{100 * drift.change:+.1f} points (± {100 * drift.error:.1f})"
        row[-1].text(0, 0.5, f"{points}\n{verdict}".strip(), va="center", color=colour, fontsize=9)
    grid[0][1].set_title("original", fontsize=9, loc="left")
    grid[0][1 + shown].set_title("after", fontsize=9, loc="left")
    return figure
