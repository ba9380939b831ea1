"""Resuming: the plan of a run that is started, continued or repeated, from its directory."""

import platform
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..cluster import dask_cluster
from ..data import NAMED, Dataset, is_folder, load
from ..data.fingerprint import data_fingerprint
from ..encoders import NONE, find_encoder
from ..errors import UserError
from ..ranks import Ranks, launch
from ..run_files import FIRST_STAGE, LABELS
from ..terminal import Terminal
from ..training import Plan, Recipe, make_plan
from ..training.length import Part, with_length
from ..training.plan import promised_features
from ..value_range import parse_range
from .audited import refuse_audited
from .directory import RunDirectory
from .stages import floor_stages
from .start import refuse_itself, starting_weights

SURROUNDINGS = ("device", "threads", "processes", "versions")  # what the bits of a run may depend on


def load_data(recipe: Recipe, encoder: str) -> Dataset:
    """The examples, as features where an encoder is frozen."""
    if recipe.encoder_views and (recipe.tune or encoder == NONE):
        raise UserError("--encoder-views is for a frozen encoder: without one views are made while training.")
    if recipe.roles.text is not None and (recipe.tune or recipe.pretrain):
        raise UserError(f"--{'tune' if recipe.tune else 'pretrain'} is for pictures: texts need a frozen encoder.")
    size, frozen = recipe.size, encoder
    if recipe.tune and recipe.pretrain is None:
        frozen = NONE
        size = find_encoder(encoder).size if is_folder(recipe.data) else None
    with dask_cluster(recipe.scheduler) if recipe.scheduler else nullcontext():
        found = load(
            recipe.data,
            recipe.root,
            labels=recipe.labels,
            subfolders=recipe.subfolders,
            test=recipe.test,
            size=size,
            download=recipe.download,
            encoder=frozen,
            encoder_views=recipe.encoder_views,
            roles=recipe.roles,
            value_range=None if recipe.range is None else parse_range(recipe.range),
        )
    return replace(found, train=replace(found.train, kind=found.train.kind.with_views(recipe.noise, recipe.dropout)))


def open_run(
    directory: RunDirectory,
    recipe: Recipe,
    dataset: Dataset,
    encoder: str,
    ranks: Ranks,
    terminal: Terminal,
    *,
    resume: bool,
    overwrite: bool,
) -> Plan:
    """The plan of a new run, which is written to the directory, or that of the run which is continued there."""

    def prepare() -> tuple[Plan, dict[str, Any] | None, str]:
        plan = make_plan(recipe, dataset, encoder)
        if not recipe.spend_audit:
            refuse_audited(directory, recipe.data, (dataset.train.names[i] for i in plan.labelled))
        ranks.check(plan.device, recipe.batch, recipe.share_norms)
        refuse_itself(recipe, directory.path)
        starting_weights(plan, dataset)  # can it be started from? before anything is written
        data = data_fingerprint(dataset)
        directory.lock()
        directory.refuse_occupied(resume=resume, overwrite=overwrite)  # by a run that has come in the meantime
        if resume and directory.facts():
            return plan, facts_to_resume(directory, plan, data), data
        return plan, None, data

    plan, saved, data = ranks.first_says(prepare)
    device = ranks.own(plan.device)
    plan = replace(plan, device=device, first=plan.first and replace(plan.first, device=device))
    if saved:
        plan = resumed(plan, saved, ranks.first_says(directory.labelled_names), dataset)
        if any(saved.get(name) != value for name, value in surroundings(plan, ranks).items()):
            terminal.say(
                "Note: device, threads, processes or versions differ from before, so the results may not be "
                "bit-identical."
            )
        return plan
    if resume:
        terminal.say(f"There is no run in {directory.path} yet: a new one is started.")
    main = Part(plan, promised_features(dataset, plan.first) if plan.encoder == FIRST_STAGE and plan.first else dataset)
    floors = [Part(stage.plan, stage.dataset) for stage in floor_stages(plan, dataset)]
    plan = with_length(main, floors, dataset, ranks)
    ranks.first_says(lambda: write_start(directory, plan, dataset, data, ranks))  # which removes an earlier run
    return plan


