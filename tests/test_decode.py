import os
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from fewlabel import decode as package
from fewlabel.decode import cache_folder, cache_key, decode
from fewlabel.errors import UserError

SIDE = 16
ORIENTATION = 0x0112


def decode_all(folder: Path, files: Sequence[str], size: int) -> tuple[Tensor, list[int], dict[str, str]]:
    pixels, rows, skipped = package.decode_all(folder, files, size, cache_key(folder, files, size))
    return torch.from_numpy(pixels), rows, skipped


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def colours() -> np.ndarray:
    """(16, 16, 3): 256 colours, no two of them the same, none symmetric to another."""
    row, column = np.indices((SIDE, SIDE))
    return np.stack([16 * row, 16 * column, 8 * row + 4 * column], axis=-1).astype(np.uint8)


def smooth() -> np.ndarray:
    """A picture that JPEG keeps almost as it is."""
    row, column = np.indices((SIDE, SIDE))
    return np.stack([100 + 4 * row, 100 + 4 * column, 200 - 3 * row], axis=-1).astype(np.uint8)


def decoded(path: Path, size: int = SIDE) -> np.ndarray:
    """(size, size, 3), after a look at the shape and type that `decode` promises."""
    pixels = decode(path, size)
    assert pixels.shape == (3, size, size) and pixels.dtype == np.uint8
    return pixels.transpose(1, 2, 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.png", {}),
        ("a.webp", {"lossless": True}),
        ("a.bmp", {}),
        ("a.tif", {}),
        ("a.tiff", {"compression": "tiff_lzw"}),
        ("a.gif", {}),
    ],
)
def test_lossless_formats(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    picture = Image.fromarray(colours())
    if name.endswith(".gif"):
        picture = picture.quantize(256, dither=Image.Dither.NONE, palette=exact_palette())
    picture.save(tmp_path / name, **options)
    assert np.array_equal(decoded(tmp_path / name), colours())


def exact_palette() -> Image.Image:
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours().reshape(-1).tolist())
    return palette


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.jpg", {"quality": 95}),
        ("a.jpeg", {"quality": 95, "progressive": True}),
        ("a.jpg", {"quality": 95, "subsampling": 2}),
        ("a.webp", {"quality": 95}),
    ],
)
def test_lossy_formats(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    Image.fromarray(smooth()).save(tmp_path / name, **options)
    pixels = decoded(tmp_path / name)
    with Image.open(tmp_path / name) as picture:
        assert np.array_equal(pixels, np.asarray(picture.convert("RGB")))
    assert np.abs(pixels.astype(int) - smooth()).max() <= 12


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png", "a.tiff"])
def test_first_frame_of_an_animation(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (SIDE, SIDE), colour) for colour in ("red", "lime", "blue")]
    options: dict[str, Any] = {"lossless": True} if name == "a.webp" else {}
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
    with Image.open(tmp_path / name) as picture:
        assert getattr(picture, "n_frames", 1) == 3
    assert (decoded(tmp_path / name) == [255, 0, 0]).all()


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tiff", "a.gif"])
def test_grey(tmp_path: Path, name: str) -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(SIDE, SIDE)
    Image.fromarray(grey).save(tmp_path / name)
    assert np.array_equal(decoded(tmp_path / name), np.stack([grey] * 3, axis=-1))


def test_grey_jpeg(tmp_path: Path) -> None:
    Image.fromarray(smooth()[..., 0]).save(tmp_path / "a.jpg", quality=95)
    pixels = decoded(tmp_path / "a.jpg").astype(int)
    assert np.abs(pixels - smooth()[..., :1]).max() <= 4
    assert (pixels == pixels[..., :1]).all()


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tiff", "a.gif"])
def test_black_and_white(tmp_path: Path, name: str) -> None:
    board = np.indices((SIDE, SIDE)).sum(0) % 2 == 0
    Image.fromarray(board).save(tmp_path / name)
    assert np.array_equal(decoded(tmp_path / name), np.stack([board * np.uint8(255)] * 3, axis=-1))


