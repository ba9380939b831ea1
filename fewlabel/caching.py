"""The cache of decoded pictures and features, which can be rebuilt at any time."""

import shutil
from pathlib import Path
from typing import NamedTuple

from .data.folder import RANGES
from .decode import PIXELS, cache_folder
from .errors import UserError

FEATURES, SETS, FILLING = "features", "sets", "filling-"


class Part(NamedTuple):
    title: str
    entries: int
    size: int  # bytes


def cache_parts() -> list[Part]:
    """The parts of the cache."""
    folder = cache_folder()
    features, sets = entries_of(folder / FEATURES), entries_of(folder / SETS)
    pixels = [entry for entry in entries_of(folder) if is_decoded(entry)]
    return [
        Part("encoder features, by picture", len(features), sum(map(size_of, features))),
        Part("features, by folder", len(sets), sum(map(size_of, sets))),
        Part("decoded pictures, by folder", len(pixels), sum(map(size_of, pixels))),
    ]


def clear_cache() -> int:
    """Delete fewlabel's own files only; returns the number of bytes freed."""
    folder = cache_folder()
    ours = [entry for entry in entries_of(folder) if is_decoded(entry) or entry.name in (FEATURES, SETS, RANGES)]
    freed = sum(map(size_of, ours))
    try:
        for entry in ours:
            shutil.rmtree(entry)
    except OSError as error:
        raise UserError(f"cannot remove {error.filename} ({error.strerror}).") from error
    return freed


def entries_of(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def is_decoded(entry: Path) -> bool:
    """Pictures that were decoded, or were being decoded when a process was killed."""
    return (entry / PIXELS).exists() or (entry.is_dir() and entry.name.startswith(FILLING))


def size_of(entry: Path) -> int:
    return sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
