"""Run the experiments behind a table or figure, with an estimate of their time."""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..data import Dataset, load
from ..drift import measure
from ..errors import UserError, unknown
from ..evaluate import predict_probabilities
from ..files import make_folder, write_json
from ..grid import Result, finished, run_grid, threads_for
from ..terminal import with_progress
from ..training import Recipe, Trainer, check_recipe, choose_device, make_plan
from ..training.length import Part, for_images
from .exhibits import EXHIBITS, SCALES, Augmentations, Exhibit, Timing, Work, recipe

EPOCH = 1024  # steps, as the paper counts
TIMED_STEPS = 4  # for the estimate; the first of them is not counted


def exhibit_of(name: str) -> Exhibit:
    if name not in EXHIBITS:
        raise unknown("table or figure of the paper", name, EXHIBITS)
    return EXHIBITS[name]


def work_of(name: str, scale: str) -> Work:
    """The runs of an exhibit; None for drawings."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    return exhibit_of(name).work.get(scale, ())


def recipes_of(name: str, scale: str, root: str | None, only: str | None = None) -> list[Recipe]:
    """All training runs of an exhibit, or those on one data set."""
    work = work_of(name, scale)
    grids = work if isinstance(work, tuple) else ()
    if only is not None and not grids:
        raise UserError(f"{name} rests on no grid of runs: leave --data out.")
    if only is not None and only not in (names := [grid.data for grid in grids]):
        raise unknown(f"data set of {name} at this scale", only, names)
    return [recipe for grid in grids if only in (None, grid.data) for recipe in grid.recipes(scale, root)]


def run_exhibit(
    name: str,
    scale: str,
    root: str | None,
    out: Path,
    *,
    jobs: int = 1,
    only: str | None = None,
    scheduler: str | None = None,
    told: Callable[[Result], None] = lambda _: None,
) -> None:
    """Do the missing runs; results are kept in `out`."""
    work = work_of(name, scale)
    if not work:
        raise UserError(f"{name} needs no runs: `fewlabel paper show {name}` makes it.")
    if isinstance(work, tuple):
        run_grid(recipes_of(name, scale, root, only), out, jobs, told, scheduler)
    elif kept(name, scale, out) is None:
        make_folder(out)
        facts = time_methods(work, scale, root) if isinstance(work, Timing) else try_augmentations(work, root, jobs)
        write_json(kept_path(name, scale, out), {"origin": origin(work, scale), "facts": facts})


def kept_path(name: str, scale: str, out: Path) -> Path:
    return out / f"{name}-{scale}.json"


def kept(name: str, scale: str, out: Path) -> Any:
    """The measurement of this version for an exhibit without a grid, or None."""
    work, path = work_of(name, scale), kept_path(name, scale, out)
    if isinstance(work, tuple) or not path.exists():
        return None
    content = json.loads(path.read_text())
    return content["facts"] if content.get("origin") == origin(work, scale) else None


def origin(work: Timing | Augmentations, scale: str) -> Any:
    """The settings that a measurement depends on, as stored in its file."""
    facts: dict[str, Any] = {"version": __version__, "work": asdict(work)}
    if isinstance(work, Timing):
        facts["recipes"] = [timed_recipe(work, scale, method, None).to_dict() for method in work.methods]
    return json.loads(json.dumps(facts))


# ---- the time a grid will take


def estimate(recipes: list[Recipe], out: Path, jobs: int) -> tuple[int, float]:
    """How many runs are left and how many seconds they will take, from a few steps of each kind."""
    kinds: dict[tuple[str, str], list[Recipe]] = {}
    for one in recipes:
        if finished(out, check_recipe(one)) is None:
            kinds.setdefault((one.data, one.method), []).append(one)
    datasets = {data: load(data, alike[0].root) for (data, _), alike in kinds.items()}
    times: list[float] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(threads_for(jobs))
    try:
        for (data, _), alike in with_progress(kinds.items(), len(kinds), "Timing a few steps"):
            times += [seconds_of(alike[0], datasets[data])] * len(alike)
    finally:
        torch.set_num_threads(threads)
    return len(times), max([sum(times) / jobs, *times])


def seconds_of(recipe: Recipe, dataset: Dataset) -> float:
    """Seconds of one run; 0 if it fails, which its result will report."""
    try:
        plan = make_plan(recipe, dataset)
        if recipe.images is not None:
            plan = for_images(recipe.images, Part(plan, dataset))
        trainer = Trainer(plan, dataset)
        times = [seconds(trainer.step, index) for index in range(min(TIMED_STEPS, plan.steps))]
        return plan.steps * statistics.median(times[1:] or times) + plan.evaluations * seconds(trainer.evaluate)
    except Exception:
        return 0.0


def seconds(work: Callable[..., object], *values: Any) -> float:
    """How long a call takes; what a GPU has still to do is waited for."""
    began = time.perf_counter()
    work(*values)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


# ---- what is no grid


def time_methods(timing: Timing, scale: str, root: str | None) -> dict[str, Any]:
    """Seconds of an epoch of training and of a look at all test images; the methods take their steps in turn."""
    dataset = load(timing.data, root)
    assert dataset.test is not None
    trainers = {}
    for method in timing.methods:
        trainers[method] = Trainer(make_plan(timed_recipe(timing, scale, method, root), dataset), dataset)
    times: dict[str, list[float]] = {method: [] for method in trainers}
    for index in with_progress(range(timing.steps + 1), timing.steps + 1, "Timing"):
        for method, trainer in trainers.items():
            times[method].append(seconds(trainer.step, index))
    looks = {
        method: [seconds(predict_probabilities, trainer.teacher, dataset.test.inputs) for _ in range(3)]
        for method, trainer in trainers.items()
    }
    found = {
        method: {
            "training": EPOCH * statistics.median(times[method][1:]),
            "inference": statistics.median(looks[method]),
        }
        for method in trainers  # the first step, which allocates, is not counted
    }
    return {"seconds": found, "device": str(choose_device(None)), "threads": torch.get_num_threads()}


def timed_recipe(timing: Timing, scale: str, method: str, root: str | None) -> Recipe:
    return recipe(scale, timing.data, timing.labels, method, {}, 0, root)


def try_augmentations(work: Augmentations, root: str | None, jobs: int) -> dict[str, Any]:
    """Accuracy without augmentation, and the change by each with its standard error."""
    plain, drifts = measure(
        load(work.data, root),
        labels_per_class=work.labels_per_class,
        operations=work.operations,
        seeds=work.seeds,
        network=work.network,
        steps=work.steps,
        jobs=jobs,
    )
    return {"plain": plain, "changes": {drift.operation: [drift.change, drift.error] for drift in drifts}}