def palette_picture() -> Image.Image:
    """Left half index 0 (red), right half index 1 (green)."""
    index = np.indices((SIDE, SIDE))[1] >= SIDE // 2
    picture = Image.frombytes("P", (SIDE, SIDE), index.astype(np.uint8).tobytes())
    picture.putpalette([255, 0, 0, 0, 255, 0])
    return picture


def halves(left: tuple[int, int, int], right: tuple[int, int, int]) -> np.ndarray:
    pixels = np.empty((SIDE, SIDE, 3), np.uint8)
    pixels[:, : SIDE // 2], pixels[:, SIDE // 2 :] = left, right
    return pixels


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.bmp", "a.tiff"])
def test_palette(tmp_path: Path, name: str) -> None:
    palette_picture().save(tmp_path / name)
    assert np.array_equal(decoded(tmp_path / name), halves((255, 0, 0), (0, 255, 0)))


@pytest.mark.parametrize(
    ("name", "transparency", "left", "right"),
    [
        ("a.png", 0, (255, 255, 255), (0, 255, 0)),
        ("a.gif", 0, (255, 255, 255), (0, 255, 0)),
        ("a.png", 1, (255, 0, 0), (255, 255, 255)),
        ("a.png", bytes([255, 51]), (255, 0, 0), (204, 255, 204)),
    ],
)
def test_palette_with_transparency(
    tmp_path: Path, name: str, transparency: Any, left: tuple[int, int, int], right: tuple[int, int, int]
) -> None:
    palette_picture().save(tmp_path / name, transparency=transparency)
    assert np.array_equal(decoded(tmp_path / name), halves(left, right))


@pytest.mark.parametrize("name", ["a.png", "a.tiff", "a.webp"])
@pytest.mark.parametrize(("alpha", "expected"), [(0, (255, 255, 255)), (255, (200, 100, 0)), (51, (244, 224, 204))])
def test_transparent_parts_become_white(tmp_path: Path, name: str, alpha: int, expected: tuple[int, int, int]) -> None:
    options: dict[str, Any] = {"lossless": True, "exact": True} if name == "a.webp" else {}
    Image.new("RGBA", (SIDE, SIDE), (200, 100, 0, alpha)).save(tmp_path / name, **options)
    assert (decoded(tmp_path / name) == expected).all()


def test_grey_with_alpha(tmp_path: Path) -> None:
    Image.new("LA", (SIDE, SIDE), (0, 51)).save(tmp_path / "a.png")
    assert (decoded(tmp_path / "a.png") == 204).all()


@pytest.mark.parametrize(("mode", "colour"), [("RGB", (9, 8, 7)), ("L", 9)])
def test_one_colour_declared_transparent(tmp_path: Path, mode: str, colour: Any) -> None:
    Image.new(mode, (SIDE, SIDE), colour).save(tmp_path / "a.png", transparency=colour)
    assert (decoded(tmp_path / "a.png") == 255).all()


@pytest.mark.parametrize("name", ["a.jpg", "a.tiff"])
@pytest.mark.parametrize(
    ("ink", "expected"),
    [((0, 255, 255, 0), (255, 0, 0)), ((0, 0, 0, 0), (255, 255, 255)), ((0, 0, 0, 255), (0, 0, 0))],
)
def test_cmyk(tmp_path: Path, name: str, ink: tuple[int, ...], expected: tuple[int, int, int]) -> None:
    Image.new("CMYK", (SIDE, SIDE), ink).save(tmp_path / name)
    with Image.open(tmp_path / name) as picture:
        assert picture.mode == "CMYK"
    assert np.abs(decoded(tmp_path / name).astype(int) - expected).max() <= 2


@pytest.mark.parametrize("name", ["a.png", "a.tiff"])
def test_sixteen_bit_grey(tmp_path: Path, name: str) -> None:
    grey = np.arange(256, dtype=np.uint16).reshape(SIDE, SIDE)
    Image.fromarray(grey * 257).save(tmp_path / name)
    assert np.array_equal(decoded(tmp_path / name), np.stack([grey.astype(np.uint8)] * 3, axis=-1))


def test_dark_sixteen_bit_grey_stays_dark(tmp_path: Path) -> None:
    """200 of 65535 is almost black, not a light grey."""
    Image.fromarray(np.full((SIDE, SIDE), 200, np.uint16)).save(tmp_path / "a.png")
    assert decoded(tmp_path / "a.png").max() <= 1


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.jpg", "a.tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path: Path, name: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    stored = Image.fromarray(colours())
    stored.save(tmp_path / name, exif=exif, **({"lossless": True} if name == "a.webp" else {"quality": 95}))
    with Image.open(tmp_path / name) as picture:
        assert picture.getexif()[ORIENTATION] == orientation
        upright = ImageOps.exif_transpose(picture).convert("RGB")
    assert np.array_equal(decoded(tmp_path / name), np.asarray(upright))
    if name == "a.png":
        corners = {1: (0, 0), 2: (0, 15), 3: (15, 15), 4: (15, 0), 5: (0, 0), 6: (15, 0), 7: (15, 15), 8: (0, 15)}
        assert decoded(tmp_path / name)[0, 0].tolist() == colours()[corners[orientation]].tolist()


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tiff"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_rotated_picture_that_is_not_square(tmp_path: Path, name: str, orientation: int) -> None:
    """As if it had been saved upright; the crop is of the long side, whichever that is in the file."""
    upright = np.full((96, 32, 3), 128, np.uint8)
    upright[32:48], upright[48:64] = (200, 0, 0), (0, 0, 200)
    turns = {1: 0, 3: 2, 6: 1, 8: 3}[orientation]
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(np.rot90(upright, turns).copy()).save(tmp_path / name, exif=exif, quality=95, subsampling=0)
    with Image.open(tmp_path / name) as picture:
        assert ImageOps.exif_transpose(picture).size == (32, 96)
    expected = np.repeat([(200, 0, 0), (0, 0, 200)], 16, axis=0)[:, None]
    assert np.abs(decoded(tmp_path / name, 32).astype(int) - expected).max() <= 40


@pytest.mark.parametrize("scale", [1, 2, 5])
@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_centre_crop(tmp_path: Path, scale: int, upright: bool, name: str) -> None:
    """Of three squares side by side the middle one remains; shrinking may blend a neighbour into its outermost row."""
    row = np.repeat(np.array([(255, 0, 0), (0, 200, 0), (0, 0, 255)], np.uint8), SIDE * scale, axis=0)
    picture = np.repeat(row[None], SIDE * scale, axis=0)
    if upright:
        picture = picture.swapaxes(0, 1).copy()
    Image.fromarray(picture).save(tmp_path / name, quality=95, subsampling=0)
    error = np.abs(decoded(tmp_path / name).astype(int) - (0, 200, 0))
    assert error[1:-1, 1:-1].max() <= (3 if name == "a.jpg" else 0)
    assert error.max() <= 40


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize("shape", [(300, 400), (400, 300)])
def test_aspect_ratio_is_kept(tmp_path: Path, name: str, shape: tuple[int, int]) -> None:
    """A disc in the middle is still round."""
    row, column = np.indices(shape)
    disc = np.hypot(row - (shape[0] - 1) / 2, column - (shape[1] - 1) / 2) < 100
    Image.fromarray(disc * np.uint8(255)).save(tmp_path / name)
    inside = decoded(tmp_path / name, 30)[..., 0] > 127
    assert inside.any(0).sum() == inside.any(1).sum() == 20
    assert np.array_equal(inside, inside.T)


def test_smaller_picture_is_enlarged(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 200], [0, 200]], np.uint8)).save(tmp_path / "a.png")
    row = decoded(tmp_path / "a.png", 8)[0, :, 0].astype(int)
    assert row[0] == 0 and row[-1] == 200
    assert (np.diff(row) >= 0).all()


