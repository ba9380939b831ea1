"""train(): from a recipe and a data set to a run directory. One step of it is `Training.advance` in training.py."""

import platform
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import __version__
from .checkpoint import RunDirectory, write_json
from .data import Dataset, load
from .evaluate import calibrated, probabilities
from .methods import make_method
from .networks import Classifier
from .plan import Plan, fingerprint, make_plan
from .predict import predict_positions, write_predictions
from .progress import Reporter
from .recipe import Recipe
from .report import write_report
from .training import Training

FLOOR = "supervised"  # the method that learns from the labels alone
SAVE_SECONDS = 60  # a killed run loses at most about this much
LOGS_PER_EVALUATION = 10


class Interrupted(Exception):
    """Ctrl-C: the run was saved and can be resumed."""


@dataclass(frozen=True)
class Run:
    """A finished run."""

    directory: Path
    accuracy: float | None  # on the test images, of the averaged weights after the last step; None without a test set
    history: list[dict[str, Any]]  # the lines of metrics.jsonl
    floor: float | None  # the same for training on the labels alone
    network: Classifier


def train(
    recipe: Recipe,
    dataset: Dataset | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Run:
    """Train, evaluate, and write the run directory. The same recipe and machine give the same bits."""
    make_method(recipe.method, **recipe.settings)  # a mistyped name should not wait for the data
    if dataset is None:
        dataset = load(
            recipe.data, recipe.root, labels=recipe.labels, test=recipe.test, size=recipe.size, download=recipe.download
        )
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    reporter = Reporter(quiet)
    plan = make_plan(recipe, dataset)
    directory = RunDirectory(recipe.directory)
    saved = directory.open(recipe, fingerprint(dataset.train), resume=resume, overwrite=overwrite)
    if saved:
        positions = {name: i for i, name in enumerate(dataset.train.names)}
        labelled = torch.tensor([positions[name] for name in directory.read_labels()])
        plan = replace(plan, labelled=labelled, steps=saved["steps"])
        if (saved["device"], saved["threads"]) != (str(plan.device), torch.get_num_threads()):
            reporter.say(
                f"Note: begun on {saved['device']} with {saved['threads']} threads; the last bits may differ now."
            )
    else:
        if recipe.minutes is not None:
            plan = replace(plan, steps=steps_for(recipe.minutes, plan, dataset))
        write_start(directory, plan, dataset)
    introduce(reporter, plan, dataset)

    fitted = fit(plan, dataset, directory, reporter, recipe.method)
    floor = None
    if floor_plan := floor_of(plan, dataset):
        (directory / "floor").mkdir(exist_ok=True)
        floor = fit(floor_plan, dataset, RunDirectory(directory / "floor"), reporter, "labels only")
    return finish(plan, dataset, directory, reporter, fitted, floor)


# ---- before the first step


def floor_of(plan: Plan, dataset: Dataset) -> Plan | None:
    """The same run on the labels alone, or None where it is not wanted, is the run itself, or could not be judged."""
    if not plan.recipe.floor or plan.recipe.method == FLOOR or dataset.test is None:
        return None
    return replace(plan, recipe=replace(plan.recipe, method=FLOOR, settings={}))


def steps_for(minutes: float, plan: Plan, dataset: Dataset) -> int:
    """How many steps fit into that time, the floor and the evaluations included."""
    step_seconds = evaluation_seconds = 0.0
    for part in filter(None, (plan, floor_of(plan, dataset))):
        training = Training(part, dataset)
        times = []
        for index in range(8):
            began = time.perf_counter()
            terms, _, _ = training.advance(index)
            sum(terms.values()).item()  # type: ignore[union-attr]  # waits for the device
            times.append(time.perf_counter() - began)
        step_seconds += float(np.median(times[2:]))
        if dataset.test is not None:
            sample = dataset.test.pixels[:512]
            began = time.perf_counter()
            probabilities(training.network, sample)
            once = (time.perf_counter() - began) * len(dataset.test) / len(sample)
            evaluation_seconds += 2 * once * plan.recipe.evaluations
    return max(1, int((60 * minutes - evaluation_seconds) / step_seconds))


def write_start(directory: RunDirectory, plan: Plan, dataset: Dataset) -> None:
    """recipe.json and labels.csv."""
    train = dataset.train
    directory.write_labels(
        [train.names[i] for i in plan.labelled], [train.classes[label] for label in train.labels[plan.labelled]]
    )
    facts = {
        "recipe": plan.recipe.to_dict(),
        "steps": plan.steps,
        "network": plan.network,
        "flip": plan.flip,
        "data": fingerprint(train),
        "device": str(plan.device),
        "threads": torch.get_num_threads(),
        "versions": {"fewlabel": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    write_json(directory / "recipe.json", facts)


def introduce(reporter: Reporter, plan: Plan, dataset: Dataset) -> None:
    """Say what is about to happen, and what was decided by itself."""
    train, test = dataset.train, dataset.test
    flip = "mirrored pictures count as the same" if plan.flip else "no mirroring"
    reporter.say(
        f"{dataset.name}: {len(train)} training images of {train.size}x{train.size}, "
        f"{len(plan.labelled)} of them labelled, {len(train.classes)} classes; {flip}."
    )
    if train.skipped:
        reporter.say(f"{len(train.skipped)} pictures could not be read and are left out; the report names them.")
    if test is None:
        reporter.say("No test images were given (--test), so no test accuracy is reported.")
    else:
        reporter.say(f"{len(test)} test images, never trained on.")
    device = f"{plan.device} ({torch.get_num_threads()} threads)" if plan.device.type == "cpu" else str(plan.device)
    reporter.say(
        f"{plan.recipe.method} with {plan.network} on {device}, {plan.steps} steps, into {plan.recipe.directory}"
    )


# ---- the loop


def fit(plan: Plan, dataset: Dataset, directory: RunDirectory, reporter: Reporter, title: str) -> Training:
    """Train to the last step, from wherever the directory's checkpoint is."""
    training = Training(plan, dataset)
    done, seconds = training.restore(directory)
    reporter.start(title, directory.metrics, done, plan.steps, seconds)
    saved_at = time.monotonic()
    with interruptible() as interrupted:
        try:
            for index in range(done, plan.steps):
                terms, records, images = training.advance(index)
                training.meter.add(terms, records, training.truth)
                reporter.tick(images)
                evaluate_now = due(index, plan.steps, plan.recipe.evaluations)
                if due(index, plan.steps, plan.recipe.evaluations * LOGS_PER_EVALUATION):
                    training.check(index, directory)
                    values = training.meter.read() | reporter.speed()
                    reporter.line(index + 1, values | (training.evaluate() if evaluate_now else {}))
                if evaluate_now or interrupted() or time.monotonic() - saved_at > SAVE_SECONDS:
                    training.check(index, directory)
                    training.save(directory, index + 1, reporter.seconds)
                    saved_at = time.monotonic()
                if interrupted() and index + 1 < plan.steps:
                    raise Interrupted(f"stopped at step {index + 1} of {plan.steps}; everything is saved.")
        finally:
            reporter.stop()
    training.history = reporter.history
    return training


def due(index: int, steps: int, times: int) -> bool:
    """Is something that happens `times` times in a run, the last time at its end, to happen after step `index`?"""
    return (index + 1) * times // steps > index * times // steps


@contextmanager
def interruptible() -> Iterator[Any]:
    """Within this block the first Ctrl-C only sets a flag, so that the step at hand is finished and saved."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def first(signum: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


# ---- after the last step


def finish(
    plan: Plan,
    dataset: Dataset,
    directory: RunDirectory,
    reporter: Reporter,
    fitted: Training,
    floor: Training | None,
) -> Run:
    """Write the model, the predictions and the report."""
    train = dataset.train
    network = calibrated(fitted.teacher, train.pixels)
    description = {
        "network": plan.network,
        "channels": train.channels,
        "size": train.size,
        "classes": list(train.classes),
        "projector": network.projector is not None,
        "method": plan.recipe.method,
        "version": __version__,
    }
    directory.write_model(network, description)
    hidden = torch.ones(len(train), dtype=torch.bool)
    hidden[plan.labelled] = False
    positions = hidden.nonzero().flatten()
    if not dataset.own:  # nobody needs the labels of a benchmark: some are enough for the report
        positions = positions[:: -(-len(positions) // 2000) or 1]
    guesses = predict_positions(network, train.pixels, positions)
    if dataset.own:
        names = [train.names[i] for i in positions]
        write_predictions(directory.predictions, names, guesses, train.classes, train.skipped)
    test_guess = None if dataset.test is None else probabilities(network, dataset.test.pixels).argmax(1)
    write_report(
        directory.report,
        plan,
        dataset,
        fitted.history,
        floor.history if floor else None,
        test_guess,
        positions,
        guesses,
    )
    final = fitted.history[-1].get("accuracy")
    final_floor = floor.history[-1].get("accuracy") if floor else None
    if final is not None:
        beside = "" if final_floor is None else f" (on the labels alone: {final_floor:.2%})"
        reporter.say(f"Test accuracy: {final:.2%}{beside}")
    if dataset.own:
        reporter.say(f"Predictions: {directory.predictions}")
    reporter.say(f"Report: {directory.report}")
    return Run(directory.path, final, fitted.history, final_floor, network)
