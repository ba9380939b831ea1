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
from .alarm import advice, alarms
from .checkpoint import RunDirectory
from .data import Dataset, load
from .errors import UserError
from .evaluate import calibrated, probabilities
from .files import write_json
from .methods import in_words
from .networks import Classifier
from .plan import Plan, check_recipe, default_evaluations, fingerprint, make_plan, summary
from .predict import write_predictions
from .progress import Reporter
from .ranks import ALONE, Ranks, all_ranks, launch, local_rank, restarts
from .recipe import Recipe
from .training import Training

FLOOR = "supervised"  # the method that learns from the labels alone
SAVE_SECONDS = 60  # a killed run loses at most about this much
LOGS_PER_EVALUATION = 10


class Interrupted(KeyboardInterrupt):
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
    """Train, evaluate, and write the run directory. The same recipe and machine give the same bits.

    Processes that torchrun started train the run together; the first of them judges, writes and speaks.
    """
    with all_ranks() as ranks:
        recipe = ranks.first_says(lambda: check_recipe(recipe))
        with RunDirectory(recipe.directory) as directory:
            return train_together(recipe, dataset, directory, ranks, resume, overwrite, quiet)


def train_together(
    recipe: Recipe,
    dataset: Dataset | None,
    directory: RunDirectory,
    ranks: Ranks,
    resume: bool,
    overwrite: bool,
    quiet: bool,
) -> Run:
    (again,) = ranks.any(restarts() > 0)
    if again and ranks.first_says(lambda: is_own(directory)):  # torchrun has started us again in the middle of it
        resume, overwrite = True, False
    ranks.first_says(lambda: directory.refuse_occupied(resume=resume, overwrite=overwrite))
    data = dataset or ranks.first_before_others(lambda: load_for(recipe))
    ranks.agree_on("images and labels", lambda: summary(data))
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    reporter = Reporter(quiet or not ranks.first)
    plan = on_own_device(ranks.first_says(lambda: check_ranks(make_plan(recipe, data), ranks)), ranks)
    mark = fingerprint(data)
    saved = ranks.first_says(lambda: directory.open(recipe, mark, resume=resume, overwrite=overwrite))
    if saved:
        plan = saved_plan(plan, saved, ranks.first_says(directory.read_labels), data)
        if (saved["device"], saved["threads"], saved["processes"], saved["versions"]) != surroundings(plan, ranks):
            reporter.say(
                "Note: the run was begun on another device, with other threads, processes or versions; bits may differ."
            )
    else:
        if resume:
            reporter.say(f"There is no run in {directory.path} yet: a new one is started.")
        if recipe.minutes is not None:
            plan = fit_into(recipe.minutes, plan, data, ranks)
        if recipe.images is not None:
            plan = steps_of(recipe.images, plan, data, ranks)
        ranks.first_says(lambda: write_start(directory, plan, data, mark, ranks))
    introduce(reporter, plan, data, ranks)

    fitted, history = fit(plan, data, directory, reporter, recipe.method, ranks)
    floor = None
    if floor_plan := floor_of(plan, data):
        floor_directory = RunDirectory(directory / "floor")
        _, floor = fit(floor_plan, data, floor_directory, reporter, "labels only", ranks)
    network = calibrated(fitted.teacher, data.train.pixels)
    ranks.first_says(lambda: finish(plan, data, directory, reporter, network, history, floor))
    final_floor = floor[-1].get("accuracy") if floor else None
    return Run(directory.path, history[-1].get("accuracy"), history, final_floor, network)


# ---- before the first step


def load_for(recipe: Recipe) -> Dataset:
    return load(
        recipe.data, recipe.root, labels=recipe.labels, test=recipe.test, size=recipe.size, download=recipe.download
    )


def is_own(directory: RunDirectory) -> bool:
    """Was what lies there written by this very call of torchrun?"""
    facts = directory.facts()
    return facts is not None and launch() is not None and facts.get("launch") == launch()