def facts_to_resume(directory: RunDirectory, plan: Plan, data: str) -> dict[str, Any]:
    """The content of recipe.json, if recipe and data are the same."""
    facts = directory.facts_to_continue()
    changed = plan.recipe.differences(facts["recipe"])
    first = (facts.get("first") or {}).get("recipe")
    if plan.first is not None and first and plan.first.recipe.settings != first["settings"]:
        changed = sorted({*changed, "settings"})
    if changed:
        raise UserError(
            f"{directory.path} was started with other settings ({', '.join(changed)}): "
            "resume with the same settings, or choose another --out."
        )
    if facts["data"] != data:
        raise UserError(f"the data have changed since {directory.path} was started: choose another --out.")
    return facts


def resumed(plan: Plan, saved: dict[str, Any], names: list[str], dataset: Dataset) -> Plan:
    """The decisions of the original run, on the current device."""
    before = Plan.from_dict(saved, positions_of(names, dataset))
    first = before.first and replace(before.first, device=plan.device)
    return replace(before, recipe=plan.recipe, device=plan.device, first=first)


def positions_of(names: list[str], dataset: Dataset) -> Tensor:
    wanted = set(names)
    positions = {name: i for i, name in enumerate(dataset.train.names) if name in wanted}
    if strange := [name for name in names if name not in positions]:
        raise UserError(
            f"labels.csv of the run names {strange[0]}, which is not a training example: the file has been changed."
        )
    return torch.tensor([positions[name] for name in names], dtype=torch.int64)


def surroundings(plan: Plan, ranks: Ranks) -> dict[str, Any]:
    versions = {"fewlabel": __version__, "torch": torch.__version__, "python": platform.python_version()}
    values = (plan.device.type, torch.get_num_threads(), ranks.count, versions)
    return dict(zip(SURROUNDINGS, values, strict=True))


def write_start(directory: RunDirectory, plan: Plan, dataset: Dataset, data: str, ranks: Ranks) -> None:
    """labels.csv and recipe.json, in place of what an earlier run wrote."""
    directory.clear()
    train = dataset.train
    names = [train.names[i] for i in plan.labelled]
    labels = [train.classes[label] for label in train.labels[plan.labelled]]
    facts = {**plan.to_dict(), "data": data, **surroundings(plan, ranks), "launch": launch()}
    directory.write_start(facts, names, labels)


def started_by_us(directory: RunDirectory) -> bool:
    """Whether the run was started by this call of torchrun."""
    facts = directory.facts()
    return facts is not None and launch() is not None and facts.get("launch") == launch()


def saved_run(directory: RunDirectory, root: str | None = None) -> tuple[Plan, Dataset]:
    """The plan of a run, finished or not, and the data it was trained on, loaded again (from another `root`)."""
    facts = directory.facts_to_continue()
    recipe = replace(Recipe(**facts["recipe"]), download=False)
    recipe = replace(recipe, root=root or recipe.root)
    encoder = NONE if facts["encoder"] == FIRST_STAGE else facts["encoder"]
    if recipe.data not in NAMED and not Path(recipe.data).exists():
        raise UserError(f"the data of {directory.path} ({recipe.data}) cannot be found: moved, or given in Python?")
    dataset = load_data(recipe, encoder)
    if data_fingerprint(dataset) != facts["data"] and recipe.labels:  # labelled on since: the run has kept its labels
        dataset = load_data(replace(recipe, labels=[str(directory / LABELS)]), encoder)
    if data_fingerprint(dataset) != facts["data"]:
        raise UserError(f"{recipe.data} does not hold the data that {directory.path} was trained on.")
    return Plan.from_dict(facts, positions_of(directory.labelled_names(), dataset)), dataset


def repeated(directory: RunDirectory, **changes: Any) -> tuple[Recipe, Dataset]:
    """The recipe of a run with every decision written into it, and the data it was trained on."""
    plan, dataset = saved_run(directory, changes.get("root"))
    recipe = replace(plan.as_recipe(), threads=directory.facts_to_continue().get("threads"), download=False)
    if "device" in changes:  # another one may want another precision
        given = plan.recipe.precision, plan.recipe.pretrain_precision
        recipe = replace(recipe, precision=given[0], pretrain_precision=given[1])
    return replace(recipe, **changes), dataset
