"""Pictures with more than 8 bits: the values that become black and white.

A microscope with 12 bits writes values up to 4095 into 16-bit files: read as 16 bits they would be nearly black. So the
range of a folder is measured once, told before training, and kept as a part of the model.
"""

import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from .errors import UserError

PNG = b"\x89PNG\r\n\x1a\n"
MAY_BE_DEEP = (".png", ".tif", ".tiff")
BITS_PER_SAMPLE = 258  # TIFF tag


class ValueRange(NamedTuple):
    low: float  # becomes black
    high: float  # becomes white

    def scaled(self, grey: np.ndarray) -> np.ndarray:
        """Convert to uint8; values outside the range become black or white."""
        return (((grey - self.low) * (255 / (self.high - self.low))).clip(0, 255) + 0.5).astype(np.uint8)

    def describe(self) -> str:
        return f"{self.low:g} to {self.high:g}"


def parse_range(text: str) -> ValueRange:
    """The range as typed: LOW,HIGH."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        low = high = 0.0
    if not (np.isfinite([low, high]).all() and low < high):
        raise UserError(f"--range must be two numbers, the smaller one first, such as 0,4095, not {text}.")
    return ValueRange(low, high)


def as_range(saved: Any) -> ValueRange | None:
    """The range in model.json."""
    return None if saved is None else ValueRange(*(float(value) for value in saved))


def is_deep(picture: Image.Image) -> bool:
    """Whether it is a grey picture of 16 or 32 bits or floats."""
    return picture.mode.startswith(("I", "F"))


def grey_values(picture: Image.Image) -> np.ndarray:
    """The values of a deep picture; raises ValueError where some are not numbers."""
    values = np.asarray(picture, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("it contains NaN or infinite values")
    return values


def extremes(picture: Image.Image) -> tuple[float, float] | None:
    """The smallest and the largest value of a deep picture; None of others."""
    values = grey_values(picture) if is_deep(picture) else np.empty(0)
    return (float(values.min()), float(values.max())) if values.size else None


def spanning(found: Iterable[tuple[float, float] | None]) -> ValueRange | None:
    """The range from the smallest to the largest value; None if there are none."""
    known = [pair for pair in found if pair is not None]
    if not known:
        return None
    low, high = min(low for low, _ in known), max(high for _, high in known)
    return ValueRange(low, high if high > low else low + 1)


class Depths(NamedTuple):
    """Facts from the headers of the pictures of a folder."""

    deep: list[str]  # 16-bit, 32-bit and float greys
    cut: list[str]  # with more than 8 bits per colour, of which the decoder keeps the upper 8
    several: list[str]  # of several pages

    def notes(self, value_range: ValueRange | None, fixed: bool) -> list[str]:
        """For a person, before training."""
        told = []
        if self.deep and value_range is not None:
            source = "from --range or the model" if fixed else "measured; --range LOW,HIGH sets another range"
            told.append(
                f"Pictures with more than 8 bits: {len(self.deep)}. Values from {value_range.describe()} become black "
                f"to white ({source})."
            )
        if self.cut:
            told.append(f"Pictures with more than 8 bits per colour: {len(self.cut)}. The upper 8 are used.")
        if self.several:
            told.append(f"Files with several pages: {len(self.several)}. The first page of each is used.")
        return told


def look_at_headers(folder: Path, files: Sequence[str]) -> Depths:
    """Which pictures have more than 8 bits or several pages. Files that cannot be read are left out."""
    found = Depths([], [], [])
    for name in files:
        if name.lower().endswith(MAY_BE_DEEP):
            try:
                look_at_header(folder / name, name, found)
            except Exception:
                continue
    return found


def look_at_header(path: Path, name: str, found: Depths) -> None:
    with open(path, "rb") as file:
        start = file.read(26)
    if start.startswith(PNG):  # for a million of them: without Pillow
        if start[24] == 16:  # bits; the next byte is 0 for grey
            (found.cut if start[25] else found.deep).append(name)
        return
    with warnings.catch_warnings(action="ignore"), Image.open(path) as picture:
        if is_deep(picture):
            found.deep.append(name)
        elif max(getattr(picture, "tag_v2", {}).get(BITS_PER_SAMPLE, (8,))) > 8:
            found.cut.append(name)
        try:
            picture.seek(1)
            found.several.append(name)
        except EOFError:
            pass


def measure(pictures: Iterable[Path | Image.Image]) -> ValueRange | None:
    """The range of the values of deep pictures, all of which are read for it; None where none can be read."""
    import joblib  # slow

    def extremes_of(item: Path | Image.Image) -> tuple[float, float] | None:
        try:
            with nullcontext(item) if isinstance(item, Image.Image) else Image.open(item) as picture:
                return extremes(picture)
        except Exception:  # damaged files raise many kinds of errors, reported when they are decoded
            return None

    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(joblib.cpu_count()) as pool:
        return spanning(pool.map(extremes_of, pictures))
