"""Grids of runs: finished ones are not run again, failures are kept, a killed grid goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.methods import table
from fewlabel import Recipe
from fewlabel.errors import UserError
from fewlabel.grid import Result, name_of, read_result, run_grid, write_result
from fewlabel.training import check_recipe
from tests.equal import metrics
from tests.processes import ENVIRONMENT, wait_for

BASE = Recipe(labels_per_class=2, network="cnn", batch=8, steps=10, evaluations=1, floor=False, method="supervised")


def test_every_run_once_and_failures_do_not_stop_the_others(tmp_path: Path) -> None:
    recipes = [BASE, replace(BASE, labels_per_class=100_000), replace(BASE, method="fixmatch", seed=3)]
    told: list[Result] = []
    results = run_grid(recipes, tmp_path, jobs=2, told=told.append)
    assert [result.recipe["method"] for result in results] == ["supervised", "supervised", "fixmatch"]
    assert [result.error is None for result in results] == [True, False, True]
    assert "fewer than --labels-per-class 100000" in (results[1].error or "")
    assert len(told) == 3

    told.clear()
    again = run_grid(recipes, tmp_path, told=told.append)
    assert [result.error is not None for result in told] == [True]  # only the failed one was tried again
    assert [again[0], again[2]] == [results[0], results[2]]


def test_the_same_recipe_twice_is_one_run(tmp_path: Path) -> None:
    told: list[Result] = []
    assert len(run_grid([BASE, replace(BASE, threads=1), BASE], tmp_path, jobs=2, told=told.append)) == 1
    assert len(told) == 1


def test_another_version_runs_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither believes the old result nor goes on from the old run's checkpoint."""
    run_grid([BASE], tmp_path)
    (old,) = (tmp_path / "runs").iterdir()
    monkeypatch.setattr("fewlabel.grid.__version__", "99.0")
    (result,) = run_grid([BASE], tmp_path)
    (new,) = (path for path in (tmp_path / "runs").iterdir() if path != old)
    assert metrics(new)[-1]["step"] == result.steps == 10


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    """As the system does when memory runs out: the other runs end, and so does this one in the end."""
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path,))
    killer.start()
    results = run_grid([replace(BASE, seed=seed, steps=60) for seed in range(3)], tmp_path, jobs=2)
    killer.join()
    assert [result.error for result in results] == [None] * 3
    assert [result.recipe["seed"] for result in results] == [0, 1, 2]


def kill_a_worker(out: Path) -> None:
    """The first one that has begun a run."""
    until = time.monotonic() + 60
    while not list(out.glob("runs/*/recipe.json")):
        assert time.monotonic() < until
        time.sleep(0.05)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    workers = [int(child) for child in children if "loky" in Path(f"/proc/{child}/cmdline").read_text()]
    workers = [w for w in workers if "resource_tracker" not in Path(f"/proc/{w}/cmdline").read_text()]
    assert workers
    os.kill(workers[0], signal.SIGKILL)


def test_a_result_says_what_was_run(tmp_path: Path) -> None:
    (result,) = run_grid([BASE], tmp_path)
    assert result.accuracy is not None and 0 <= result.accuracy <= 1
    assert (result.steps, result.recipe["seed"]) == (10, 0)
    assert result.seconds > 0


def test_the_name_is_of_what_is_computed() -> None:
    """Every setting makes another run, but for where things are and how many threads there are."""
    changed: dict[str, Any] = {field.name: {field.name: "another"} for field in fields(Recipe)}
    changed |= {"method": {"method": "mixup"}, "settings": {"method": "mixup", "settings": {"mixup.beta": 0.5}}}
    same = {name for name, change in changed.items() if name_of(replace(BASE, **change)) == name_of(BASE)}
    assert same == {
        "root",
        "out",
        "threads",
        "device",
        "download",
        "predictions",
        "backend",
        "scheduler",
        "spend_audit",
    }
    assert name_of(BASE).startswith("supervised-0-")


