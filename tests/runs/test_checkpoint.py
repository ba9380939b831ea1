"""Checkpoints: whole, damaged, cut off, and the one before."""

import errno
import os
from pathlib import Path

import pytest
import torch

from fewlabel import UserError
from fewlabel.files import write_atomically
from fewlabel.runs.checkpoint import load_checkpoint, read_checkpoint, save_checkpoint


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"model/a": torch.full((3, 2), value), "meter/steps": torch.tensor(value, dtype=torch.float64)}


def test_round_trip_and_the_one_before(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, (tensors(step), {"step": step}))
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"step": 2}
    assert {k: v.tolist() for k, v in loaded[0].items()} == {k: v.tolist() for k, v in tensors(2).items()}
    previous = read_checkpoint(tmp_path / "previous.ckpt")
    assert previous is not None
    assert previous[1] == {"step": 1}


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_checkpoint_is_detected_and_the_previous_one_used(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, (tensors(step), {"step": step}))
    content = bytearray((tmp_path / "last.ckpt").read_bytes())
    if damage == "flip":
        content[-1] ^= 1
    half = bytes(content[: len(content) // 2])
    damaged = {"cut": half, "flip": bytes(content), "empty": b"", "other": b"something else"}[damage]
    (tmp_path / "last.ckpt").write_bytes(damaged)
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"step": 1}


def test_killed_between_the_two_renames(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, (tensors(1), {"step": 1}))
    os.replace(tmp_path / "last.ckpt", tmp_path / "previous.ckpt")
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"step": 1}


def test_no_checkpoint(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None


def test_same_content_same_bytes(tmp_path: Path) -> None:
    """Many tensors, since the order of a hash map must not show."""
    many = {f"model/{i}": torch.full((2,), float(i)) for i in range(100)}
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_checkpoint(tmp_path / name, (many, {"step": 1}))
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