def check_ranks(plan: Plan, ranks: Ranks) -> Plan:
    """The plan, unless it is one that several processes cannot carry out together."""
    if ranks.count == 1:
        return plan
    least = ranks.count if plan.recipe.share_norms else 2 * ranks.count
    if plan.recipe.batch < least:
        raise UserError(f"{ranks.count} processes need at least {least} labelled images a step: raise --batch.")
    if plan.recipe.compile:
        raise UserError("--compile is for one process: leave it out, or do without torchrun.")
    if plan.device.type == "mps":
        raise UserError("several processes cannot share the device mps: give --device cpu, or do without torchrun.")
    if ":" in str(plan.device):
        raise UserError(
            f"--device {plan.device} is one device: give {plan.device.type}, and each process takes its own."
        )
    return plan


def on_own_device(plan: Plan, ranks: Ranks) -> Plan:
    """The plan with the GPU of this process, where there are several."""
    if ranks.count == 1 or plan.device.type != "cuda":
        return plan
    if local_rank() >= torch.cuda.device_count():
        raise UserError(f"there are {torch.cuda.device_count()} GPUs: give torchrun no more processes per machine.")
    return replace(plan, device=torch.device("cuda", local_rank()))


def floor_of(plan: Plan, dataset: Dataset) -> Plan | None:
    """The same run on the labels alone, or None where it is not wanted, is the run itself, or could not be judged."""
    if not plan.recipe.floor or plan.recipe.method == FLOOR or dataset.test is None:
        return None
    return replace(plan, recipe=replace(plan.recipe, method=FLOOR, settings={}))


def steps_of(images: int, plan: Plan, dataset: Dataset, ranks: Ranks = ALONE) -> Plan:
    """As many steps as take so many images through the network; one step is taken to count its images."""
    steps = images // Training(plan, dataset, ranks=ranks).advance(0).images
    if steps < 1:
        raise UserError(f"one step takes more than {images} images: give more --images, or a smaller --batch.")
    evaluations = plan.recipe.evaluations or default_evaluations(replace(plan.recipe, steps=steps), dataset)
    return replace(plan, steps=steps, evaluations=evaluations)


def fit_into(minutes: float, plan: Plan, dataset: Dataset, ranks: Ranks = ALONE) -> Plan:
    """As many steps as that time has room for, the floor and the evaluations included.

    Where the evaluations alone would take more than a fifth of it, there are fewer of them.
    """
    step_seconds = evaluation_seconds = 0.0
    for part in filter(None, (plan, floor_of(plan, dataset))):
        training = Training(part, dataset, ranks=ranks)
        times = []
        for index in range(8):
            began = time.perf_counter()
            sum(training.advance(index).terms.values()).item()  # type: ignore[union-attr]  # waits for the device
            times.append(time.perf_counter() - began)
        step_seconds += float(np.median(times[2:]))
        if dataset.test is not None:
            began = time.perf_counter()
            network = calibrated(training.network, dataset.train.pixels)
            between = time.perf_counter()
            sample = dataset.test.pixels[:512]
            probabilities(network, sample)
            looking = (time.perf_counter() - between) * len(dataset.test) / len(sample)
            evaluation_seconds += 2 * (between - began + looking)
    evaluations = plan.recipe.evaluations or 20
    if evaluation_seconds:
        evaluations = max(1, min(evaluations, int(0.2 * 60 * minutes / evaluation_seconds)))
    steps = int((60 * minutes - evaluations * evaluation_seconds) / step_seconds)
    evaluations, steps = ranks.first_says(lambda: (evaluations, steps))
    if steps < 1:
        raise UserError(f"not one step fits into {minutes:g} minutes beside an evaluation: give more --minutes.")
    return replace(plan, steps=steps, evaluations=evaluations)


