import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fewlabel.data import Examples, ImageKind, load, load_test
from fewlabel.data.folder import read_unlabelled
from fewlabel.data.picture_files import written
from fewlabel.errors import UserError

Colour = tuple[int, int, int]
RED, GREEN, BLUE, GREY = (255, 0, 0), (0, 255, 0), (0, 0, 255), (90, 90, 90)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def save(path: Path, colour: Colour, side: int = 16) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side), colour).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two class subfolders, one picture in a deeper folder, and two loose files."""
    folder = tmp_path / "photos"
    save(folder / "dog" / "1.png", RED)
    save(folder / "dog" / "2.PNG", GREEN)
    save(folder / "cat" / "old" / "3.png", BLUE)
    save(folder / "a.png", GREY)
    save(folder / "z.bmp", RED)
    return folder


NAMES = ["a.png", "cat/old/3.png", "dog/1.png", "dog/2.PNG", "z.bmp"]


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def labels_of(images: Examples) -> dict[str, str]:
    """file -> class name, or nothing"""
    return {name: images.classes[y] if y >= 0 else "" for name, y in zip(images.names, images.labels, strict=True)}


def check_colours(images: Examples, colours: Sequence[Colour]) -> None:
    expected = torch.tensor(colours, dtype=torch.uint8)[:, :, None, None].expand_as(images.pixels)
    assert torch.equal(images.pixels, expected)


def test_class_subfolders_and_loose_files(photos: Path) -> None:
    data = load(photos)
    assert (data.name, data.flip, data.test) == ("photos", True, None)
    assert data.train.names == NAMES
    assert data.train.classes == ("cat", "dog")
    assert data.train.labels.tolist() == [-1, 0, 1, 1, -1]
    assert data.train.pixels.shape == (5, 3, 32, 32)
    check_colours(data.train, [GREY, BLUE, RED, GREEN, RED])
    assert data.train.skipped == {}


@pytest.mark.parametrize("name", ["unlabelled", "unlabeled", "Unlabelled"])
def test_unlabelled_subfolder_is_no_class(photos: Path, name: str) -> None:
    save(photos / name / "x.png", BLUE)
    save(photos / name / "dog" / "y.png", BLUE)
    train = load(photos).train
    assert train.classes == ("cat", "dog")
    known = labels_of(train)
    assert known[f"{name}/x.png"] == known[f"{name}/dog/y.png"] == ""
    assert known["dog/1.png"] == "dog"


def test_labels_file_can_name_pictures_of_the_unlabelled_subfolder(photos: Path, tmp_path: Path) -> None:
    save(photos / "unlabelled" / "x.png", BLUE)
    labels = write(tmp_path / "labels.csv", "file,label", "unlabelled/x.png,cat")
    assert labels_of(load(photos, labels=labels).train)["unlabelled/x.png"] == "cat"


def test_hidden_files_are_ignored(photos: Path) -> None:
    save(photos / ".hidden.png", BLUE)
    (photos / "dog" / "._1.png").write_bytes(b"what macOS leaves beside a file")
    train = load(photos).train
    assert train.names == NAMES
    assert train.skipped == {}


def test_hidden_folders_are_ignored(photos: Path) -> None:
    save(photos / ".thumbnails" / "1.png", BLUE)
    save(photos / "dog" / ".trash" / "1.png", BLUE)
    train = load(photos).train
    assert train.names == NAMES
    assert train.classes == ("cat", "dog")


def test_hidden_folder_above_does_not_matter(tmp_path: Path) -> None:
    save(tmp_path / ".data" / "photos" / "dog" / "1.png", RED)
    assert load(tmp_path / ".data" / "photos").train.names == ["dog/1.png"]


def test_other_files_are_ignored(photos: Path) -> None:
    write(photos / "notes.txt", "hello")
    write(photos / "dog" / "notes.png.txt", "hello")
    (photos / "folder.png").mkdir()
    assert load(photos).train.names == NAMES


def test_class_folder_without_pictures_is_a_class(photos: Path) -> None:
    (photos / "bird").mkdir()
    assert load(photos).train.classes == ("bird", "cat", "dog")


def test_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    with pytest.raises(UserError, match=r"photos holds no pictures \(.*jpg.*webp\)"):
        load(tmp_path / "photos")


def test_no_readable_picture(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.jpg"):
        write(tmp_path / "photos" / name, "this is no picture")
    with pytest.raises(UserError, match=r"none of the 2 pictures in .*photos can be read, beginning with a\.png \("):
        load(tmp_path / "photos")
    assert list(cache.iterdir()) == [], "nothing half-written stays"


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "tiff", "gif"])
def test_one_truncated_picture_is_skipped_and_named(photos: Path, suffix: str) -> None:
    path = photos / "dog" / f"0.{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    train = load(photos).train
    assert list(train.skipped) == [f"dog/0.{suffix}"]
    assert train.skipped[f"dog/0.{suffix}"] != ""
    assert train.names == NAMES
    assert train.labels.tolist() == [-1, 0, 1, 1, -1]
    check_colours(train, [GREY, BLUE, RED, GREEN, RED])
    assert load(photos).train.skipped == train.skipped, "the cache remembers it"


@pytest.mark.parametrize(
    ("sides", "size"),
    [([8], 32), ([48], 32), ([49], 64), ([500], 64), ([20, 20, 200], 32), ([20, 200, 200], 64)],
)
def test_default_size(tmp_path: Path, sides: list[int], size: int) -> None:
    for i, side in enumerate(sides):
        save(tmp_path / "photos" / "dog" / f"{i}.png", RED, side)
    assert load(tmp_path / "photos").train.pixels.shape[2:] == (size, size)


def test_default_size_goes_by_the_shorter_side_and_ignores_the_unreadable(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    write(folder / "0.png", "this is no picture")
    Image.new("RGB", (400, 40)).save(folder / "1.png")
    assert load(folder).train.kind.shape == (3, 32, 32)


@pytest.mark.parametrize("size", [8, 17, 96])
def test_size(photos: Path, size: int) -> None:
    train = load(photos, size=size).train
    assert train.pixels.shape == (5, 3, size, size)
    check_colours(train, [GREY, BLUE, RED, GREEN, RED])


@pytest.mark.parametrize("size", [7, 0, -32, 1025, 100_000])
def test_size_out_of_bounds(photos: Path, size: int) -> None:
    with pytest.raises(UserError, match=f"--size must be from 8 to 1024 pixels, not {size}"):
        load(photos, size=size)


def test_test_folder(photos: Path, tmp_path: Path) -> None:
    save(tmp_path / "held" / "dog" / "x.png", BLUE, 200)
    save(tmp_path / "held" / "dog" / "y.png", GREEN, 200)
    data = load(photos, test=tmp_path / "held")
    assert data.test is not None
    assert data.test.classes == data.train.classes == ("cat", "dog")
    assert data.test.names == ["dog/x.png", "dog/y.png"]
    assert data.test.labels.tolist() == [1, 1], "numbered as in training, though there is no cat"
    assert data.test.kind == data.train.kind == ImageKind(3, 32)
    check_colours(data.test, [BLUE, GREEN])


@pytest.mark.parametrize("inside", [".", "dog", "../photos/cat"])
def test_test_pictures_among_those_to_be_trained_on(photos: Path, inside: str) -> None:
    with pytest.raises(UserError, match="are also training pictures"):
        load(photos, test=photos / inside)


def test_what_fewlabel_has_written_is_no_class_and_no_picture(photos: Path) -> None:
    for folder, file in (("drift", "drift.csv"), ("run", "recipe.json"), ("cat/old/run", "recipe.json")):
        save(photos / folder / "drift.png", RED)
        (photos / folder / file).touch()
    (photos / "runs/one").mkdir(parents=True)
    (photos / "runs/one/recipe.json").touch()
    train = load(photos).train
    assert (train.names, train.classes) == (NAMES, ("cat", "dog"))


def test_links_to_class_folders(photos: Path, tmp_path: Path) -> None:
    """They are followed, but not those further down, which may lead round in circles."""
    save(tmp_path / "elsewhere/4.png", BLUE)
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "elsewhere")
    (photos / "wolf").symlink_to(tmp_path / "elsewhere")
    train = load(photos).train
    assert train.classes == ("cat", "dog", "wolf")
    assert train.names == [*NAMES[:4], "wolf/4.png", *NAMES[4:]]


def test_test_folder_with_an_unknown_class(photos: Path, tmp_path: Path) -> None:
    save(tmp_path / "held" / "dog" / "x.png", BLUE)
    save(tmp_path / "held" / "wolf" / "x.png", BLUE)
    with pytest.raises(UserError, match="held has the class 'wolf', which the training images do not have"):
        load(photos, test=tmp_path / "held")


@pytest.mark.parametrize(
    ("make", "message"),
    [("nothing", "there is no folder"), ("empty", "holds no pictures"), ("loose", "holds no labelled picture")],
)
def test_wrong_test_folder(photos: Path, tmp_path: Path, make: str, message: str) -> None:
    held = tmp_path / "held"
    if make != "nothing":
        held.mkdir()
    if make == "loose":
        save(held / "x.png", RED)
    with pytest.raises(UserError, match=message) as caught:
        load(photos, test=held)
    assert str(held) in str(caught.value)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder or \.npz file .*nowhere"):
        load(tmp_path / "nowhere")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_name_that_is_no_utf8(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    save(folder / "a.png", GREY)
    name = os.fsdecode(b"caf\xe9.png")
    try:
        os.rename(folder / "a.png", folder / name)
    except OSError:
        pytest.skip("this file system has no such names")
    for _ in range(2):
        train = load(folder).train
        assert train.names == [name]
        check_colours(train, [GREY])


def test_judging_a_folder(photos: Path, tmp_path: Path) -> None:
    model: dict[str, Any] = {"classes": ("dog", "cat", "wolf"), "kind": ImageKind(3, 24)}
    test = load_test(photos, None, labels=write(tmp_path / "l.csv", "file,label", "z.bmp,wolf", "a.png,cat"), **model)
    assert test.classes == ("dog", "cat", "wolf")
    assert test.labels.tolist() == [1, -1, -1, -1, 2]  # a label file makes subfolders plain folders
    assert load_test(photos, None, labels=None, **model).labels.tolist() == [-1, 1, 0, 0, -1]
    assert test.kind == ImageKind(3, 24)


def test_pictures_to_predict(photos: Path) -> None:
    (photos / "cat" / "damaged.png").write_bytes(b"no picture")
    chunks = list(read_unlabelled(photos, 16, chunk=4))
    assert [len(images) + len(images.skipped) for images in chunks] == [4, 2]
    assert [name for images in chunks for name in images.names] == NAMES
    assert [name for images in chunks for name in images.skipped] == ["cat/damaged.png"]
    assert {label for images in chunks for label in images.labels.tolist()} == {-1}
    whole = load(photos, size=16).train
    assert torch.equal(torch.cat([images.pixels for images in chunks]), whole.pixels)
    (one,) = read_unlabelled(photos / "dog" / "1.png", 16, chunk=4)
    assert one.names == ["1.png"]
    check_colours(one, [RED])


def test_a_chunk_without_a_readable_picture(photos: Path) -> None:
    for name in NAMES:
        (photos / name).write_bytes(b"no picture")
    (images,) = read_unlabelled(photos, 16, chunk=9)
    assert images.pixels.shape == (0, 3, 16, 16)
    assert list(images.skipped) == NAMES


def test_a_folder_linked_into_itself_or_above_is_read_once(photos: Path) -> None:
    (photos / "again").symlink_to(photos, target_is_directory=True)
    (photos / "above").symlink_to(photos.parent, target_is_directory=True)
    (photos / "twice").symlink_to(photos / "dog", target_is_directory=True)
    found = load(photos).train
    assert found.names == NAMES
    assert found.classes == ("cat", "dog")


def test_links_that_lead_nowhere_or_to_themselves_stop_nothing(photos: Path) -> None:
    (photos / "gone.png").symlink_to("/nowhere/gone.png")
    (photos / "gone").symlink_to("/nowhere")
    (photos / "loop.png").symlink_to("loop.png")
    assert load(photos).train.names == NAMES


def test_a_folder_that_may_not_be_opened_is_left_out_and_told(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user without rights finds it; whoever runs the tests may have all of them."""
    listing, allowed = os.scandir, os.access

    def scandir(path: str) -> Any:
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("dog") and allowed(path, mode))
    found = load(photos)
    assert found.train.names == ["a.png", "cat/old/3.png", "z.bmp"]
    assert found.train.classes == ("cat",)
    assert "Left out because they cannot be opened: dog." in found.notes


def test_whether_a_folder_is_ours_may_not_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Any, **_: Any) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "stat", denied)
    assert not written(tmp_path)
