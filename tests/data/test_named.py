import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat
from sklearn.datasets import load_digits

import fewlabel
from fewlabel.data import ImageKind, VectorKind, load, load_test
from fewlabel.errors import UserError

ANIMALS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar_pixels(first: int, count: int) -> np.ndarray:
    """Picture i is i in red, i + 1 in green, and its column in blue."""
    planes = np.zeros((count, 3, 32, 32), np.uint8)
    planes[:, 0] = np.arange(first, first + count)[:, None, None]
    planes[:, 1] = planes[:, 0] + 1
    planes[:, 2] = np.arange(32)
    return planes.reshape(count, 3072)


def write_pickle(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps({key.encode(): value for key, value in content.items()}, 2))


def write_cifar10(folder: Path) -> None:
    for i in range(5):
        content = {"data": cifar_pixels(2 * i, 2), "labels": [i, 9 - i], "filenames": ["a", "b"]}
        write_pickle(folder / f"data_batch_{i + 1}", content)
    write_pickle(folder / "test_batch", {"data": cifar_pixels(100, 3), "labels": [8, 0, 8]})
    write_pickle(folder / "batches.meta", {"label_names": ANIMALS, "num_vis": 3072})


def write_cifar100(folder: Path) -> None:
    for part, first, fine in (("train", 0, [99, 0, 42]), ("test", 100, [7, 7])):
        content = {"data": cifar_pixels(first, len(fine)), "fine_labels": fine, "coarse_labels": [1] * len(fine)}
        write_pickle(folder / part, content)
    write_pickle(folder / "meta", {"fine_label_names": [f"kind {i}" for i in range(100)], "coarse_label_names": ["x"]})


@pytest.mark.parametrize("folder", [".", "cifar-10-batches-py"])
def test_cifar10(tmp_path: Path, folder: str) -> None:
    write_cifar10(tmp_path / folder)
    data = fewlabel.load("cifar10", root=tmp_path)
    assert data.test is not None
    assert (data.name, data.flip) == ("cifar10", True)
    assert data.train.classes == data.test.classes == tuple(ANIMALS)
    assert data.train.labels.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert data.test.labels.tolist() == [8, 0, 8]
    assert np.array_equal(data.train.pixels.numpy(), cifar_pixels(0, 10).reshape(-1, 3, 32, 32))
    assert np.array_equal(data.test.pixels.numpy(), cifar_pixels(100, 3).reshape(-1, 3, 32, 32))
    assert data.test.pixels[1, :, 4, 9].tolist() == [101, 102, 9]
    assert list(data.test.names) == ["test/00000", "test/00001", "test/00002"]


@pytest.mark.parametrize("folder", [".", "cifar-100-python"])
def test_cifar100(tmp_path: Path, folder: str) -> None:
    write_cifar100(tmp_path / folder)
    data = fewlabel.load("cifar100", root=tmp_path)
    assert data.test is not None
    assert (data.name, data.flip) == ("cifar100", True)
    assert data.train.classes == tuple(f"kind {i}" for i in range(100))
    assert data.train.labels.tolist() == [99, 0, 42]
    assert data.test.labels.tolist() == [7, 7]
    assert np.array_equal(data.train.pixels.numpy(), cifar_pixels(0, 3).reshape(-1, 3, 32, 32))
    assert data.test.pixels[1, :, 4, 9].tolist() == [101, 102, 9]