def surroundings(plan: Plan, ranks: Ranks) -> tuple[str, int, int, dict[str, str]]:
    """What the bits of a run may depend on: device, threads, processes, versions."""
    versions = {"fewlabel": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return plan.device.type, torch.get_num_threads(), ranks.count, versions


def write_start(directory: RunDirectory, plan: Plan, dataset: Dataset, data: str, ranks: Ranks) -> None:
    """labels.csv and recipe.json."""
    train = dataset.train
    directory.write_labels(
        [train.names[i] for i in plan.labelled], [train.classes[label] for label in train.labels[plan.labelled]]
    )
    device, threads, processes, versions = surroundings(plan, ranks)
    facts = {
        "recipe": plan.recipe.to_dict(),
        "steps": plan.steps,
        "evaluations": plan.evaluations,
        "network": plan.network,
        "without": sorted(plan.without),
        "learning_rate": plan.learning_rate,
        "precision": str(plan.precision).removeprefix("torch."),
        "data": data,
        "device": device,
        "threads": threads,
        "processes": processes,
        "launch": launch(),
        "versions": versions,
    }
    write_json(directory / "recipe.json", facts)


def saved_plan(plan: Plan, saved: dict[str, Any], names: list[str], dataset: Dataset) -> Plan:
    """The plan of a run that is continued: whatever was decided then stays so."""
    positions = {name: i for i, name in enumerate(dataset.train.names)}
    if strange := [name for name in names if name not in positions]:
        raise UserError(f"labels.csv of the run names {strange[0]}, which is no training image: it has been changed.")
    return replace(
        plan,
        labelled=torch.tensor([positions[name] for name in names]),
        steps=saved["steps"],
        evaluations=saved["evaluations"],
        network=saved["network"],
        without=frozenset(saved["without"]),
        learning_rate=saved["learning_rate"],
        precision=getattr(torch, saved["precision"]),
    )


def repeated(directory: RunDirectory, **changes: Any) -> tuple[Recipe, Dataset]:
    """The recipe of a run, with what was left open in it as it was decided then, and the images it was trained on."""
    facts = directory.facts()
    if facts is None:
        raise UserError(f"{directory.path} holds no run: give the directory of one.")
    without = set(facts["without"])
    decided = ["steps", "evaluations", "network", "learning_rate", "threads"]
    decided += [] if "device" in changes else ["device", "precision"]  # another one may want another precision
    recipe = Recipe(
        **facts["recipe"]
        | {name: facts[name] for name in decided}
        | {"minutes": None, "images": None, "download": False}
        | {"flip": "horizontal-flip" not in without, "without": ",".join(sorted(without - {"horizontal-flip"}))}
        | changes
    )
    dataset = load_for(recipe)
    if fingerprint(dataset) != facts["data"]:
        raise UserError(f"{recipe.data} does not hold what {directory.path} was trained on: it cannot be repeated.")
    return recipe, dataset


def introduce(reporter: Reporter, plan: Plan, dataset: Dataset, ranks: Ranks) -> None:
    """Say what is about to happen, and what was decided by itself."""
    train, test = dataset.train, dataset.test
    views = "no mirroring" if "horizontal-flip" in plan.without else "mirrored pictures count as the same"
    if others := sorted(plan.without - {"horizontal-flip"}):
        views += f"; no view with {', '.join(others)}"
    reporter.say(
        f"{dataset.name}: {len(train)} training images of {train.size}x{train.size}, "
        f"{len(plan.labelled)} of them labelled, {len(train.classes)} classes; {views}."
    )
    if train.skipped:
        reporter.say(f"{len(train.skipped)} pictures could not be read and are left out; the report names them.")
    if test is None:
        reporter.say("No test images were given (--test), so no test accuracy is reported.")
    else:
        reporter.say(f"{test.known} test images, never trained on.")
    device = f"{plan.device} ({torch.get_num_threads()} threads)" if plan.device.type == "cpu" else str(plan.device)
    if ranks.count > 1:
        device = f"{ranks.count} processes, each on {device}"
    reporter.say(
        f"{in_words(plan.recipe.method, plan.recipe.settings)}, {plan.network} on {device}, {plan.steps} steps, "
        f"into {plan.recipe.directory}"
    )


# ---- the loop


def fit(
    plan: Plan, dataset: Dataset, directory: RunDirectory, reporter: Reporter, title: str, ranks: Ranks = ALONE
) -> tuple[Training, list[dict[str, Any]]]:
    """Train to the last step, from wherever the directory's checkpoint is; gives also the lines of metrics."""
    training = Training(plan, dataset, ranks=ranks)
    done, seconds = training.restore(ranks.first_says(directory.load))
    if ranks.first:
        directory.path.mkdir(exist_ok=True)
        if 0 < done < plan.steps:
            reporter.say(f"{title}: continuing after step {done}.")
        elif done == 0 and (directory / "last.ckpt").exists():
            reporter.say(f"{title}: no whole checkpoint in {directory.path}, beginning anew.")
        reporter.start(title, directory.metrics, done, plan.steps, seconds)
    saved_at = time.monotonic()
    with interruptible(ranks) as interrupted:
        try:
            for index in range(done, plan.steps):
                images = training.advance(index).images
                done = index + 1
                evaluate_now = due(index, plan.steps, plan.evaluations)
                log_now = due(index, plan.steps, plan.evaluations * LOGS_PER_EVALUATION)
                stopping, late = ranks.any(interrupted(), time.monotonic() - saved_at > SAVE_SECONDS)
                save_now = evaluate_now or stopping or late
                if log_now or save_now:
                    training.check(index, directory)
                if ranks.first:
                    reporter.tick(images)
                    if log_now:
                        values = training.meter.read() | reporter.speed()
                        values |= training.evaluate() if evaluate_now else {}
                        reporter.line(done, values | warnings(done, values, reporter, plan, dataset))
                    if save_now:
                        training.save(directory, done, reporter.seconds)
                if save_now:
                    saved_at = time.monotonic()
                if stopping:
                    break
        finally:
            reporter.stop()
        if any(ranks.any(interrupted())):  # the last thing that happened was a save
            raise Interrupted(f"stopped after step {done} of {plan.steps}; everything is saved.")
    return training, ranks.first_says(lambda: reporter.history)


def warnings(
    done: int, values: dict[str, Any], reporter: Reporter, plan: Plan, dataset: Dataset
) -> dict[str, dict[str, str]]:
    """The alarms that are due at this line of metrics, to be noted in it; said aloud the first time."""
    found = alarms([*reporter.history, {"step": done, **values}], plan.steps, dataset.train.classes)
    for alarm, seen in found.items():
        if not any(alarm in line.get("alarms", ()) for line in reporter.history):
            suggestions = "".join(
                f"\n  - {suggestion}" for suggestion in advice(alarm, plan.recipe, plan.learning_rate)
            )
            reporter.say(f"Warning at step {done}: {seen}. What may help:{suggestions}")
    return {"alarms": found} if found else {}


def due(index: int, steps: int, times: int) -> bool:
    """Is something that happens `times` times in a run, the last time at its end, to happen after step `index`?"""
    return (index + 1) * times // steps > index * times // steps


@contextmanager
def interruptible(ranks: Ranks = ALONE) -> Iterator[Any]:
    """Within this block the first Ctrl-C only sets a flag, so that the step at hand is finished and saved.

    Of several processes each may get any number of signals, also SIGTERM, by which torchrun asks them to end.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def press(signum: int, frame: Any) -> None:
        pressed.set()
        if ranks.count == 1:
            signal.signal(signum, before[signum])

    numbers = (signal.SIGINT,) if ranks.count == 1 else (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.signal(number, press) for number in numbers}
    try:
        yield pressed.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- after the last step


def finish(
    plan: Plan,
    dataset: Dataset,
    directory: RunDirectory,
    reporter: Reporter,
    network: Classifier,
    history: list[dict[str, Any]],
    floor: list[dict[str, Any]] | None,
) -> None:
    """Write the model, the predictions and the report."""
    from .report import write_report  # matplotlib takes its time: not before the first step

    train = dataset.train
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
    if not plan.recipe.predictions:  # some are enough for the report
        positions = positions[:: -(-len(positions) // 2000) or 1]
    guesses = probabilities(network, train.pixels, positions, title="Labelling")
    if plan.recipe.predictions:
        names = [train.names[i] for i in positions]
        write_predictions(directory.predictions, names, guesses, train.classes, train.skipped)
    test_guess = None if dataset.test is None else probabilities(network, dataset.test.pixels).argmax(1)
    write_report(directory.report, plan, dataset, history, floor, test_guess, positions, guesses)
    final = history[-1].get("accuracy")
    final_floor = floor[-1].get("accuracy") if floor else None
    if final is not None:
        beside = "" if final_floor is None else f" (on the labels alone: {final_floor:.2%})"
        reporter.say(f"Test accuracy: {final:.2%}{beside}")
    if plan.recipe.predictions:
        reporter.say(f"Predictions: {directory.predictions}")
    reporter.say(f"Report: {directory.report}")
