"""train(): load, plan, stages, finish. One step of a stage is `Trainer.step` in training/trainer.py."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..data import Dataset, FeatureKind, encoded
from ..data.fingerprint import data_digest
from ..data.picture_files import listed
from ..encoders import NONE, find_encoder
from ..methods import in_words
from ..model import Model, load_model
from ..networks import Classifier
from ..ranks import Ranks, all_ranks, restarts
from ..run_files import DESCRIPTION, FIRST_STAGE, FLOOR, WEIGHTS
from ..terminal import Terminal
from ..training import Plan, Recipe, check_recipe
from ..training.recipe import FLIP
from .choose import choose_encoder
from .directory import RunDirectory, choose_directory
from .finish import finish, finish_pretraining, write_missing_predictions
from .first_stage import encoded_by_first_stage, run_first_stage
from .resume import load_data, open_run, started_by_us
from .stages import Stage, StageResult, floor_stages, main_stage, run_stage


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
    with session(recipe, dataset, resume, overwrite, quiet) as now:
        if now.finished:
            return now.ranks.first_says(lambda: finished_run(now))
        return run_stages(now)


def pretrain(
    recipe: Recipe,
    dataset: Dataset | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Path:
    """Train a network without labels, by a method of SELF_SUPERVISED; returns the run directory.

    That can be named as an encoder: `Recipe(encoder=directory)`, or `fewlabel train DATA --encoder RUN`.
    """
    with session(recipe, dataset, resume, overwrite, quiet, first_stage=True) as now:
        if now.finished:
            now.terminal.say(f"{now.directory.path} is already finished: there is nothing left to train.")
        else:
            stage = Stage("", recipe.method, now.plan, now.data)
            result = run_stage(stage, now.directory, now.terminal, now.ranks)
            now.ranks.first_says(lambda: finish_pretraining(now.directory, now.plan, result, now.terminal))
        return now.directory.path


@dataclass(frozen=True)
class Session:
    """An opened run, to be trained or resumed."""

    directory: RunDirectory
    plan: Plan
    data: Dataset
    terminal: Terminal
    ranks: Ranks
    finished: bool


@contextmanager
def session(
    recipe: Recipe, dataset: Dataset | None, resume: bool, overwrite: bool, quiet: bool, first_stage: bool = False
) -> Iterator[Session]:
    """Load and plan; while it is open, no other process can train in the directory."""
    with all_ranks() as ranks:
        recipe = ranks.first_says(lambda: check_recipe(recipe, first_stage))
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
            finished = ranks.first_says(lambda: resume and directory.finished and has_first_stage(directory, plan))
            yield Session(directory, plan, data, terminal, ranks, finished)


def run_stages(now: Session) -> Run:
    """Train the first stage, the main stage and the labels alone; then write the results."""
    directory, plan, images, terminal, ranks = now.directory, now.plan, now.data, now.terminal, now.ranks
    first, data = None, images
    if plan.first is not None:
        first = run_first_stage(directory, plan.first, images, terminal, ranks)
        if not plan.recipe.tune:
            data = encoded_by_first_stage(directory, images, first.network, ranks)
    main = run_stage(main_stage(plan, data, first.network if first else None), directory, terminal, ranks)
    floors = [run_stage(stage, directory, terminal, ranks) for stage in floor_stages(plan, images)]
    encoder = plan.encoder if first is None else data.train.kind.encoder
    model = Model(main.network, data.train.kind, data.train.classes, plan.network, plan.recipe.method, encoder)
    floor = floors[0] if floors else None
    ranks.first_says(lambda: finish(directory, plan, model, main, floor, first, terminal))
    return as_run(directory, model, main, floor)


def find_directory(recipe: Recipe, resume: bool, overwrite: bool, again: bool) -> tuple[RunDirectory, bool, bool]:
    """The directory of a run, and whether to resume or replace it; refuses invalid combinations."""
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
    """Print what will happen, and what was decided by default."""
    train, noun = dataset.train, dataset.train.kind.noun
    views = "horizontal flips off" if FLIP in (plan.first or plan).without else "horizontal flips on"
    if others := sorted((plan.first or plan).without - {FLIP}):
        views += f"; disabled: {', '.join(others)}"
    labelled = "" if plan.is_first_stage else f", {len(plan.labelled)} labelled, {len(train.classes)} classes"
    terminal.say(
        f"{dataset.name}: {len(train)} training {train.kind.describe()}{labelled}"
        f"{f'; {views}' if train.kind.image_views else ''}."
    )
    for note in dataset.notes:
        terminal.say(note)
    if train.skipped:
        terminal.say(f"{len(train.skipped)} {noun} could not be read and are left out; the report lists them.")
    introduce_labels(terminal, plan, dataset)
    threads = torch.get_num_threads()
    on_cpu = f"cpu ({threads} thread{'s' if threads > 1 else ''})"
    device = on_cpu if plan.device.type == "cpu" else str(plan.device)
    if ranks.count > 1:
        device = f"{ranks.count} processes, each on {device}"
    for stage in (plan.first, plan):
        if stage is not None:
            method = in_words(stage.recipe.method, stage.recipe.settings, kind_of(stage, dataset))
            where = f", into {directory.path}" if stage is plan else ", without labels; then:"
            terminal.say(f"{method}, {stage.network} on {device}, {stage.steps} steps{where}")


def has_first_stage(directory: RunDirectory, plan: Plan) -> bool:
    """Check that the network of the first stage is there; else it is trained again, to the same bits."""
    return plan.encoder != FIRST_STAGE or all(
        (directory / FIRST_STAGE / name).exists() for name in (DESCRIPTION, WEIGHTS)
    )


def kind_of(stage: Plan, dataset: Dataset) -> str:
    """The kind of data that a stage trains on."""
    return FeatureKind.family if stage.encoder == FIRST_STAGE else dataset.train.kind.family


def introduce_labels(terminal: Terminal, plan: Plan, dataset: Dataset) -> None:
    """Print the number of labels of each class, and whether there is a test set."""
    train, test, noun = dataset.train, dataset.test, dataset.train.kind.noun
    if plan.is_first_stage:
        return
    counts = train.labels[plan.labelled].bincount(minlength=len(train.classes)).tolist()
    named = [f"{name} {count}" for name, count in zip(train.classes, counts, strict=True)]
    terminal.say(f"Labels: {listed(named)}.")
    if len(plan.labelled) == len(train):
        terminal.say(
            f"All {noun} are labelled, so there is nothing to learn from without labels. To see what few labels are "
            "worth, use --labels-per-class."
        )
    if test is None:
        terminal.say("No test set was given (--test), so no test accuracy is reported.")
    else:
        terminal.say(f"{test.known} test {noun}, never trained on.")


def as_run(directory: RunDirectory, model: Model, main: StageResult, floor: StageResult | None) -> Run:
    return Run(directory.path, main.accuracy, main.history, floor.accuracy if floor else None, model)


def finished_run(now: Session) -> Run:
    """A finished run, loaded from disk. Only missing predictions are added."""
    directory, terminal = now.directory, now.terminal
    terminal.say(f"{directory.path} is already finished: there is nothing left to train.")
    model = load_model(directory.path, str(now.plan.device))
    write_missing_predictions(directory, now.plan, now.data, model, terminal)
    history, floor = directory.finished_history(), directory.history(FLOOR)
    floor_accuracy = floor[-1].get("accuracy") if floor else None
    return Run(directory.path, history[-1].get("accuracy"), history, floor_accuracy, model)