@pytest.mark.parametrize("missing", ["data_batch_4", "test_batch", "batches.meta"])
def test_missing_cifar_file_is_named(tmp_path: Path, missing: str) -> None:
    write_cifar10(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(UserError, match=f"no {missing} in .*--root.*--download"):
        load("cifar10", root=tmp_path)


def test_cifar_label_beyond_the_classes(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    write_pickle(tmp_path / "data_batch_2", {"data": cifar_pixels(0, 1), "labels": [10]})
    with pytest.raises(UserError, match="outside 0 to 9"):
        load("cifar10", root=tmp_path)


def svhn_pictures(count: int) -> np.ndarray:
    """(32, 32, 3, N) as in the official files: the value tells row, channel and picture."""
    row, column, channel, picture = np.meshgrid(*map(np.arange, (32, 32, 3, count)), indexing="ij")
    return np.where(column == 0, 7 * row, 60 * channel + 10 * picture).astype(np.uint8)


def write_svhn(folder: Path, **train: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"X": svhn_pictures(4), "y": np.array([[1], [10], [9], [10]], np.uint8)} | train
    savemat(folder / "train_32x32.mat", {key: value for key, value in content.items() if value is not None})
    savemat(folder / "test_32x32.mat", {"X": svhn_pictures(2), "y": np.array([[10], [5]], np.uint8)})


@pytest.mark.parametrize("folder", [".", "svhn", "SVHN"])
def test_svhn(tmp_path: Path, folder: str) -> None:
    write_svhn(tmp_path / folder)
    data = load("svhn", root=tmp_path)
    assert data.test is not None
    assert (data.name, data.flip) == ("svhn", False)
    assert data.train.labels.tolist() == [1, 0, 9, 0], "the files write 10 for the digit 0"
    assert data.test.labels.tolist() == [0, 5]
    assert data.train.classes == tuple("0123456789")
    assert data.train.pixels.shape == (4, 3, 32, 32)
    for picture in range(4):
        for channel in range(3):
            plane = data.train.pixels[picture, channel]
            assert plane[:, 0].tolist() == [7 * row for row in range(32)]
            assert (plane[:, 1:] == 60 * channel + 10 * picture).all()


@pytest.mark.parametrize("missing", ["X", "y"])
def test_svhn_without_one_of_its_arrays(tmp_path: Path, missing: str) -> None:
    write_svhn(tmp_path, **{missing: None})
    with pytest.raises(UserError, match=r"train_32x32\.mat holds no X and y"):
        load("svhn", root=tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", bytes(500), None], ids=["empty", "text", "zeros", "cut"])
def test_damaged_svhn_file(tmp_path: Path, content: bytes | None) -> None:
    write_svhn(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:1000] if content is None else content)
    with pytest.raises(UserError, match=r"train_32x32\.mat cannot be read as a \.mat file"):
        load("svhn", root=tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"y": np.ones((3, 1), np.uint8)},
        {"X": np.zeros((32, 32, 3, 4))},
        {"X": np.zeros((32, 32, 3), np.uint8)},
        {"y": np.array(["a", "b", "c", "d"], object)},
    ],
    ids=["too few labels", "pictures of floats", "no fourth axis", "labels of text"],
)
def test_svhn_file_of_other_content(tmp_path: Path, wrong: dict[str, Any]) -> None:
    write_svhn(tmp_path, **wrong)
    with pytest.raises(UserError, match="train"):
        load("svhn", root=tmp_path)


def test_digits_are_those_of_scikit_learn() -> None:
    """Train and test part together hold every image once, with its own label."""
    data = load("digits")
    assert data.test is not None
    assert data.flip is False
    raw = load_digits()
    expected = sorted(
        (bytes(round(value * 255 / 16) for value in image.flat), int(label))
        for image, label in zip(raw.images, raw.target, strict=True)
    )
    pixels = torch.cat([data.train.pixels, data.test.pixels])
    labels = torch.cat([data.train.labels, data.test.labels])
    assert pixels.shape == (1797, 1, 8, 8)
    assert sorted((p.numpy().tobytes(), int(y)) for p, y in zip(pixels, labels, strict=True)) == expected


def test_test_part_of_the_digits_is_fixed() -> None:
    data, again = load("digits"), load("digits")
    assert data.test is not None and again.test is not None
    assert len(data.test) == 500
    assert torch.equal(data.test.pixels, again.test.pixels) and torch.equal(data.train.pixels, again.train.pixels)
    assert data.test.labels[:20].tolist() == [0, 6, 3, 8, 1, 8, 4, 1, 5, 8, 9, 7, 5, 2, 6, 9, 4, 2, 0, 1]
    assert torch.bincount(data.test.labels).tolist() == [49, 47, 52, 46, 43, 48, 50, 54, 48, 63]


@pytest.mark.parametrize("setting", ["labels", "test", "size"])
def test_settings_of_folders_are_refused_for_named_sets(setting: str) -> None:
    value: Any = 32 if setting == "size" else "somewhere"
    with pytest.raises(UserError, match=f"--{setting} is for folders of pictures"):
        load("digits", **{setting: value})


def test_unknown_name_is_answered_with_a_folder_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="unknown data set or folder 'photo': did you mean photos/"):
        load("photo")


@pytest.mark.parametrize(
    ("name", "near"), [("cifar", "cifar10"), ("digit", "digits"), ("fashionmnist", "fashion-mnist")]
)
def test_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"unknown data set or folder '{name}': did you mean .*{near}"):
        load(name)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match=r"notes\.txt is neither a folder of pictures nor an \.npz file"):
        load(tmp_path / "notes.txt")


def test_only_named_sets_can_be_downloaded(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown data set to download"):
        load(tmp_path, download=True)


def test_test_part_for_a_model(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    test = load_test("cifar10", tmp_path, labels=None, classes=ANIMALS, kind=ImageKind(3, 32))
    assert test.labels.tolist() == [8, 0, 8]


@pytest.mark.parametrize("other", [{"classes": ANIMALS[:9]}, {"kind": ImageKind(3, 64)}, {"kind": VectorKind(5)}])
def test_test_part_that_does_not_fit_the_model(tmp_path: Path, other: dict[str, Any]) -> None:
    write_cifar10(tmp_path)
    model: dict[str, Any] = {"classes": ANIMALS, "kind": ImageKind(3, 32)} | other
    with pytest.raises(UserError, match=r"classes of .* differ from those|holds images of 32x32, but the model needs"):
        load_test("cifar10", tmp_path, labels=None, **model)