def test_average_survives_shrinking(tmp_path: Path) -> None:
    """Shrinking averages, it does not pick single pixels."""
    board = (np.indices((128, 128)).sum(0) % 2).astype(np.uint8) * 200
    Image.fromarray(board).save(tmp_path / "a.png")
    assert np.abs(decoded(tmp_path / "a.png").astype(int) - 100).max() <= 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten grey pictures; picture i is 20 i."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(10):
        Image.new("L", (SIDE, SIDE), 20 * i).save(folder / f"{i}.bmp")
    return folder


FILES = [f"{i}.bmp" for i in range(10)]


def no_decoding(path: Path, size: int, value_range: Any = None) -> np.ndarray:
    raise AssertionError(f"{path} is decoded again")


def test_pictures_keep_their_order(folder: Path) -> None:
    for files in (FILES, FILES[::-1], FILES[3:5]):
        pixels, rows, skipped = decode_all(folder, files, 8)
        assert pixels.dtype == torch.uint8 and pixels.shape == (len(files), 3, 8, 8)
        assert pixels[:, 2, 4, 4].tolist() == [20 * int(name[0]) for name in files]
        assert rows == list(range(len(files)))
        assert skipped == {}


def test_second_call_does_not_decode_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "3.bmp").write_bytes(b"damaged")
    first = decode_all(folder, FILES, 8)
    monkeypatch.setattr("fewlabel.decode.decode", no_decoding)
    second = decode_all(folder, FILES, 8)
    assert torch.equal(first[0], second[0])
    assert first[1:] == second[1:]
    assert first[1] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert list(first[2]) == ["3.bmp"]
    with pytest.raises(UserError, match="is decoded again"):
        decode_all(folder, FILES, 9)


