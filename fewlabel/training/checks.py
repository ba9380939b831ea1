"""Check a recipe before any work is done, as far as possible without data."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..augment import CHANGES
from ..data import NAMED
from ..data.labels import as_paths
from ..encoders import NONE, full_name
from ..errors import UserError, unknown
from ..methods import check_first_stage, check_method, chosen_settings
from ..run_files import FIRST_STAGE
from ..settings import parameters_of
from .recipe import FLIP, Recipe, first_stage_settings


def check_recipe(recipe: Recipe, first_stage: bool = False) -> Recipe:
    """Refuse invalid settings; returns the recipe in Python's own types and with full paths.

    Its method may be that of a `first_stage` for `pretrain()` only.
    """
    values = {
        name: parameter.check(name.replace("_", "-"), getattr(recipe, name))
        for name, parameter in parameters_of(Recipe).items()
    }
    recipe = replace(recipe, **values)
    if sum(length is not None for length in (recipe.steps, recipe.images, recipe.minutes)) > 1:
        raise UserError("give only one of --steps, --images and --minutes.")
    for name in recipe.disabled:
        if name not in CHANGES:
            raise unknown("augmentation", name, CHANGES)
    if FLIP in recipe.disabled and recipe.flip:
        raise UserError(f"--flip and --without {FLIP} contradict each other.")
    if (recipe.backend == "dask") != (recipe.scheduler is not None):
        raise UserError("use --backend dask and --scheduler ADDRESS together.")
    if first_stage:
        recipe = for_first_stage(recipe)
    else:
        check_method(recipe.method)
        check_pretraining(recipe)
    if recipe.tune and recipe.encoder == NONE and recipe.pretrain is None:
        raise UserError("--tune trains an encoder too: give one with --encoder, not none.")
    if recipe.encoder not in (None, NONE):
        for name in ("network", "size"):
            if getattr(recipe, name) is not None:
                raise UserError(f"--{name} is for training from scratch: it cannot be used with --encoder.")
        if not recipe.tune and (recipe.flip is not None or recipe.disabled):
            raise UserError("--flip and --without have no effect on a frozen encoder: leave them out.")
    settings = checked_settings(recipe)
    if first_stage or recipe.pretrain:
        refuse_guesses(settings if first_stage else first_stage_settings(replace(recipe, settings=settings)))
    root = recipe.root or ("." if recipe.download else None)
    paths = {"root": root} | {name: getattr(recipe, name) for name in ("data", "test", "start_from")}
    full: dict[str, Any] = {
        name: str(Path(path).resolve())
        for name, path in paths.items()
        if path and path not in NAMED and Path(path).exists()
    }
    if recipe.labels is not None:
        files = [str(path.resolve() if path.exists() else path) for path in as_paths(recipe.labels)]
        full["labels"] = files[0] if len(files) == 1 else files
    if recipe.encoder is not None:
        full["encoder"] = full_name(recipe.encoder)
    return replace(recipe, settings=settings, **full)


def checked_settings(recipe: Recipe) -> dict[str, Any]:
    """The settings of all stages, under their full names."""
    first = {name: value for name, value in recipe.settings.items() if name.startswith(f"{FIRST_STAGE}.")}
    shared = {name: value for name, value in recipe.settings.items() if name not in first}
    if first:
        if recipe.pretrain is None:
            raise UserError(f"the setting {next(iter(first))} belongs to a first stage: choose one with --pretrain.")
        alone = {name.removeprefix(f"{FIRST_STAGE}."): value for name, value in first.items()}
        chosen = chosen_settings(recipe.pretrain, alone)
        first = {f"{FIRST_STAGE}.{part}.{name}": v for part, values in chosen.items() for name, v in values.items()}
    chosen = chosen_settings([recipe.method, recipe.pretrain], shared)
    return {f"{part}.{name}": value for part, values in chosen.items() for name, value in values.items()} | first


def for_first_stage(recipe: Recipe) -> Recipe:
    """A recipe for `pretrain()`, without what concerns labels."""
    check_first_stage(recipe.method)
    for name in ("encoder", "start_from", "pretrain", "tune"):
        if getattr(recipe, name) not in (None, NONE, False):
            raise UserError(f"{as_flag(name)} cannot be used for training without labels.")
    return replace(recipe, mu=1, floor=False, labels_per_class=None)


def refuse_guesses(settings: dict[str, Any]) -> None:
    """Refuse settings that need predicted classes, which a first stage does not have."""
    if settings.get("icl.negatives") == "other-class":
        raise UserError(
            "icl.negatives other-class needs predicted classes, which a first stage does not have; for the main stage "
            f"alone add --{FIRST_STAGE}.icl.negatives all."
        )


def changed_from_default(recipe: Recipe, prefix: str) -> list[str]:
    """The settings, as flags without dashes, that begin so and are not as they are by default."""
    usual = Recipe()
    names = [entry.name for entry in dataclasses.fields(Recipe) if entry.name.startswith(prefix)]
    return [name.replace("_", "-") for name in names if getattr(recipe, name) != getattr(usual, name)]


def as_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_pretraining(recipe: Recipe) -> None:
    """Refuse a first stage that is unknown or conflicts with other settings."""
    if recipe.pretrain is None:
        for name in changed_from_default(recipe, "pretrain_"):
            raise UserError(f"--{name} belongs to a first stage: choose one with --pretrain.")
        return
    check_first_stage(recipe.pretrain)
    lengths = [name for name in ("pretrain_images", "pretrain_steps", "minutes") if getattr(recipe, name) is not None]
    if len(lengths) > 1:
        raise UserError(f"give only one of {' and '.join(as_flag(name) for name in lengths)}.")
    if recipe.minutes is None and "pretrain-share" in changed_from_default(recipe, "pretrain_"):
        raise UserError("--pretrain-share needs --minutes.")
    for name in ("encoder", "start_from"):
        if getattr(recipe, name) not in (None, NONE):
            raise UserError(f"--pretrain trains a network from scratch: it cannot be used with {as_flag(name)}.")
    if changed_from_default(recipe, "encoder_rate"):
        raise UserError("--encoder-rate is for encoders trained elsewhere: it cannot be used with --pretrain.")
    if recipe.images is not None:
        raise UserError("--images is for runs of one stage: give --pretrain-images and --steps, or --minutes.")
