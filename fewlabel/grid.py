"""A grid: many independent runs. Each one's result is written once; a grid that was stopped goes on where it was."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import joblib

from .checkpoint import RunDirectory
from .files import write_json
from .loop import train
from .plan import check_recipe
from .recipe import PLACES, Recipe


@dataclass(frozen=True)
class Result:
    """What one run of a grid came to."""

    recipe: dict[str, Any]
    accuracy: float | None = None  # the last evaluation of the averaged weights
    steps: int = 0
    seconds: float = 0.0
    error: str | None = None  # why there is no accuracy


def run_grid(
    recipes: Iterable[Recipe], out: Path, jobs: int = 1, told: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Run them all, `jobs` at a time with the cores shared out; gives the results in the order of the recipes.

    A run whose result is in `out` is not run again unless it had failed; one that was killed goes on from its last
    checkpoint. A failure stops no other run. `told` is called with every result as it comes.
    """
    recipes = [check_recipe(recipe) for recipe in recipes]
    results = {name_of(recipe): read_result(out, recipe) for recipe in recipes}
    open_ones = [recipe for recipe in recipes if results[name_of(recipe)] is None]
    threads = max(1, (os.cpu_count() or 1) // jobs)
    calls = (joblib.delayed(run_one)(replace(recipe, threads=threads), out) for recipe in open_ones)
    for name, result in joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
        results[name] = result
        told(result)
    return [result for recipe in recipes if (result := results[name_of(recipe)]) is not None]


def run_one(recipe: Recipe, out: Path) -> tuple[str, Result]:
    """One run, in whatever process; its result is written before it is given back."""
    name = name_of(recipe)
    directory = RunDirectory(out / "runs" / name)
    try:
        run = train(replace(recipe, out=str(directory.path)), resume=True, quiet=True)
        steps, seconds = run.history[-1]["step"], run.history[-1]["seconds"]
        result = Result(recipe.to_dict(), run.accuracy, steps, seconds)
    except Exception as error:  # of any kind: it is kept, and the other runs go on
        result = Result(recipe.to_dict(), error=f"{type(error).__name__}: {error}")
    path = result_path(out, recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(result))
    return name, result


def read_result(out: Path, recipe: Recipe) -> Result | None:
    """The result that a run left, or None where it left none or failed."""
    try:
        result = Result(**json.loads(result_path(out, recipe).read_text()))
    except FileNotFoundError:
        return None
    return None if result.error else result


def result_path(out: Path, recipe: Recipe) -> Path:
    return out / "results" / f"{name_of(recipe)}.json"


def name_of(recipe: Recipe) -> str:
    """Method and seed to read, and a key of all that the run computes."""
    content = {name: value for name, value in recipe.to_dict().items() if name not in PLACES}
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    return f"{recipe.method}-{recipe.seed}-{key}"
