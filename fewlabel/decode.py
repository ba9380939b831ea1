"""Decode picture files to small uint8 squares, and many of them into one memory-mapped cache."""

import hashlib
import itertools
import json
import math
import multiprocessing
import os
import shutil
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import platformdirs
from PIL import Image, ImageOps, UnidentifiedImageError

from .errors import UserError
from .files import new_folder, parse_json
from .interrupts import deaf_to_ctrl_c
from .terminal import with_progress
from .value_range import ValueRange, grey_values, is_deep

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
CHANNELS = 3
FORMAT = 1  # raise it when decoding changes, so that old caches are not used
PIXELS, INDEX = "pixels.u8", "index.json"  # files of a folder of the cache
CHUNK = 64  # files that are decoded at a time
MANY = 4096  # files for which processes are worth their start
ORIENTATION = 0x0112  # EXIF tag
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

T = TypeVar("T")


def decode(path: Path, size: int, value_range: ValueRange | None = None) -> np.ndarray:
    """Decode a picture file to a small square."""
    with Image.open(path) as picture:
        picture.draft("RGB", (2 * size, 2 * size))  # a JPEG decoder can shrink while it reads
        return square(picture, size, value_range)


def square(picture: Image.Image, size: int, value_range: ValueRange | None = None) -> np.ndarray:
    """The first frame as RGB (3, size, size), upright; the longer side is cropped about its centre."""
    small = ImageOps.fit(rgb(picture, value_range), (size, size), Image.Resampling.BILINEAR)
    orientation = picture.getexif().get(ORIENTATION, 1)  # read last: Pillow turns a TIFF itself while it loads
    if orientation in UPRIGHT:
        small = small.transpose(UPRIGHT[orientation])
    return np.asarray(small).transpose(2, 0, 1)


def rgb(picture: Image.Image, value_range: ValueRange | None = None) -> Image.Image:
    """Any mode as RGB: transparent parts become white, 16-bit and float greys are scaled to 8 bits.

    They are scaled by a range that was measured or given; without one, 16 bits are taken for all of 0 to 65535.
    """
    if is_deep(picture):
        grey = grey_values(picture)
        if value_range is not None:
            return Image.fromarray(value_range.scaled(grey)).convert("RGB")
        brightest = grey.max(initial=0)
        if picture.mode.startswith("I;16") or picture.format == "PNG" or brightest > 255:
            scale = 255 / 65535
        else:
            scale = 255.0 if picture.mode == "F" and brightest <= 1 else 1.0
        return Image.fromarray((grey * scale).clip(0, 255).astype(np.uint8)).convert("RGB")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture).convert("RGB")
    return picture.convert("RGB")


def decode_each(pictures: Sequence[Path | Image.Image], size: int, value_range: ValueRange | None = None) -> np.ndarray:
    """Pixels (N, 3, size, size) of a few files or PIL images, in memory; one that cannot be read is an error."""
    arrays = []
    for picture in pictures:
        try:
            decoder = square if isinstance(picture, Image.Image) else decode
            arrays.append(decoder(picture, size, value_range))  # type: ignore[arg-type]
        except Exception as error:  # decoders raise many kinds of errors for damaged files
            raise UserError(f"cannot read the picture {picture} ({error}).") from error
    return np.stack(arrays)


def default_size(pictures: Sequence[Path | Image.Image]) -> int:
    """32 where the pictures are small, else 64; judged by the headers of some of them."""
    sides = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of very large pictures
        for item in sample(pictures):
            try:
                with nullcontext(item) if isinstance(item, Image.Image) else Image.open(item) as picture:
                    sides.append(min(picture.size))
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
                continue
    return 32 if sides and np.median(sides) <= 48 else 64


