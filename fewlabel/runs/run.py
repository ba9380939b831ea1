"""train(): load, plan, stages, finish. One step of a stage is `Trainer.step` in training/trainer.py."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..data import Dataset, encoded
from ..data.fingerprint import data_digest
from ..data.folder import listed
from ..encoders import NONE, find_encoder
from ..methods import in_words
from ..model import Model, load_model
from ..networks import Classifier
from ..ranks import Ranks, all_ranks, restarts
from ..terminal import Terminal
from ..training import Plan, Recipe, check_recipe
from ..training.recipe import FLIP
from .choose import choose_encoder
from .directory import FLOOR, RunDirectory, choose_directory
from .finish import finish, write_missing_predictions
from .resume import load_data, open_run, started_by_us
from .stages import StageResult, run_stage, stages_of


@dataclass(frozen=True)
class Run:
    """A finished run."""

    directory: Path
    accuracy: float | None  # on the test set, of the averaged weights after the last step; None without a test set
    history: list[dict[str, Any]]  # the lines of metrics.jsonl
    floor: float | None  # the accuracy of training on the labels alone
    model: Model

    @property
    def network(self) -> Classifier:
        return self.model.network


def train(
    recipe: Recipe,
    dataset: Dataset | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Run:
    """Train, evaluate, and write the run directory. The same recipe and machine give the same bits.

    Processes that torchrun started train the run together; the first of them evaluates, writes and prints.
    """
    with all_ranks() as ranks:
        recipe = ranks.first_says(lambda: check_recipe(recipe))
        (again,) = ranks.any(restarts() > 0)
        directory, resume, overwrite = ranks.first_says(lambda: find_directory(recipe, resume, overwrite, again))
        terminal = Terminal(quiet or not ranks.first)
        with directory:
            encoder = ranks.first_says(lambda: choose_encoder(recipe, dataset, directory if resume else None, terminal))
            data = dataset_for(recipe, dataset) or ranks.first_before_others(lambda: load_data(recipe, encoder))
            ranks.agree_on("data and labels", lambda: data_digest(data))
            torch.set_num_threads(recipe.threads or torch.get_num_threads())
            plan = open_run(directory, recipe, data, encoder, ranks, terminal, resume=resume, overwrite=overwrite)
            introduce(terminal, plan, data, directory, ranks)
            if ranks.first_says(lambda: resume and directory.finished):
                return ranks.first_says(lambda: finished_run(directory, plan, data, terminal))
            main, *others = (run_stage(stage, data, directory, terminal, ranks) for stage in stages_of(plan, data))
            model = Model(main.network, data.train.kind, data.train.classes, plan.network, recipe.method, encoder)
            floor = others[0] if others else None
            ranks.first_says(lambda: finish(directory, plan, data, model, main, floor, terminal))
            return as_run(directory, model, main, floor)


def find_directory(recipe: Recipe, resume: bool, overwrite: bool, again: bool) -> tuple[RunDirectory, bool, bool]:
    """Where to train, and whether to continue or replace what lies there; refuses what cannot be done."""
    if again:  # torchrun has started us again: in the middle of a run of our own?
        own = RunDirectory(choose_directory(recipe, resume=True, overwrite=False))
        if started_by_us(own):
            resume, overwrite = True, False
    directory = RunDirectory(choose_directory(recipe, resume=resume, overwrite=overwrite))
    directory.refuse_occupied(resume=resume, overwrite=overwrite)
    return directory, resume, overwrite


def dataset_for(recipe: Recipe, given: Dataset | None) -> Dataset | None:
    """The data set that a Python user gave, as features where the recipe asks for that."""
    if given is None or recipe.tune or recipe.encoder in (None, NONE, given.train.kind.encoder):
        return given
    return encoded(given, find_encoder(str(recipe.encoder)), recipe.encoder_views)


def introduce(terminal: Terminal, plan: Plan, dataset: Dataset, directory: RunDirectory, ranks: Ranks) -> None:
    """Say what is about to happen, and what was decided by default."""
    train, test, noun = dataset.train, dataset.test, dataset.train.kind.noun
    views = "horizontal flips off" if FLIP in plan.without else "horizontal flips on"
    if others := sorted(plan.without - {FLIP}):
        views += f"; disabled: {', '.join(others)}"
    terminal.say(
        f"{dataset.name}: {len(train)} training {train.kind.describe()}, {len(plan.labelled)} labelled, "
        f"{len(train.classes)} classes{f'; {views}' if train.kind.image_views else ''}."
    )
    for note in dataset.notes:
        terminal.say(note)
    counts = train.labels[plan.labelled].bincount(minlength=len(train.classes)).tolist()
    named = [f"{name} {count}" for name, count in zip(train.classes, counts, strict=True)]
    terminal.say(f"Labels: {listed(named)}.")
    if train.skipped:
        terminal.say(f"{len(train.skipped)} {noun} could not be read and are left out; the report lists them.")
    if test is None:
        terminal.say("No test set was given (--test), so no test accuracy is reported.")
    else:
        terminal.say(f"{test.known} test {noun}, never trained on.")
    device = f"{plan.device} ({torch.get_num_threads()} threads)" if plan.device.type == "cpu" else str(plan.device)
    if ranks.count > 1:
        device = f"{ranks.count} processes, each on {device}"
    method = in_words(plan.recipe.method, plan.recipe.settings, train.kind.name)
    terminal.say(f"{method}, {plan.network} on {device}, {plan.steps} steps, into {directory.path}")


def as_run(directory: RunDirectory, model: Model, main: StageResult, floor: StageResult | None) -> Run:
    return Run(directory.path, main.accuracy, main.history, floor.accuracy if floor else None, model)


def finished_run(directory: RunDirectory, plan: Plan, dataset: Dataset, terminal: Terminal) -> Run:
    """A run that was finished before, as it lies on disk. Only predictions that were not wanted then are added."""
    terminal.say(f"{directory.path} is finished already: nothing is left to train.")
    model = load_model(directory.path, str(plan.device))
    write_missing_predictions(directory, plan, dataset, model, terminal)
    history, floor = directory.finished_history(), directory.history(FLOOR)
    floor_accuracy = floor[-1].get("accuracy") if floor else None
    return Run(directory.path, history[-1].get("accuracy"), history, floor_accuracy, model)
