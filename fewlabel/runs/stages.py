"""Stages: a run is a list of trainings, each in its own folder and resumable to the same bits."""

import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data import Dataset
from ..encoders import NONE
from ..errors import Interrupted, UserError
from ..files import not_saved, write_atomically
from ..networks import TUNED, Classifier
from ..ranks import Ranks
from ..run_files import FIRST_STAGE, FLOOR, LAST, METRICS
from ..terminal import Terminal
from ..training import Listener, Plan, StepResult, Trainer, fit
from ..training.fit import steps_with_a_line
from ..training.listeners import Alarms, Clock, DivergenceCheck, History, ProgressBar
from ..training.plan import default_rate
from .checkpoint import load_checkpoint, save_checkpoint
from .directory import RunDirectory
from .metrics import as_text
from .start import starting_weights

LABELS_ALONE = "supervised"  # the method of the floor
SAVE_SECONDS = 60  # a killed run loses at most about this much


@dataclass(frozen=True)
class Stage:
    """One training of a run."""

    folder: str  # within the run directory; "" for the main stage
    title: str
    plan: Plan
    dataset: Dataset
    start: dict[str, Tensor] | None = None  # weights to start from


@dataclass(frozen=True)
class StageResult:
    dataset: Dataset  # that it was trained on
    network: Classifier  # averaged weights, ready to predict
    test_predictions: Tensor | None  # the classes it predicts for the test examples
    history: list[dict[str, Any]]

    @property
    def accuracy(self) -> float | None:
        """The accuracy of the last evaluation; None without a test set."""
        return self.history[-1].get("accuracy")


def main_stage(plan: Plan, dataset: Dataset, first: Classifier | None = None) -> Stage:
    """On features of the network of the first stage, or from its weights."""
    start = starting_weights(plan, dataset)
    if first is not None and plan.recipe.tune:
        start = {name: tensor for name, tensor in first.state_dict().items() if name.startswith("encoder.")}
    return Stage("", plan.recipe.method, plan, dataset, start)


def floor_stages(plan: Plan, dataset: Dataset) -> list[Stage]:
    """The floor, where it is wanted: the labels alone, from scratch.

    Without a test set it cannot be evaluated; then it is trained only where that costs seconds. Of a run with a first
    stage, whose features know the unlabelled examples, `dataset` are the images themselves.
    """
    cheap = plan.encoder != NONE and not plan.recipe.tune and plan.first is None
    possible = not plan.is_first_stage and (dataset.test is not None or cheap)
    if not plan.recipe.floor or plan.recipe.method == LABELS_ALONE or not possible:
        return []
    recipe = replace(plan.recipe, method=LABELS_ALONE, settings={}, pretrain=None, tune=plan.network == TUNED)
    floor = replace(plan, recipe=recipe, first=None)
    if plan.first:
        network = plan.first.network
        rate = recipe.learning_rate or default_rate(network)
        floor = replace(floor, network=network, encoder=NONE, without=plan.first.without, learning_rate=rate)
    return [Stage(FLOOR, "labels only", floor, dataset)]


def first_stage(plan: Plan, dataset: Dataset) -> Stage:
    return Stage(FIRST_STAGE, plan.recipe.method, plan, dataset)


def run_stage(stage: Stage, run: RunDirectory, terminal: Terminal, ranks: Ranks) -> StageResult:
    """Train to the last step, starting from the stage's checkpoint."""
    folder = run.path / stage.folder
    trainer = Trainer(stage.plan, stage.dataset, start=stage.start, ranks=ranks)
    checkpoint = ranks.first_says(lambda: load_checkpoint(folder))
    if checkpoint is not None:
        trainer.load_state(checkpoint)
    earlier = run.history(stage.folder, until=trainer.done)
    whole = [line["step"] for line in earlier] == steps_with_a_line(stage.plan, trainer.done)
    if not whole and trainer.done == stage.plan.steps:
        raise UserError(f"{folder / METRICS} is missing or damaged: restore it, or start over with --overwrite.")
    clock, history = Clock(), MetricsFile(folder / METRICS, earlier)
    listeners: list[Listener] = [DivergenceCheck()]
    if ranks.first:
        folder.mkdir(exist_ok=True)
        if 0 < trainer.done < stage.plan.steps:
            terminal.say(f"{stage.title}: continuing after step {trainer.done}.")
        elif trainer.done == 0 and (folder / LAST).exists():
            terminal.say(f"{stage.title}: no valid checkpoint in {folder}, starting over.")
        if not whole:
            terminal.say(f"Note: lines of {folder / METRICS} are missing or damaged; the report will lack them.")
        listeners += [clock, Alarms(history, terminal.say), history, ProgressBar(stage.title, terminal)]
    fit(trainer, [*listeners, Checkpoints(folder, clock, ranks)])
    predicted = trainer.test_predictions() if ranks.first else None
    return StageResult(stage.dataset, trainer.averaged(), predicted, ranks.first_says(lambda: history.lines))


class MetricsFile(History):
    """Writes each line of metrics to a file as it comes."""

    def __init__(self, path: Path, earlier: list[dict[str, Any]]) -> None:
        self._path, self.lines = path, earlier

    def begin(self, trainer: Trainer) -> None:
        """Remove lines after the checkpoint, which a killed run wrote."""
        write_atomically(self._path, as_text(self.lines).encode())

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        super().after_step(trainer, step, result, line)
        if line is not None:
            try:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(as_text([line]))
            except OSError as error:
                raise not_saved(self._path, error) from error


class Checkpoints(Listener):
    """Saves at every evaluation, once a minute, and on Ctrl-C, which then ends the training. The last listener.

    The first Ctrl-C only sets a flag, so that the step at hand is finished and saved. Of several processes each may get
    any number of signals, also SIGTERM, by which torchrun asks them to end.
    """

    def __init__(self, folder: Path, clock: Clock, ranks: Ranks) -> None:
        self._folder, self._clock, self._ranks = folder, clock, ranks
        self._pressed = threading.Event()
        self._handlers: dict[int, Any] = {}

    def begin(self, trainer: Trainer) -> None:
        self._saved_at = time.monotonic()
        if threading.current_thread() is not threading.main_thread():
            return
        numbers = (signal.SIGINT,) if self._ranks.count == 1 else (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            self._handlers[number] = signal.signal(number, self._press)

    def _press(self, signum: int, frame: Any) -> None:
        self._pressed.set()
        if self._ranks.count == 1:
            signal.signal(signum, self._handlers[signum])

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        late = time.monotonic() - self._saved_at > SAVE_SECONDS
        evaluated = line is not None and ("accuracy" in line or "evaluated" in line)
        stopping, save = self._ranks.any(self._pressed.is_set(), late or evaluated)
        if stopping or save:
            trainer.check_finite(step, line)
            if self._ranks.first:
                save_checkpoint(self._folder, trainer.state(step, self._clock.seconds))
            self._saved_at = time.monotonic()
        if step == trainer.plan.steps:  # pressed while the last checkpoint was written
            (stopping,) = self._ranks.any(self._pressed.is_set())
        if stopping:
            raise Interrupted(f"stopped after step {step} of {trainer.plan.steps}; everything is saved.")

    def end(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