@pytest.mark.parametrize("change", ["time", "size"])
def test_changed_file_is_decoded_anew(folder: Path, change: str) -> None:
    decode_all(folder, FILES, 8)
    path = folder / "7.bmp"
    before = path.stat()
    Image.new("L", (SIDE, SIDE), 251).save(path)
    moment = before.st_mtime_ns
    if change == "time":
        moment += 1_000_000_000
        assert path.stat().st_size == before.st_size
    else:
        path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, ns=(moment, moment))
    assert (path.stat().st_mtime_ns != before.st_mtime_ns) == (change == "time")
    pixels = decode_all(folder, FILES, 8)[0]
    assert pixels[:, 0, 0, 0].tolist() == [0, 20, 40, 60, 80, 100, 120, 251, 160, 180]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.json", b'{"rows": [0, 1'),
        ("index.json", b"[]"),
        ("index.json", b'{"rows": [0, 1, 2, 3, 4], "skipped": []}'),
        ("index.json", b'{"rows": [1, 0, 2, 3, 4, 5, 6, 7, 8, 9], "skipped": []}'),
        ("index.json", b'{"rows": [0, 1, 2, 3, 4, 5, 6, 7, 8], "skipped": [[9, 7]]}'),
        ("index.json", b'{"rows": null, "skipped": 1e999}'),
        ("pixels.u8", b"cut off"),
    ],
)
def test_a_damaged_cache_is_made_again(folder: Path, name: str, content: bytes) -> None:
    decode_all(folder, FILES, 8)
    (place,) = (path for path in cache_folder().iterdir() if (path / name).exists())
    (place / name).write_bytes(content)
    assert decode_all(folder, FILES, 8)[0][:, 0, 0, 0].tolist() == list(range(0, 200, 20))
    assert (place / name).read_bytes() != content


def test_other_folder_of_the_same_files_has_its_own_cache(folder: Path, tmp_path: Path) -> None:
    decode_all(folder, ["1.bmp"], 8)
    other = tmp_path / "other"
    other.mkdir()
    Image.new("L", (SIDE, SIDE), 99).save(other / "1.bmp")
    moment = (folder / "1.bmp").stat().st_mtime_ns
    os.utime(other / "1.bmp", ns=(moment, moment))
    assert decode_all(other, ["1.bmp"], 8)[0].unique().tolist() == [99]
    assert decode_all(folder, ["1.bmp"], 8)[0].unique().tolist() == [20]


