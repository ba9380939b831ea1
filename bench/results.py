"""Results that come one by one, a line of JSON each in docs/results: a measurement can be stopped and continued."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib

from fewlabel import Recipe
from fewlabel.grid import Result, read_result, write_result

FOLDER = Path(__file__).parent.parent / "docs/results"


def read_results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_result(path: Path, line: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")
    print(line, flush=True)


def keep_results(path: Path, calls: Iterable[Any], jobs: int) -> None:
    """Do joblib's calls, so many at a time, and write what each returns as soon as it is there."""
    for line in joblib.Parallel(jobs, return_as="generator_unordered", batch_size=1)(calls):
        add_result(path, line)


# ---- runs of a grid


def keep_result(result: Result, path: Path) -> None:
    if not result.error:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            here = dict.fromkeys(("root", "out", "threads"))  # which mean nothing elsewhere
            file.write(json.dumps(asdict(result) | {"recipe": result.recipe | here}) + "\n")


def restore_grid(out: Path, path: Path) -> None:
    """What was measured before, perhaps elsewhere, as results of the grid in that folder."""
    for facts in read_results(path):
        recipe = Recipe(**facts["recipe"])
        if read_result(out, recipe) is None:
            curve = tuple((step, accuracy) for step, accuracy in facts["curve"])
            write_result(out, recipe, Result(**facts | {"curve": curve, "alarms": tuple(facts["alarms"])}))
