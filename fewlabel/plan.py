"""Plan: a recipe with all that it left open decided."""

import hashlib
import math
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from .augment import CHANGES
from .data import Dataset, Images, few_label_split
from .data.images import UNLABELLED
from .data.named import NAMED
from .errors import UserError, of_kind, unknown
from .methods import full_settings, make_method
from .networks import make_encoder
from .recipe import Recipe

# Which got short runs on MNIST to an accuracy soonest; the paper's 0.03 is for 300,000 steps.
DEFAULT_RATES = {"cnn": 0.2}  # others 0.06


@dataclass(frozen=True)
class Plan:
    """A recipe with all that it left open decided."""

    recipe: Recipe
    labelled: Tensor  # positions of the labelled images
    steps: int
    evaluations: int
    network: str
    without: frozenset[str]  # changes that no view makes
    learning_rate: float
    device: torch.device
    precision: torch.dtype


def make_plan(recipe: Recipe, dataset: Dataset) -> Plan:
    """Decide what the recipe left open, and refuse what cannot work."""
    labels = dataset.train.labels
    if dataset.test is not None and not dataset.test.known:
        raise UserError(f"the test images of {dataset.name} have no labels: nothing can be judged by them.")
    if recipe.labels_per_class is None:
        labelled = (labels != UNLABELLED).nonzero().flatten()
    else:
        for name, count in zip(dataset.train.classes, class_counts(dataset.train), strict=True):
            if count < recipe.labels_per_class:
                raise UserError(
                    f"class '{name}' of {dataset.name} has {count} labelled images, "
                    f"{recipe.labels_per_class} per class were asked for."
                )
        labelled = torch.from_numpy(few_label_split(labels, recipe.labels_per_class, recipe.seed))
    present = labels[labelled].unique()
    if len(present) == 0:
        raise UserError(
            f"{dataset.name} has no labelled image: give some with --labels, or in one subfolder per class."
        )
    if len(present) < len(dataset.train.classes) or len(present) < 2:
        if len(dataset.train.classes) < 2:
            only = dataset.train.classes[0]
            raise UserError(f"all labels of {dataset.name} are '{only}': a classifier needs at least two classes.")
        missing = next(name for i, name in enumerate(dataset.train.classes) if i not in present)
        raise UserError(f"class '{missing}' of {dataset.name} has no labelled image: label one, or remove the class.")
    device = choose_device(recipe.device)
    network = recipe.network or default_network(device, dataset.train.size)
    with torch.device("meta"):  # does it exist? without spending memory on it
        make_encoder(network, dataset.train.channels, dataset.train.size)
    return Plan(
        recipe=recipe,
        labelled=labelled,
        steps=recipe.steps or 2000,
        evaluations=recipe.evaluations or default_evaluations(recipe, dataset),
        network=network,
        without=left_out(recipe, dataset),
        learning_rate=recipe.learning_rate or DEFAULT_RATES.get(network, 0.06),
        device=device,
        precision=getattr(torch, recipe.precision or ("bfloat16" if device.type == "cuda" else "float32")),
    )


def left_out(recipe: Recipe, dataset: Dataset) -> frozenset[str]:
    """The changes that no view makes: what the recipe names, and mirroring where that gives another thing."""
    flip = dataset.flip if recipe.flip is None else recipe.flip
    return frozenset(changes_named(recipe.without)) | frozenset(() if flip else ("horizontal-flip",))


def changes_named(text: str) -> list[str]:
    """Changes that views can make, from their names with commas between."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CHANGES:
            raise unknown("change of a view", name, CHANGES)
    return names


def check_recipe(recipe: Recipe) -> Recipe:
    """Refuse what cannot work with any data; gives the recipe with all settings of the method and with full paths."""
    recipe = checked_kinds(recipe)
    if sum(length is not None for length in (recipe.steps, recipe.images, recipe.minutes)) > 1:
        raise UserError("give one of --steps, --images and --minutes.")
    least = {
        "batch": 2,
        "mu": 1,
        "evaluations": 1,
        "steps": 1,
        "images": 1,
        "horizon": 1,
        "labels_per_class": 1,
        "threads": 1,
        "seed": 0,
    }
    for name, bound in least.items():
        value = getattr(recipe, name)
        if value is not None and value < bound:
            raise UserError(f"{name.replace('_', '-')} must be at least {bound}, not {value}.")
    for name in ("minutes", "learning_rate"):
        value = getattr(recipe, name)
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{name.replace('_', '-')} must be more than 0, not {value}.")
    if not recipe.weight_decay >= 0 or not 0 <= recipe.ema < 1:
        raise UserError("weight-decay must be at least 0, and ema at least 0 and less than 1.")
    if "horizontal-flip" in changes_named(recipe.without) and recipe.flip:
        raise UserError("--flip and --without horizontal-flip contradict each other.")
    make_method(recipe.method, **recipe.settings)
    root = recipe.root or ("." if recipe.download else None)
    paths = {"root": root} | {name: getattr(recipe, name) for name in ("data", "labels", "test")}
    full: dict[str, Any] = {
        name: str(Path(path).resolve())
        for name, path in paths.items()
        if path and path not in NAMED and Path(path).exists()
    }
    return replace(recipe, settings=full_settings(recipe.method, recipe.settings), **full)


def checked_kinds(recipe: Recipe) -> Recipe:
    """The recipe in Python's own types, as its annotations have them."""
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(Recipe).items():
        value, kind = getattr(recipe, name), get_args(hint)[0] if NoneType in get_args(hint) else hint
        if value is None and kind is not hint:
            continue
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise unknown(name, str(value), get_args(kind))
            continue
        values[name] = of_kind(name.replace("_", "-"), value, get_origin(kind) or kind)
    return replace(recipe, **values)


def class_counts(images: Images) -> list[int]:
    known = images.labels[images.labels != UNLABELLED]
    return known.bincount(minlength=len(images.classes)).tolist()


def choose_device(name: str | None) -> torch.device:
    """The device of that name, or the best there is."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device '{name}' cannot be used here: choose cpu, or leave --device out.") from error
    return device


def default_network(device: torch.device, size: int) -> str:
    """The paper's network where there is an accelerator, else one that a CPU trains in minutes."""
    if not size:
        return "mlp"
    if device.type != "cpu":
        return "wrn-28-2"
    return "wrn-10-1" if size <= 12 else "cnn"


def default_evaluations(recipe: Recipe, dataset: Dataset) -> int:
    """20, or so few that looking at the test images takes about a sixth of the time at most."""
    if dataset.test is None:
        return 20
    seen = (recipe.steps or 2000) * recipe.batch * (1 + 2 * recipe.mu)
    return max(1, min(20, seen // (4 * len(dataset.test))))


def summary(dataset: Dataset) -> str:
    """The same for the same images in another place: sizes, classes, labels and names."""
    digest = hashlib.sha256()
    for images in filter(None, (dataset.train, dataset.test)):
        digest.update(repr((tuple(images.pixels.shape), images.classes)).encode())
        digest.update(images.labels.numpy().tobytes())
        digest.update("\n".join(images.names).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def fingerprint(dataset: Dataset) -> str:
    """Changes when images are changed, added, removed, renamed, resized or labelled differently."""
    digest = hashlib.sha256(summary(dataset).encode())
    for images in filter(None, (dataset.train, dataset.test)):
        digest.update(images.source.encode())  # of a folder: the sizes and times of its files
        if not images.source:
            checksum = 0
            for part in images.pixels.split(4096):
                checksum = zlib.crc32(part.contiguous().numpy(), checksum)
            digest.update(checksum.to_bytes(4, "little"))
    return digest.hexdigest()