def test_cache_is_where_the_environment_says(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "else" / "where"))
    decode_all(folder, FILES, 8)
    places = list((tmp_path / "else" / "where").iterdir())
    assert len(places) == 1
    assert (places[0] / "pixels.u8").stat().st_size == 10 * 3 * 8 * 8
    assert not (tmp_path / "cache").exists()


def test_place_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("FEWLABEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "fewlabel"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "fewlabel"


def test_cache_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("hello")
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match=r"cannot keep decoded pictures in .*FEWLABEL_CACHE"):
        decode_all(folder, FILES, 8)


def test_interrupted_decoding_leaves_nothing_that_looks_complete(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, size: int, value_range: Any = None) -> np.ndarray:
        if path.name == "6.bmp":
            raise KeyboardInterrupt
        return decode(path, size)

    with monkeypatch.context() as patch:
        patch.setattr("fewlabel.decode.decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            decode_all(folder, FILES, 8)
    assert list(cache.iterdir()) == []
    assert decode_all(folder, FILES, 8)[0][:, 0, 0, 0].tolist() == list(range(0, 200, 20))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pixels_are_memory_mapped(folder: Path, cache: Path) -> None:
    pixels = decode_all(folder, FILES, 8)[0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= pixels.data_ptr() < last:
            assert line.endswith("/pixels.u8") and str(cache) in line
            return
    raise AssertionError("the pixels are in no mapping")


def test_a_caller_cannot_change_the_cache(folder: Path) -> None:
    decode_all(folder, FILES, 8)[0].fill_(77)
    assert decode_all(folder, FILES, 8)[0][:, 0, 0, 0].tolist() == list(range(0, 200, 20))


def test_warning_filters_survive_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two decoders overlap so that the one which began first also ends first."""
    from fewlabel.decode import rgb

    both, lock, arrived, first_done = threading.Barrier(2), threading.Lock(), list[int](), threading.Event()

    def overlapping(picture: Image.Image, value_range: Any = None) -> Image.Image:
        with lock:
            arrived.append(len(arrived))
            late = arrived[-1] == 1
        both.wait(timeout=10)
        if late:
            assert first_done.wait(timeout=10)
            return rgb(picture)
        found = rgb(picture)
        first_done.set()
        return found

    monkeypatch.setattr("fewlabel.decode.rgb", overlapping)
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    monkeypatch.setattr("fewlabel.decode.CHUNK", 1)
    before = list(warnings.filters)
    assert decode_all(folder, FILES[:2], 8)[1] == [0, 1]
    assert list(warnings.filters) == before


@pytest.mark.parametrize("many", [1, 1000], ids=["processes", "threads"])
def test_pictures_come_in_order_whoever_decodes_them(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    monkeypatch.setattr("fewlabel.decode.CHUNK", 8)
    monkeypatch.setattr("fewlabel.decode.MANY", many)
    for position in range(100):
        Image.new("L", (8, 8), position).save(tmp_path / f"{position}.png")
    (tmp_path / "50.png").write_bytes(b"nothing")
    found = list(package.decoded(tmp_path, [f"{position}.png" for position in range(100)], 8))
    assert "cannot identify image file" in str(found[50])
    assert all((found[position] == position).all() for position in range(100) if position != 50)  # type: ignore[union-attr]


@pytest.mark.parametrize("workers", [1, 3])
def test_few_pictures_wait(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []

    def blank(path: Path, size: int, value_range: Any = None) -> np.ndarray:
        begun.append(path)
        return np.zeros((3, size, size), np.uint8)

    monkeypatch.setattr("fewlabel.decode.decode", blank)
    monkeypatch.setattr("joblib.cpu_count", lambda: workers)
    monkeypatch.setattr("fewlabel.decode.CHUNK", 8)
    pictures = package.decoded(Path("nowhere"), [str(position) for position in range(2000)], 8)
    next(pictures)
    ahead = 8 * (2 * workers + 1)
    until = time.monotonic() + 10
    while len(begun) < ahead and time.monotonic() < until:
        threading.Event().wait(0.001)
    assert len(begun) == ahead
    assert len(list(pictures)) == 1999
    assert len(begun) == 2000