def sample(pictures: Sequence[T]) -> Sequence[T]:
    """At most 50 of the pictures, evenly spaced."""
    return pictures[:: -(-len(pictures) // 50) or 1]


def decode_all(
    folder: Path, files: Sequence[str], size: int, key: str, value_range: ValueRange | None = None
) -> tuple[np.ndarray, list[int], dict[str, str]]:
    """Pixels (N, 3, size, size), which of `files` they are, and why the others could not be read.

    The pixels are a memory-mapped file in the cache, so memory stays flat however many pictures there are. The cache
    is found by `key`, which stands for names, sizes and times of the files; a second call is immediate.
    """
    place, shape = cache_folder() / key, (CHANNELS, size, size)
    index = read_index(place, len(files), PIXELS, math.prod(shape))
    if index is None:
        shutil.rmtree(place, ignore_errors=True)
        fill_cache(place, folder, files, size, value_range)
        index = read_index(place, len(files), PIXELS, math.prod(shape))
        assert index is not None
    rows, skipped = index.rows, {files[position]: reason for position, reason in index.skipped.items()}
    if not rows:
        shutil.rmtree(place)
        name, reason = next(iter(skipped.items()))
        raise UserError(f"none of the {len(files)} pictures in {folder} can be read, beginning with {name} ({reason}).")
    pixels = np.memmap(place / PIXELS, np.uint8, mode="c", shape=(len(rows), *shape))
    return pixels, rows, skipped


class Index(NamedTuple):
    """The index of a cache folder."""

    rows: list[int]  # which of the pictures, in order
    skipped: dict[int, str]  # unreadable picture -> reason


def write_index(place: Path, index: Index) -> None:
    """Write the index last, so that the data beside it are complete."""
    (place / INDEX).write_text(json.dumps({"rows": index.rows, "skipped": [*index.skipped.items()]}))


def read_index(place: Path, count: int, data: str, row_bytes: int) -> Index | None:
    """The index for that number of pictures; None if it or the data are missing or damaged."""
    try:
        content = parse_json((place / INDEX).read_text())
        rows, skipped = content["rows"], dict(content["skipped"])
        known = sorted([*rows, *skipped]) == [*range(count)] and all(a < b for a, b in itertools.pairwise(rows))
        reasons = all(isinstance(reason, str) for reason in skipped.values())
        whole = (place / data).stat().st_size == row_bytes * len(rows)
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return Index(rows, skipped) if known and reasons and whole else None


def cache_folder() -> Path:
    """The cache folder: FEWLABEL_CACHE, or the system's folder for caches."""
    return Path(os.environ.get("FEWLABEL_CACHE") or platformdirs.user_cache_path("fewlabel"))


def cache_key(folder: Path, files: Sequence[str], size: int, value_range: ValueRange | None = None) -> str:
    kind = f"{FORMAT} {size}" if value_range is None else f"{FORMAT} {size} {tuple(value_range)}"
    digest = hashlib.sha256(f"{kind} {folder.resolve()}".encode("utf-8", "surrogateescape"))
    top = f"{folder}{os.sep}"
    for name in files:
        status = os.stat(top + name)
        digest.update(f"\n{name}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def fill_cache(
    place: Path, folder: Path, files: Sequence[str], size: int, value_range: ValueRange | None = None
) -> None:
    """Decode in parallel into a new folder, which appears under its name only when it is complete."""
    index = Index([], {})
    try:
        with new_folder(place) as temporary:
            with open(temporary / PIXELS, "wb") as file:
                pictures = decoded(folder, files, size, value_range)
                for position, picture in enumerate(with_progress(pictures, len(files), f"Reading {folder}")):
                    if isinstance(picture, str):
                        index.skipped[position] = picture
                    else:
                        index.rows.append(position)
                        file.write(picture.tobytes())
            write_index(temporary, index)
    except OSError as error:
        raise UserError(
            f"cannot keep decoded pictures in {place.parent} ({error.strerror}): "
            "free some space, or name another folder in the environment variable FEWLABEL_CACHE."
        ) from error


def decoded(
    folder: Path, files: Sequence[str], size: int, value_range: ValueRange | None = None
) -> Iterator[np.ndarray | str]:
    """Every picture, or why it cannot be read, in the order of the files; others are decoded ahead of the reader.

    Threads do that for few pictures. Small ones are mostly Python's work, in which threads wait for each other, so for
    many it is processes, which take seconds to start.
    """
    import joblib  # slow
    from joblib.externals.loky import ProcessPoolExecutor

    workers = joblib.cpu_count()
    pending: deque[Future[list[np.ndarray | str]]] = deque()
    with (
        ThreadPoolExecutor(workers) if len(files) < MANY else ProcessPoolExecutor(workers) as pool,
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", module="PIL")  # harmless oddities; here, since filters belong to all threads
        for first in range(0, len(files), CHUNK):
            with deaf_to_ctrl_c():  # this starts the processes
                pending.append(pool.submit(decode_some, str(folder), files[first : first + CHUNK], size, value_range))
            if len(pending) > 2 * workers:  # so that few wait, should the reader be slow
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def decode_some(
    folder: str, files: Sequence[str], size: int, value_range: ValueRange | None = None
) -> list[np.ndarray | str]:
    """Decode some pictures of a folder, or say why they cannot be read."""
    found: list[np.ndarray | str] = []
    helping = multiprocessing.parent_process() is not None
    if helping:
        warnings.filterwarnings("ignore", module="PIL")
    if sys.platform == "linux" and (helping or threading.current_thread() is not threading.main_thread()):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # a network that is at work goes first
    for name in files:
        try:
            found.append(decode(Path(folder, name), size, value_range))
        except Exception as error:  # decoders raise many kinds of errors for damaged files
            found.append(why_unreadable(error))
    return found


def why_unreadable(error: Exception) -> str:
    """Why a picture cannot be read, without the path that Pillow adds."""
    if isinstance(error, UnidentifiedImageError):
        return "cannot identify image file"
    return str(error) or type(error).__name__
