"""Results that come one by one, a line of JSON each in docs/results: a measurement can be stopped and continued."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import joblib

FOLDER = Path(__file__).parent.parent / "docs/results"


def read_results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep_results(path: Path, calls: Iterable[Any], jobs: int) -> None:
    """Do joblib's calls, so many at a time, and write what each returns as soon as it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for line in joblib.Parallel(jobs, return_as="generator_unordered", batch_size=1)(calls):
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)
