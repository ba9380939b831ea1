from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewlabel.data import load
from fewlabel.errors import UserError

RED, GREEN, BLUE = 10, 20, 30


def grey(count: int, side: int = 8) -> np.ndarray:
    """(N, H, W) where every pixel tells its picture, row and column."""
    picture, row, column = np.meshgrid(*map(np.arange, (count, side, side)), indexing="ij")
    return (64 * picture + 8 * row + column).astype(np.uint8)


def coloured(count: int) -> np.ndarray:
    """(N, 3, H, W): the grey picture with another offset in every channel."""
    return np.stack([grey(count) + offset for offset in (RED, GREEN, BLUE)], axis=1).astype(np.uint8)


@pytest.mark.parametrize("x_test", [grey(2, side=12), coloured(2)], ids=["size", "channels"])
def test_test_pictures_of_another_kind(tmp_path: Path, x_test: np.ndarray) -> None:
    np.savez(tmp_path / "birds.npz", x_train=grey(4), y_train=[0, 1, 1, 0], x_test=x_test, y_test=[0, 1])
    with pytest.raises(UserError, match="x_test has examples of shape"):
        load(tmp_path / "birds.npz")


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (grey(4), grey(4)[:, None]),
        (grey(4)[..., None], grey(4)[:, None]),
        (grey(4)[:, None], grey(4)[:, None]),
        (coloured(4), coloured(4)),
        (coloured(4).transpose(0, 2, 3, 1), coloured(4)),
        (np.asfortranarray(grey(4)), grey(4)[:, None]),
    ],
    ids=["NHW", "NHW1", "N1HW", "N3HW", "NHW3", "NHW in Fortran's order"],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_layouts(tmp_path: Path, stored: np.ndarray, expected: np.ndarray, save: Any) -> None:
    save(tmp_path / "birds.npz", x_train=stored, y_train=np.array([0, 1, 1, 0]))
    data = load(tmp_path / "birds.npz")
    assert (data.name, data.flip, data.test) == ("birds", expected.shape[1] == 3, None)
    assert np.array_equal(data.train.pixels.numpy(), expected)
    assert data.train.labels.tolist() == [0, 1, 1, 0]
    assert data.train.classes == ("0", "1")


