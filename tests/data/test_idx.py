import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from fewlabel.data import load
from fewlabel.data.idx import IMAGES, LABELS, read_idx
from fewlabel.errors import UserError

CONTENT = struct.pack(">4I", 2051, 2, 3, 4) + bytes(range(24))


def write_mnist(folder: Path, compressed: bool) -> None:
    """Three training and two test pictures; every pixel of picture i is 10 i + its column."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix, pack = (".gz", gzip.compress) if compressed else ("", bytes)
    for prefix, labels in (("train", [7, 0, 9]), ("t10k", [3, 3])):
        pixels = b"".join(bytes(10 * i + x for _ in range(28) for x in range(28)) for i in range(len(labels)))
        images = struct.pack(">4I", 2051, len(labels), 28, 28) + pixels
        (folder / f"{prefix}-images-idx3-ubyte{suffix}").write_bytes(pack(images))
        numbers = struct.pack(">2I", 2049, len(labels)) + bytes(labels)
        (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(numbers))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "."),
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "."),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_official_files_in_the_root_and_in_the_usual_subfolders(
    tmp_path: Path, name: str, folder: str, compressed: bool
) -> None:
    write_mnist(tmp_path / folder, compressed)
    data = load(name, root=tmp_path)
    assert data.test is not None
    assert data.name == name
    assert data.train.labels.tolist() == [7, 0, 9]
    assert data.test.labels.tolist() == [3, 3]
    for part in (data.train, data.test):
        expected = 10 * np.arange(len(part))[:, None, None, None] + np.arange(28)[None, None, None]
        assert np.array_equal(part.pixels.numpy(), np.broadcast_to(expected, (len(part), 1, 28, 28)))
    assert list(data.train.names) == ["train/00000", "train/00001", "train/00002"]


@pytest.mark.parametrize(("name", "flip", "seven"), [("mnist", False, "7"), ("fashion-mnist", True, "Sneaker")])
def test_classes_and_flip(tmp_path: Path, name: str, flip: bool, seven: str) -> None:
    write_mnist(tmp_path, compressed=True)
    data = load(name, root=tmp_path)
    assert data.flip is flip
    assert len(data.train.classes) == 10
    assert data.train.classes[7] == seven


def test_plain_file_goes_before_the_compressed_one(tmp_path: Path) -> None:
    write_mnist(tmp_path, compressed=False)
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(b"damaged")
    assert load("mnist", root=tmp_path).train.labels.tolist() == [7, 0, 9]


@pytest.mark.parametrize("missing", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"])
def test_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    write_mnist(tmp_path, compressed=True)
    (tmp_path / missing).unlink()
    with pytest.raises(UserError, match=missing):
        load("mnist", root=tmp_path)


def test_pictures_and_labels_of_other_numbers(tmp_path: Path) -> None:
    write_mnist(tmp_path, compressed=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 2) + bytes(2))
    with pytest.raises(UserError, match="3 pictures but 2 labels"):
        load("mnist", root=tmp_path)


def test_label_beyond_the_classes(tmp_path: Path) -> None:
    write_mnist(tmp_path, compressed=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 3) + bytes([0, 10, 1]))
    with pytest.raises(UserError, match="outside 0 to 9"):
        load("mnist", root=tmp_path)


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_order_of_the_dimensions(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(CONTENT) if path.suffix else CONTENT)
    array = read_idx(path, IMAGES)
    assert array.dtype == np.uint8
    assert array.tolist() == np.arange(24).reshape(2, 3, 4).tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (struct.pack("<I", 2051) + CONTENT[4:], "magic number is not 2051"),
        (struct.pack(">I", 2049) + CONTENT[4:], "magic number is not 2051"),
        (gzip.compress(CONTENT), "magic number is not 2051"),
        (CONTENT[:10], "magic number is not 2051"),
        (b"", "magic number is not 2051"),
        (CONTENT[:-1], "23 bytes of data, but its header says 24"),
        (CONTENT + b"\0", "25 bytes of data, but its header says 24"),
    ],
    ids=["byte order", "labels", "gzip", "cut header", "empty", "cut", "too long"],
)
def test_damaged_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_idx(path, IMAGES)
    assert str(path) in str(caught.value)


def bad_crc(packed: bytes) -> bytes:
    return packed[:-8] + bytes(4) + packed[-4:]


@pytest.mark.parametrize(
    "content",
    [
        CONTENT,
        gzip.compress(CONTENT)[:-12],
        gzip.compress(CONTENT)[:20],
        bad_crc(gzip.compress(CONTENT)),
        gzip.compress(CONTENT)[:10] + b"\xff" * 40,
    ],
    ids=["not compressed", "cut", "cut early", "checksum", "garbage"],
)
def test_damaged_gzip(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="an incomplete gzip file"):
        read_idx(path, IMAGES)


def test_images_where_labels_should_be(tmp_path: Path) -> None:
    (tmp_path / "labels").write_bytes(CONTENT)
    with pytest.raises(UserError, match="magic number is not 2049"):
        read_idx(tmp_path / "labels", LABELS)
