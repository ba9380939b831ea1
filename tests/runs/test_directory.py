"""The run directory: who may write into it, what is removed from it, and where it lies by default."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fewlabel import Recipe, UserError, load
from fewlabel.runs import RunDirectory
from fewlabel.runs.directory import choose_directory
from fewlabel.runs.resume import facts_to_resume
from fewlabel.training import make_plan


def write_run(path: Path, recipe: Recipe, finished: bool = False) -> None:
    path.mkdir(parents=True)
    plan = make_plan(replace(recipe, labels_per_class=1), load("digits"))
    facts = {"format": 2, **plan.to_dict(), "recipe": recipe.to_dict() | {"settings": plan.recipe.settings}}
    (path / "recipe.json").write_text(json.dumps(facts | {"data": "data"}))
    (path / "labels.csv").write_text("file,label\n")
    if finished:
        (path / "report.html").touch()


def test_an_occupied_directory(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.refuse_occupied(resume=False, overwrite=False)
    assert not directory.path.exists()
    write_run(directory.path, Recipe())
    with pytest.raises(UserError, match=r"already holds a run.*--resume.*--overwrite"):
        directory.refuse_occupied(resume=False, overwrite=False)
    with pytest.raises(UserError, match="not both"):
        directory.refuse_occupied(resume=True, overwrite=True)
    directory.refuse_occupied(resume=True, overwrite=False)
    directory.refuse_occupied(resume=False, overwrite=True)


def test_what_a_run_can_be_resumed_with(tmp_path: Path) -> None:
    plan = make_plan(Recipe(labels_per_class=1, seed=1), load("digits"))
    directory = RunDirectory(tmp_path / "run")
    write_run(directory.path, plan.recipe)
    moved = replace(plan.recipe, device="cpu", threads=1, out="elsewhere", root="elsewhere")
    for recipe in (plan.recipe, moved):
        assert facts_to_resume(directory, replace(plan, recipe=recipe), "data")["steps"] == 2000
    with pytest.raises(UserError, match=r"other settings \(batch, seed\)"):
        facts_to_resume(directory, replace(plan, recipe=replace(plan.recipe, seed=2, batch=8)), "data")
    with pytest.raises(UserError, match="data have changed"):
        facts_to_resume(directory, plan, "other data")


def test_it_is_open_to_one_at_a_time(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as first, RunDirectory(tmp_path) as second:
        first.lock()
        for _ in range(2):
            with pytest.raises(UserError, match="another process is training"):
                second.lock()
    with RunDirectory(tmp_path) as third:
        third.lock()


def test_overwriting_touches_only_what_a_run_writes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_run(path, Recipe(seed=1), finished=True)
    (path / "floor").mkdir()
    (path / ".report.html.partial").write_text("")
    (path / "notes.txt").write_text("mine")
    with RunDirectory(path) as directory:
        directory.lock()
        directory.clear()
    assert {entry.name for entry in path.iterdir()} - {".lock"} == {"notes.txt"}


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False)])
def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, flags: tuple[bool, bool]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    directory = RunDirectory(tmp_path)
    with pytest.raises(UserError, match="not empty and holds no run"):
        directory.refuse_occupied(resume=flags[0], overwrite=flags[1])
    (tmp_path / "recipe.json").write_text('{"sugar": 200}')
    with pytest.raises(UserError, match="was not written by a run"):
        directory.refuse_occupied(resume=flags[0], overwrite=flags[1])
    assert (tmp_path / "thesis.tex").exists()


def test_a_run_killed_before_its_recipe_was_written(tmp_path: Path) -> None:
    """Only leftovers of a run are there: a new one may start."""
    (tmp_path / ".lock").touch()
    (tmp_path / "labels.csv").write_text("file,label\n")
    (tmp_path / ".recipe.json.partial").write_text("{")
    with RunDirectory(tmp_path) as directory:
        directory.refuse_occupied(resume=False, overwrite=False)
        directory.lock()
        directory.refuse_occupied(resume=False, overwrite=False)
        directory.clear()
        assert [entry.name for entry in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
def test_files_of_the_user_that_are_called_like_ours(tmp_path: Path, flags: tuple[bool, bool]) -> None:
    """Such as the labels that the run is to learn from."""
    (tmp_path / "labels.csv").write_text("file,label\na.png,cat\n")
    with pytest.raises(UserError, match="not empty and holds no run"):
        RunDirectory(tmp_path).refuse_occupied(resume=flags[0], overwrite=flags[1])


def test_a_run_whose_split_is_gone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing or damaged"):
        RunDirectory(tmp_path).labelled_names()


def test_lines_after_the_checkpoint_and_half_lines_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "floor").mkdir()
    lines = [{"step": step, "loss": {"total": 1.0}, "seconds": 2.0} for step in (1, 2, 3)]
    (tmp_path / "floor/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"ste')
    assert RunDirectory(tmp_path).history("floor", until=2) == lines[:2]
    assert RunDirectory(tmp_path).history("floor") == lines
    assert RunDirectory(tmp_path).history() == []


def test_the_default_directory_gets_a_running_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe, first = Recipe(), Path("runs/digits-icl-ssl-0")
    second, third, fourth = (first.with_name(f"{first.name}-{number}") for number in (2, 3, 4))

    def chosen(resume: bool = False, overwrite: bool = False, **changes: Any) -> Path:
        return choose_directory(replace(recipe, **changes), resume=resume, overwrite=overwrite)

    assert chosen() == chosen(resume=True) == chosen(overwrite=True) == first
    write_run(first, recipe)  # not finished: to be resumed or replaced, and not silently left behind
    assert chosen() == chosen(resume=True) == chosen(overwrite=True) == first
    assert chosen(batch=8) == chosen(resume=True, batch=8) == chosen(overwrite=True, batch=8) == second
    (first / "report.html").touch()
    assert chosen() == second
    assert chosen(resume=True) == chosen(overwrite=True) == first
    write_run(second, replace(recipe, batch=8))  # another recipe, which is left alone
    assert chosen() == third
    assert chosen(resume=True) == chosen(overwrite=True) == first
    assert chosen(batch=8) == chosen(resume=True, batch=8) == second
    write_run(third, recipe)
    assert chosen() == chosen(resume=True) == chosen(overwrite=True) == third
    assert chosen(settings={"icl.weight": 0.03}) == third  # a default that is spelled out
    assert chosen(settings={"icl.weight": 0.4}) == fourth
    shutil.rmtree(first)
    assert chosen(resume=True) == third  # found without the first one
    assert choose_directory(Recipe(out="here"), resume=False, overwrite=False) == Path("here")


@pytest.mark.parametrize(
    "change", [{"network": None}, {"precision": "float31"}, {"recipe": {"colour": "red"}}, {"steps": None, "data": 3}]
)
def test_a_recipe_that_was_changed(tmp_path: Path, change: dict[str, Any]) -> None:
    write_run(tmp_path / "run", Recipe())
    facts = json.loads((tmp_path / "run/recipe.json").read_text()) | change
    facts = {name: value for name, value in facts.items() if value is not None}
    (tmp_path / "run/recipe.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=r"recipe.json (is damaged|was not written by a run)"):
        RunDirectory(tmp_path / "run").facts_to_continue()


def test_metrics_that_are_gone(tmp_path: Path) -> None:
    nearly = (
        '{"step": 3, "loss": {"total": NaN}, "seconds": 1}',
        '{"step": 3, "loss": 0.5, "seconds": 1}',
        '{"step": "3", "loss": {"total": 1}, "seconds": 1}',
        '{"step": 3, "loss": {"total": 1}, "seconds": "1"}',
        '{"step": 3, "loss": {"total": 1}, "seconds": 1, "kept_by_class": 5}',
        '{"step": 3, "loss": {"total": 1}, "seconds": 1, "kept_by_class": []}',
        '{"step": 3, "loss": {"total": 1}, "seconds": 1, "kept_by_class": [1e308]}',
        '{"step": 3, "loss": {"total": 1e308}, "seconds": 1}',
        '{"step": 3, "loss": {"total": 1}, "seconds": 1, "kept_by_class": [1], "guessed_by_class": [1, 2]}',
    )
    for content in (None, "", "[]\n", '{"step": 3}\n', "no json", *nearly):
        if content is not None:
            (tmp_path / "metrics.jsonl").write_text(content)
        with pytest.raises(UserError, match=r"metrics.jsonl is missing or damaged"):
            RunDirectory(tmp_path).finished_history()
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "loss": {"total": 1}, "seconds": 1}')
    assert len(RunDirectory(tmp_path).finished_history()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "missing or damaged"),
        ("garbage", "missing or damaged"),
        ("\0\1", "missing or damaged"),
        ("file,label\na.png,dog,3\n", "missing or damaged"),
        ("file,label\na.png,dog\n", "was changed"),
        ("file,label\na.png,dog\nb.png,dog\n", "was changed"),
    ],
)
def test_the_labels_of_a_run_are_a_record(tmp_path: Path, content: str, message: str) -> None:
    run = RunDirectory(tmp_path)
    run.write_start({"recipe": {"data": "x"}, "data": "", "steps": 1}, ["a.png", "b.png"], ["dog", "=cat"])
    assert run.labelled_names() == ["a.png", "b.png"]
    saved = (tmp_path / "labels.csv").read_text(encoding="utf-8-sig")
    (tmp_path / "labels.csv").write_text(saved.replace("\n", "\r\n"))  # as an editor may write it: nothing has changed
    assert run.labelled_names() == ["a.png", "b.png"]
    (tmp_path / "labels.csv").write_text(content)
    with pytest.raises(UserError, match=message):
        run.labelled_names()