@pytest.mark.slow
def test_a_killed_grid_goes_on_to_the_same_results(tmp_path: Path) -> None:
    """Killed after the first of two runs: the first is not run again, and the second ends as if nothing had been."""
    words = [
        "--data",
        "digits",
        "--images",
        "4000",
        "--methods",
        "supervised",
        "pi-model",
        "--seeds",
        "0",
        "--jobs",
        "1",
    ]
    command = [sys.executable, "-m", "bench.methods", *words, "--out"]
    root = Path(__file__).parent.parent

    def bench(out: Path) -> "subprocess.Popen[str]":
        words = [str(out), "--results", str(out.with_suffix(".jsonl"))]
        return subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, cwd=root, env=ENVIRONMENT)

    undisturbed = bench(tmp_path / "whole")
    expected = undisturbed.communicate(timeout=300)[0]
    assert undisturbed.returncode == 0
    assert "| `pi-model` |" in expected

    killed = bench(tmp_path / "killed")
    wait_for(lambda: any((tmp_path / "killed/results").glob("supervised-*.json")), killed)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    first = next((tmp_path / "killed/results").glob("*.json"))
    written = first.stat().st_mtime_ns
    again = bench(tmp_path / "killed")
    assert "supervised, seed 0" not in again.communicate(timeout=300)[0]
    assert first.stat().st_mtime_ns == written
    for path in (tmp_path / "whole/results").glob("*.json"):
        whole, resumed = (json.loads(p.read_text()) for p in (path, tmp_path / "killed/results" / path.name))
        assert whole["accuracy"] == resumed["accuracy"]


def test_a_recipe_of_another_shape_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean supervised"):
        run_grid([BASE, replace(BASE, method="supervized")], tmp_path)
    with pytest.raises(UserError, match="at least one job"):
        run_grid([BASE], tmp_path, jobs=0)
    assert not list(tmp_path.iterdir())


def test_a_failure_does_not_replace_a_result(tmp_path: Path) -> None:
    """But a result replaces a failure."""
    recipe = check_recipe(BASE)
    failed, good = Result(recipe.to_dict(), error="no luck"), Result(recipe.to_dict(), accuracy=0.5)
    for written, there in ((failed, failed), (good, good), (failed, good)):
        write_result(tmp_path, recipe, written)
        assert read_result(tmp_path, recipe) == there


def test_the_table_of_the_bench() -> None:
    """Every method that was run has its row, with and without terms; failures and alarms show."""

    def result(method: str, accuracy: float | None, *alarms: str) -> Result:
        return Result({"method": method}, accuracy=accuracy, steps=7, seconds=90.0, alarms=alarms)

    text = table(
        [
            result("fixmatch", 0.9),
            result("fixmatch", 0.7, "none kept"),
            result("icl-ssl", 0.8),
            result("vat", None),
            result("fixmatch+aug-contrast", 0.5),
        ]
    )
    assert text.splitlines() == [
        "| method | steps | alone | minutes | steps | `+icl` | minutes | steps | `+aug-contrast` | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
        "| `vat` |  | 1 failed |  |  | not run |  |  | not run |  |",
        "| `fixmatch` | 7 | 80.00 ± 14.14 (90.0, 70.0*) | 1.5 | 7 | 80.00 (80.0) | 1.5 | 7 | 50.00 (50.0) | 1.5 |",
    ]


def test_settings_of_a_grid(tmp_path: Path) -> None:
    """A default that is spelled out is the same run; but of arrays, whose kind is not known yet, it may be another."""
    same = [name_of(replace(BASE, method="icl-ssl", settings=settings)) for settings in ({}, {"icl.weight": 0.03})]
    other = [name_of(replace(BASE, data="a.npz", method="icl-ssl", settings=s)) for s in ({}, {"icl.weight": 0.03})]
    assert same[0] == same[1]
    assert other[0] != other[1]
    checked = check_recipe(replace(BASE, method="mixup", settings={"beta": np.float32(0.5)}))
    assert json.dumps(checked.settings) == '{"mixup.beta": 0.5}'
