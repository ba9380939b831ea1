"""Encoding folders: right, once, resumable, and the same whoever does it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewlabel import UserError
from fewlabel.decode import decode
from fewlabel.encoders import ENCODERS, Encoder, encode, find_encoder
from fewlabel.encoders.encode import encode_folder
from tests.pictures import fruit_folder

installed = pytest.mark.skipif(not ENCODERS["lite0"].installed, reason="the weights of fewlabel[photos] are not there")


class Means(nn.Module):
    """The mean of each channel, and of the upper half."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(len(images))
        return torch.cat([images.mean((2, 3)), images[:, :, :8].mean((2, 3))], 1)


def means(digest: str = "means") -> Encoder:
    return Encoder("means", Means(), 16, (10.0, 20.0, 30.0), (2.0, 2.0, 2.0), 6, digest)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    fruit_folder(tmp_path / "photos", each=5)
    (tmp_path / "photos/broken.jpg").write_bytes(b"no picture")
    return tmp_path / "photos"


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def seen(encoder: Encoder) -> int:
    """How many pictures it was given."""
    assert isinstance(encoder.module, Means)
    return sum(encoder.module.seen)


def test_features_of_a_folder(photos: Path) -> None:
    files, encoder = files_of(photos), means()
    found = encode_folder(encoder, photos, files, jobs=1)
    assert [files[position] for position in found.skipped] == ["broken.jpg"]
    assert "cannot identify" in found.skipped[files.index("broken.jpg")]
    assert [files[row] for row in found.rows] == [name for name in files if name != "broken.jpg"]
    for row, features in zip(found.rows, found.features, strict=True):
        pixels = (decode(photos / files[row], 16).astype(float) - np.array([10, 20, 30])[:, None, None]) / 2
        expected = [*pixels.mean((1, 2)), *pixels[:, :8].mean((1, 2))]
        np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["index.json", "features.f32"])
def test_a_damaged_cache_is_made_again(name: str, photos: Path, tmp_path: Path) -> None:
    encoder = means()
    first = encode_folder(encoder, photos, files_of(photos), jobs=1)
    before = first.features.clone()  # which is memory-mapped
    (place,) = (tmp_path / "cache/sets").iterdir()
    whole = (place / name).read_bytes()
    (place / name).write_bytes(whole[:-5])
    again = encode_folder(encoder, photos, files_of(photos), jobs=1)
    assert torch.equal(again.features, before) and again.skipped == first.skipped
    assert (place / name).read_bytes() == whole and seen(encoder) == 15


def test_nothing_is_encoded_twice(photos: Path, tmp_path: Path) -> None:
    """Not the same folder again, nor a picture under another name; a new picture costs one."""
    encoder = means()
    first = encode_folder(encoder, photos, files_of(photos), jobs=1)
    assert seen(encoder) == 15
    again = encode_folder(encoder, photos, files_of(photos), jobs=1)
    assert seen(encoder) == 15
    assert torch.equal(first.features, again.features)
    assert first.key == again.key
    moved = tmp_path / "moved"
    moved.mkdir()
    for number, name in enumerate(files_of(photos)):
        shutil.copy(photos / name, moved / f"{number}{Path(name).suffix}")
    assert len(encode_folder(encoder, moved, files_of(moved), jobs=1).rows) == 15
    assert seen(encoder) == 15
    (moved / "new.png").write_bytes((photos / "01-0.png").read_bytes() + b" ")  # other bytes, still a picture
    assert len(encode_folder(encoder, moved, files_of(moved), jobs=1).rows) == 16
    assert seen(encoder) == 16
    other = means("of other weights")
    assert encode_folder(other, photos, files_of(photos), jobs=1).key != first.key
    assert seen(other) == 15


def test_stopped_and_continued(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "CHUNK", 4)
    encoder, whole = means(), encode.encode_some
    calls: list[Any] = []

    def stopping(*values: Any) -> Any:
        calls.append(values)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(*values)

    monkeypatch.setattr(encode, "encode_some", stopping)
    with pytest.raises(KeyboardInterrupt):
        encode_folder(encoder, photos, files_of(photos), jobs=1)
    done = seen(encoder)
    assert 4 <= done <= 8
    found = encode_folder(encoder, photos, files_of(photos), jobs=1)
    assert seen(encoder) == 15
    monkeypatch.setattr(encode, "encode_some", whole)
    assert len(found.rows) == 15


def test_no_picture_at_all(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"none of the 1 pictures in .*photos can be read, beginning with a.png"):
        encode_folder(means(), tmp_path / "photos", ["a.png"], jobs=1)


@installed
def test_several_processes_give_the_same_features(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "CHUNK", 4)
    monkeypatch.setattr(encode, "FEW", 1)
    found = []
    for jobs in (1, 2):
        monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / f"cache{jobs}"))
        found.append(encode_folder(find_encoder("lite0"), photos, files_of(photos), jobs=jobs).features.clone())
    assert torch.equal(found[0], found[1])
    assert found[0].shape == (15, 1280)
