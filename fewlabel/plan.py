"""Plan: a recipe with all that it left open decided."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from .data import Dataset, Images, few_label_split
from .data.images import UNLABELLED
from .errors import UserError
from .networks import make_encoder
from .recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """A recipe with all that it left open decided."""

    recipe: Recipe
    labelled: Tensor  # positions of the labelled images
    steps: int
    network: str
    flip: bool
    device: torch.device
    precision: torch.dtype


def make_plan(recipe: Recipe, dataset: Dataset) -> Plan:
    """Decide what the recipe left open, and refuse what cannot work."""
    if recipe.steps is not None and recipe.minutes is not None:
        raise UserError("give --steps or --minutes, not both.")
    for name in ("batch", "mu", "evaluations", "steps", "minutes", "learning_rate"):
        value = getattr(recipe, name)
        if value is not None and value <= 0:
            raise UserError(f"{name.replace('_', '-')} must be more than 0, not {value}.")
    labels = dataset.train.labels
    if recipe.labels_per_class is None:
        labelled = (labels != UNLABELLED).nonzero().flatten()
    else:
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
        network=network,
        flip=dataset.flip if recipe.flip is None else recipe.flip,
        device=device,
        precision=getattr(torch, recipe.precision or ("bfloat16" if device.type == "cuda" else "float32")),
    )


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
    if device.type != "cpu":
        return "wrn-28-2"
    return "wrn-10-1" if size <= 12 else "cnn"


def fingerprint(images: Images) -> str:
    """Changes when images are added, removed, renamed, resized or labelled differently."""
    digest = hashlib.sha256(repr((tuple(images.pixels.shape), images.classes)).encode())
    digest.update(images.labels.numpy().tobytes())
    digest.update("\n".join(images.names).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
