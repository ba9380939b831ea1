"""Choose the encoder of a run: the requested one, the one of a resumed run, or the default."""

from pathlib import Path

from ..data import Dataset, is_folder
from ..encoders.listed import DEFAULT, ENCODERS, MINILM, NONE, PHOTOS
from ..methods import SELF_SUPERVISED
from ..networks.saved import read_description
from ..run_files import FIRST_STAGE
from ..terminal import Terminal
from ..training import Recipe
from .directory import RunDirectory

FROM_SCRATCH = ("network", "size", "flip", "without")  # settings of training on the pictures themselves


def choose_encoder(recipe: Recipe, dataset: Dataset | None, before: RunDirectory | None, terminal: Terminal) -> str:
    """The name of an encoder, or none; prints what was chosen by default."""
    saved = before.facts() if before else None
    if saved is not None and "encoder" in saved:
        return NONE if saved["encoder"] == FIRST_STAGE else saved["encoder"]
    if recipe.encoder is not None:
        return recipe.encoder
    if recipe.pretrain is not None or recipe.method in SELF_SUPERVISED:
        return NONE
    if recipe.start_from is not None:
        return read_description(Path(recipe.start_from)).get("encoder", NONE)
    if dataset is not None:
        return dataset.train.kind.encoder
    if recipe.roles.text is not None:
        terminal.say(f"Encoder: {MINILM} (pre-trained sentence embeddings, frozen).")
        return MINILM
    if recipe.tune:
        return DEFAULT
    if not is_folder(recipe.data):
        return NONE
    if given := [name for name in FROM_SCRATCH if getattr(recipe, name) not in (None, "")]:
        terminal.say(f"No encoder is used, because --{given[0]} is for training from scratch.")
        return NONE
    if not ENCODERS[DEFAULT].installed:
        terminal.say(
            f"Training from scratch. For photographs a pre-trained encoder is far better: {PHOTOS} and run this again."
        )
        return NONE
    terminal.say(f"Encoder: {DEFAULT} (pre-trained on ImageNet, frozen). To train from scratch: --encoder none.")
    return DEFAULT
