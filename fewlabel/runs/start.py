"""Starting from the weights of an earlier run: for a few new labels, or a new class."""

from pathlib import Path

import torch
from torch import Tensor

from ..data import Dataset
from ..encoders import NONE, PixelEncoder, find_encoder
from ..errors import UserError
from ..networks import TUNED
from ..networks.saved import load_network, read_description
from ..training import Plan, Recipe


def refuse_itself(recipe: Recipe, run: Path) -> None:
    """A run that would replace the one it starts from, or the encoder it uses."""
    for flag, used in (("--start-from", recipe.start_from), ("--encoder", recipe.encoder)):
        if used is not None and used != NONE and Path(used).resolve().is_relative_to(run.resolve()):
            raise UserError(f"{flag} and --out are the same run, {run}: choose another --out.")


def starting_weights(plan: Plan, dataset: Dataset) -> dict[str, Tensor] | None:
    """The weights of the run that the recipe names. A new class starts with a row of zeros in the head."""
    if plan.recipe.start_from is None:
        return None
    run = Path(plan.recipe.start_from)
    facts = read_description(run)
    mine = {"network": plan.network, "encoder": plan.encoder, "shape": list(dataset.train.kind.shape)}
    theirs = {"network": facts["network"], "encoder": facts.get("encoder", "none"), "shape": facts["shape"]}
    for name, value in mine.items():
        if theirs[name] != value:
            raise UserError(
                f"--start-from {run} cannot be used: its {name} is {theirs[name]}, and that of this run {value}; give "
                "the same --encoder, --network and --size as then."
            )
    tuned = plan.network == TUNED
    _, network = load_network(run, PixelEncoder(find_encoder(plan.encoder)) if tuned else None)
    weights = network.state_dict() | {"temperature": torch.ones(())}
    before, now = facts["classes"], dataset.train.classes
    for name in ("head.weight", "head.bias"):
        rows = torch.zeros(len(now), *weights[name].shape[1:])
        for position, label in enumerate(now):
            if label in before:
                rows[position] = weights[name][before.index(label)]
        weights[name] = rows
    return weights
