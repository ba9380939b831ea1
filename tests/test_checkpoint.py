import errno
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from fewlabel import Recipe, UserError
from fewlabel.checkpoint import RunDirectory, read_checkpoint
from fewlabel.files import write_atomically
from fewlabel.networks import make_classifier

CPU = torch.device("cpu")


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"model/a": torch.full((3, 2), value), "meter/steps": torch.tensor(value, dtype=torch.float64)}


def test_round_trip_and_the_one_before(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for step in (1, 2):
        directory.save(tensors(step), {"step": step})
    loaded = directory.load()
    assert loaded is not None
    assert loaded[1] == {"step": 2}
    assert {k: v.tolist() for k, v in loaded[0].items()} == {k: v.tolist() for k, v in tensors(2).items()}
    previous = read_checkpoint(tmp_path / "previous.ckpt")
    assert previous is not None
    assert previous[1] == {"step": 1}


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_checkpoint_is_detected_and_the_previous_one_used(tmp_path: Path, damage: str) -> None:
    directory = RunDirectory(tmp_path)
    for step in (1, 2):
        directory.save(tensors(step), {"step": step})
    content = bytearray((tmp_path / "last.ckpt").read_bytes())
    if damage == "flip":
        content[-1] ^= 1
    half = bytes(content[: len(content) // 2])
    damaged = {"cut": half, "flip": bytes(content), "empty": b"", "other": b"something else"}[damage]
    (tmp_path / "last.ckpt").write_bytes(damaged)
    loaded = directory.load()
    assert loaded is not None
    assert loaded[1] == {"step": 1}


def test_killed_between_the_two_renames(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.save(tensors(1), {"step": 1})
    os.replace(tmp_path / "last.ckpt", tmp_path / "previous.ckpt")
    loaded = directory.load()
    assert loaded is not None
    assert loaded[1] == {"step": 1}


def test_no_checkpoint(tmp_path: Path) -> None:
    assert RunDirectory(tmp_path).load() is None


def test_same_content_same_bytes(tmp_path: Path) -> None:
    """Many tensors, since the order of a hash map must not show."""
    many = {f"model/{i}": torch.full((2,), float(i)) for i in range(100)}
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        RunDirectory(tmp_path / name).save(many, {"step": 1})
        contents.append((tmp_path / name / "last.ckpt").read_bytes())
    assert contents[0] == contents[1]


def test_disk_full_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left on device.*free some space.*--resume"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


def test_loading_a_model_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    description = {"network": "cnn", "channels": 1, "size": 8, "classes": ["a", "b"], "projector": False}
    (tmp_path / "model.json").write_text(json.dumps(description))
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Explosive()))
    with pytest.raises(UserError, match="damaged"):
        RunDirectory(tmp_path).read_model(CPU)
    torch.save(Explosive(), tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="damaged"):
        RunDirectory(tmp_path).read_model(CPU)
    assert not (tmp_path / "exploded").exists()


def test_model_round_trip(tmp_path: Path) -> None:
    network = make_classifier("cnn", 3, 16, 2, projector=True, seed=4).eval()
    description = {"network": "cnn", "channels": 3, "size": 16, "classes": ["a", "b"], "projector": True}
    RunDirectory(tmp_path).write_model(network, description)
    loaded, found = RunDirectory(tmp_path).read_model(CPU)
    images = torch.randn(2, 3, 16, 16)
    assert torch.equal(loaded(images).logits, network(images).logits)
    assert found == description


@pytest.mark.parametrize("change", [{"classes": ["a", "b", "c"]}, {"network": "mlp"}, {"size": None}])
def test_a_model_that_does_not_fit_its_description(tmp_path: Path, change: dict[str, Any]) -> None:
    network = make_classifier("cnn", 3, 16, 2, projector=True, seed=4)
    description = {"network": "cnn", "channels": 3, "size": 16, "classes": ["a", "b"], "projector": True} | change
    RunDirectory(tmp_path).write_model(network, description)
    with pytest.raises(UserError, match="damaged"):
        RunDirectory(tmp_path).read_model(CPU)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no trained model"):
        RunDirectory(tmp_path).read_model(CPU)


def write_run(path: Path, recipe: Recipe) -> None:
    path.mkdir()
    (path / "recipe.json").write_text(json.dumps({"recipe": recipe.to_dict(), "data": "data", "steps": 1}))
    (path / "labels.csv").write_text("file,label\n")


def test_opening(tmp_path: Path) -> None:
    recipe, path = Recipe(seed=1), tmp_path / "run"
    directory = RunDirectory(path)
    directory.refuse_occupied(resume=False, overwrite=False)
    assert not path.exists()
    write_run(path, recipe)
    with pytest.raises(UserError, match=r"already holds a run.*--resume.*--overwrite"):
        directory.refuse_occupied(resume=False, overwrite=False)
    with pytest.raises(UserError, match="not both"):
        directory.refuse_occupied(resume=True, overwrite=True)
    directory.refuse_occupied(resume=True, overwrite=False)
    assert directory.open(recipe, "data", resume=True, overwrite=False) is not None
    moved = Recipe(seed=1, device="cpu", threads=1, out="elsewhere", root="elsewhere")
    assert directory.open(moved, "data", resume=True, overwrite=False) is not None
    with pytest.raises(UserError, match="another batch, seed"):
        directory.open(Recipe(seed=2, batch=8), "data", resume=True, overwrite=False)
    with pytest.raises(UserError, match="images have changed"):
        directory.open(recipe, "other data", resume=True, overwrite=False)


def test_it_is_open_to_one_at_a_time(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as first, RunDirectory(tmp_path) as second:
        first.open(Recipe(), "data", resume=False, overwrite=False)
        (tmp_path / "last.ckpt").touch()
        for _ in range(2):
            with pytest.raises(UserError, match="another process is training"):
                second.open(Recipe(), "data", resume=False, overwrite=True)
        assert (tmp_path / "last.ckpt").exists()
    with RunDirectory(tmp_path) as third:
        third.open(Recipe(), "data", resume=False, overwrite=False)
        assert not (tmp_path / "last.ckpt").exists()


def test_a_run_that_came_in_the_meantime_is_not_replaced(tmp_path: Path) -> None:
    """While this one was loading its images, say."""
    with RunDirectory(tmp_path / "run") as directory:
        directory.refuse_occupied(resume=False, overwrite=False)
        write_run(tmp_path / "run", Recipe())
        with pytest.raises(UserError, match="already holds a run"):
            directory.open(Recipe(), "data", resume=False, overwrite=False)
    assert (tmp_path / "run/labels.csv").exists()


def test_overwriting_touches_only_what_a_run_writes(tmp_path: Path) -> None:
    recipe, path = Recipe(seed=1), tmp_path / "run"
    write_run(path, recipe)
    (path / "floor").mkdir()
    (path / ".report.html.partial").write_text("")
    (path / "notes.txt").write_text("mine")
    directory = RunDirectory(path)
    directory.refuse_occupied(resume=False, overwrite=True)
    assert directory.open(Recipe(seed=2), "data", resume=False, overwrite=True) is None
    assert sorted(entry.name for entry in path.iterdir()) == [".lock", "notes.txt"]


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False)])
def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, flags: tuple[bool, bool]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    directory = RunDirectory(tmp_path)
    with pytest.raises(UserError, match="not empty and holds no run"):
        directory.refuse_occupied(resume=flags[0], overwrite=flags[1])
    (tmp_path / "recipe.json").write_text('{"sugar": 200}')
    with pytest.raises(UserError, match="is not that of a run"):
        directory.refuse_occupied(resume=flags[0], overwrite=flags[1])
    assert (tmp_path / "thesis.tex").exists()


def test_a_run_killed_before_its_recipe_was_written(tmp_path: Path) -> None:
    """Only leftovers of a run are there: a new one may start."""
    (tmp_path / ".lock").touch()
    (tmp_path / "labels.csv").write_text("file,label\n")
    (tmp_path / ".recipe.json.partial").write_text("{")
    directory = RunDirectory(tmp_path)
    directory.refuse_occupied(resume=False, overwrite=False)
    assert directory.open(Recipe(), "data", resume=True, overwrite=False) is None
    assert [entry.name for entry in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
def test_files_of_the_user_that_are_called_like_ours(tmp_path: Path, flags: tuple[bool, bool]) -> None:
    """Such as the labels that the run is to learn from."""
    (tmp_path / "labels.csv").write_text("file,label\na.png,cat\n")
    with pytest.raises(UserError, match="not empty and holds no run"):
        RunDirectory(tmp_path).refuse_occupied(resume=flags[0], overwrite=flags[1])


def test_a_run_whose_split_is_gone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gone or damaged"):
        RunDirectory(tmp_path).read_labels()
