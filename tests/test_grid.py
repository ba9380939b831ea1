"""Grids of runs: finished ones are not run again, failures are kept, a killed grid goes on."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fewlabel import Recipe
from fewlabel.grid import Result, name_of, run_grid
from tests.commands import ENVIRONMENT
from tests.test_loop import wait_for

BASE = Recipe(labels_per_class=2, network="cnn", batch=8, steps=10, evaluations=1, floor=False, method="supervised")


def test_every_run_once_and_failures_do_not_stop_the_others(tmp_path: Path) -> None:
    recipes = [BASE, replace(BASE, labels_per_class=100_000), replace(BASE, method="fixmatch", seed=3)]
    told: list[Result] = []
    results = run_grid(recipes, tmp_path, jobs=2, told=told.append)
    assert [result.recipe["method"] for result in results] == ["supervised", "supervised", "fixmatch"]
    assert [result.error is None for result in results] == [True, False, True]
    assert "100000 per class were asked for" in (results[1].error or "")
    assert len(told) == 3

    told.clear()
    again = run_grid(recipes, tmp_path, told=told.append)
    assert [result.error is not None for result in told] == [True]  # only the failed one was tried again
    assert [again[0], again[2]] == [results[0], results[2]]


def test_a_result_says_what_was_run(tmp_path: Path) -> None:
    (result,) = run_grid([BASE], tmp_path)
    assert result.accuracy is not None and 0 <= result.accuracy <= 1
    assert (result.steps, result.recipe["seed"]) == (10, 0)
    assert result.seconds > 0


def test_the_name_is_of_what_is_computed() -> None:
    assert name_of(replace(BASE, root="elsewhere", threads=1, out="x")) == name_of(BASE)
    others = [
        replace(BASE, seed=1),
        replace(BASE, steps=11),
        replace(BASE, learning_rate=0.1),
        replace(BASE, settings={"a.b": 1}),
    ]
    assert len({name_of(recipe) for recipe in [BASE, *others]}) == 5
    assert name_of(BASE).startswith("supervised-0-")


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
        return subprocess.Popen([*command, str(out)], stdout=subprocess.PIPE, text=True, cwd=root, env=ENVIRONMENT)

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
    with pytest.raises(Exception, match="did you mean supervised"):
        run_grid([BASE, replace(BASE, method="supervized")], tmp_path)
    assert not list(tmp_path.iterdir())
