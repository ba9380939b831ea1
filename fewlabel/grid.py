"""A grid of independent runs. Each result is written once; a stopped grid continues where it was."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

from . import __version__
from .cluster import dask_cluster
from .errors import UserError
from .files import write_json
from .methods import full_settings
from .run_files import FIRST_STAGE
from .runs import RunDirectory, train
from .training import Recipe, check_recipe
from .training.recipe import PLACES

ATTEMPTS = 3  # at what was under way when the system killed a worker, for want of memory perhaps


@dataclass(frozen=True)
class Result:
    """The result of one run of a grid."""

    recipe: dict[str, Any]
    version: str = __version__
    accuracy: float | None = None  # the last evaluation of the averaged weights
    steps: int = 0
    seconds: float = 0.0
    curve: tuple[tuple[int, float], ...] = ()  # step and accuracy of every evaluation
    alarms: tuple[str, ...] = ()  # that were on at the end
    error: str | None = None  # why there is no accuracy


def run_grid(
    recipes: Iterable[Recipe],
    out: Path,
    jobs: int = 1,
    told: Callable[[Result], None] = lambda _: None,
    scheduler: str | None = None,
) -> list[Result]:
    """Run them all, `jobs` at a time with the cores shared out; gives the results in the order of the recipes.

    With the address of a Dask `scheduler` its workers run them, as many at a time as they have threads. A run whose
    result is in `out` is not run again unless it had failed; one that was killed goes on from its last checkpoint. A
    failure stops no other run. `told` is called with every result as it comes. Results are known by the recipe and the
    version of fewlabel: after a change of the data or of your own code, choose another `out`.
    """
    threads = threads_for(jobs) if scheduler is None else None
    grid = {name_of(recipe): recipe for recipe in map(check_recipe, recipes)}
    results = {name: result for name, recipe in grid.items() if (result := finished(out, recipe))}
    with workers(jobs, scheduler) as (parallel, killed):
        for attempt in range(1, ATTEMPTS + 1):
            left = [replace(recipe, threads=threads) for name, recipe in grid.items() if name not in results]
            try:
                for name, result in parallel(joblib.delayed(run_one)(recipe, out) for recipe in left):
                    if read_result(out, grid[name]) != result:  # the worker may be on another machine, with other disks
                        write_result(out, grid[name], result)
                    results[name] = result
                    told(result)
                break
            except killed as error:
                if attempt == ATTEMPTS:
                    raise UserError("a worker process was killed again and again: try fewer jobs at a time.") from error
    return [results[name] for name in grid]


def threads_for(jobs: int) -> int:
    """The number of threads for each of `jobs` parallel runs."""
    if jobs < 1:
        raise UserError(f"a grid needs at least one job, not {jobs}.")
    return max(1, torch.get_num_threads() // jobs)


@contextmanager
def workers(jobs: int, scheduler: str | None) -> Iterator[tuple[joblib.Parallel, type[Exception]]]:
    """Processes of this machine, or those of a Dask cluster, and the error that tells of a killed one."""
    if scheduler is None:
        yield joblib.Parallel(n_jobs=jobs, return_as="generator_unordered"), TerminatedWorkerError
        return
    with dask_cluster(scheduler) as killed:
        yield joblib.Parallel(n_jobs=-1, return_as="generator_unordered"), killed


def run_one(recipe: Recipe, out: Path) -> tuple[str, Result]:
    """Do one run, in any process; its result is written before it is returned."""
    name = name_of(recipe)
    try:
        run = train(replace(recipe, out=str(out / "runs" / name), predictions=False), resume=True, quiet=True)
        last, of_first = run.history[-1], RunDirectory(run.directory).history(FIRST_STAGE)
        result = Result(
            recipe.to_dict(),
            accuracy=run.accuracy,
            steps=last["step"],
            seconds=last["seconds"] + sum(line["seconds"] for line in of_first[-1:]),
            curve=tuple((line["step"], line["accuracy"]) for line in run.history if "accuracy" in line),
            alarms=tuple(last.get("alarms", ())),
        )
    except Exception as error:  # of any kind: it is kept, and the other runs go on
        result = Result(recipe.to_dict(), error=f"{type(error).__name__}: {error}")
    write_result(out, recipe, result)
    return name, result


def write_result(out: Path, recipe: Recipe, result: Result) -> None:
    """Write a result; a failure never replaces that of a finished run, which another grid may have written."""
    if result.error and finished(out, recipe):
        return
    path = result_path(out, recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(result))


def read_result(out: Path, recipe: Recipe) -> Result | None:
    """The stored result of a run of this version, possibly a failure; None if there is none."""
    try:
        facts = json.loads(result_path(out, recipe).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    curve = tuple((step, accuracy) for step, accuracy in facts["curve"])
    return Result(**facts | {"alarms": tuple(facts["alarms"]), "curve": curve})


def finished(out: Path, recipe: Recipe) -> Result | None:
    """The result of a run that need not be repeated."""
    result = read_result(out, recipe)
    return result if result and not result.error else None


def result_path(out: Path, recipe: Recipe) -> Path:
    return out / "results" / f"{name_of(recipe)}.json"


def name_of(recipe: Recipe) -> str:
    """Method and seed to read, and a key of all that the run computes and of the version that computes it."""
    content = {name: value for name, value in recipe.to_dict().items() if name not in PLACES}
    # Of pictures from scratch a default that is spelled out is the same run.
    if not recipe.data.endswith(".npz") and recipe.pretrain is None:
        content["settings"] = full_settings(recipe.method, recipe.settings)
    content["version"] = __version__
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    return f"{recipe.method}-{recipe.seed}-{key}"