@pytest.mark.parametrize(
    "stored", [coloured(4), coloured(4).transpose(0, 2, 3, 1), np.asfortranarray(grey(4))], ids=["N3HW", "NHW3", "F"]
)
def test_large_arrays_stay_in_the_file(tmp_path: Path, stored: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "birds.npz"
    np.savez(path, x_train=stored, y_train=np.array([0, 1, 1, 0]), x_test=stored[:1], y_test=np.array([1]))
    read = load(path)
    monkeypatch.setattr("fewlabel.data.npz.MAP_FROM", 200)
    with_map = load(path)
    assert not read.train.source
    assert with_map.train.source
    assert torch.equal(with_map.train.pixels, read.train.pixels)
    assert str(path) in Path("/proc/self/maps").read_text()
    with_map.train.pixels[0] = 7  # a private copy: never written to the file
    assert torch.equal(load(path).train.pixels, read.train.pixels)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_unlabelled_pictures_and_numbers_with_gaps(tmp_path: Path, dtype: type) -> None:
    y_train: np.ndarray = np.array([30, -1, 5, -1, 30], dtype)
    np.savez(tmp_path / "a.npz", x_train=grey(5), y_train=y_train, x_test=grey(2), y_test=np.array([12, 5], dtype))
    data = load(str(tmp_path / "a.npz"))
    assert data.test is not None
    assert data.train.classes == data.test.classes == ("5", "12", "30")
    assert data.train.labels.tolist() == [2, -1, 0, -1, 2]
    assert data.test.labels.tolist() == [1, 0]
    assert np.array_equal(data.test.pixels.numpy(), grey(2)[:, None])
    assert list(data.test.names) == ["test/00000", "test/00001"]


class Trap:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("name", ["x_train", "y_train", "anything"])
def test_objects_are_refused_and_not_executed(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "mark"
    arrays: dict[str, Any] = {"x_train": grey(1), "y_train": np.array([0])}
    np.savez(tmp_path / "a.npz", **(arrays | {name: np.array([Trap(mark)], object)}))
    with np.load(tmp_path / "a.npz", allow_pickle=True) as careless:
        careless[name]
    assert mark.exists(), "the trap works on a careless reader"
    mark.unlink()
    with pytest.raises(UserError, match=r"a\.npz cannot be read as arrays \(Object arrays cannot be loaded"):
        load(tmp_path / "a.npz")
    assert not mark.exists()


GOOD: dict[str, Any] = {"x_train": grey(3), "y_train": [0, 1, 0], "x_test": grey(2), "y_test": [0, 1]}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["x_train"], "it needs x_train and y_train"),
        (["x_test"], "one of x_test and y_test"),
        (["y_test"], "one of x_test and y_test"),
        (list(GOOD), "holds nothing"),
    ],
)
def test_missing_arrays(tmp_path: Path, missing: list[str], message: str) -> None:
    np.savez(tmp_path / "a.npz", **{name: array for name, array in GOOD.items() if name not in missing})
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x_train": grey(3).astype(np.float32)}, "x_train must be images, uint8"),
        ({"x_test": grey(2).astype(np.int64)}, "x_test must be images, uint8"),
        ({"x_train": grey(3).reshape(3, 64)}, r"x_test has examples of shape \(1, 8, 8\), x_train of \(64,\)"),
        ({"x_train": grey(3)[:, None, None]}, "x_train must be images, uint8"),
        ({"x_train": grey(3)[:, :6]}, "x_train must hold square pictures"),
        ({"x_train": coloured(3)[..., :6]}, "x_train must hold square pictures"),
        ({"x_train": coloured(3).transpose(0, 2, 3, 1)[:, :6]}, "x_train must hold square pictures"),
        ({"x_train": coloured(3)[:, :2]}, "x_train must hold square pictures of one or three channels"),
        ({"x_train": grey(2)}, "x_train has 2 examples, but y_train has 3 labels"),
        ({"y_test": [0, 1, 1]}, "x_test has 2 examples, but y_test has 3 labels"),
        ({"y_train": [0.0, 1.0, 0.0]}, "y_train must be a one-dimensional array of whole numbers"),
        ({"y_train": ["a", "b", "a"]}, "y_train must be a one-dimensional array of whole numbers"),
        ({"y_train": [[0], [1], [0]]}, "y_train must be a one-dimensional array of whole numbers"),
        ({"y_test": 3}, "y_test must be a one-dimensional array of whole numbers"),
    ],
)
def test_wrong_arrays(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **(GOOD | wrong))
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


def damaged(path: Path, kind: str) -> bytes:
    """A file that goes by the name of .npz but is none, or no longer."""
    np.savez_compressed(path, **GOOD)
    whole = path.read_bytes()
    if kind == "array":
        with open(path, "wb") as file:
            np.save(file, grey(2))
        return path.read_bytes()
    contents = {"empty": b"", "text": b"hello", "cut": whole[: len(whole) // 2]}
    contents["overwritten"] = whole[:60] + bytes(255 - byte for byte in whole[60:100]) + whole[100:]
    return contents[kind]


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "overwritten", "array"])
def test_damaged_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(damaged(path, kind))
    with pytest.raises(UserError, match=r"a\.npz"):
        load(path)


@pytest.mark.parametrize("setting", ["labels", "test", "size"])
def test_settings_of_folders_are_refused(tmp_path: Path, setting: str) -> None:
    np.savez(tmp_path / "a.npz", **GOOD)
    value: Any = 32 if setting == "size" else tmp_path
    with pytest.raises(UserError, match=f"--{setting}"):
        load(tmp_path / "a.npz", **{setting: value})


@pytest.mark.parametrize("label", [-2, -(2**40)])
def test_labels_below_unlabelled_are_a_mistake(tmp_path: Path, label: int) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.eye(3), y_train=np.array([0, -1, label]))
    with pytest.raises(UserError, match=f"y_train holds {label}: classes are numbered from 0"):
        load(tmp_path / "a.npz")


def test_labels_that_are_too_large(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.eye(2), y_train=np.array([0, 2**64 - 1], np.uint64))
    with pytest.raises(UserError, match="number the classes from 0"):
        load(tmp_path / "a.npz")
