"""Folders of ordinary pictures: class subfolders and loose files, with labels from label files."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..decode import CHANNELS, cache_folder, cache_key, decode_all, decoded, default_size, sample
from ..encoders import Encoder
from ..errors import UserError
from ..files import parse_json, write_json
from ..terminal import with_progress
from ..value_range import ValueRange, as_range, look_at_headers, measure
from .examples import UNLABELLED, Dataset, Examples
from .features import encode_files
from .images import ImageKind, Images
from .labels import NO_CLASS, LabelFiles, as_paths, read_labels, refuse_alike
from .picture_files import class_folders, classes_by_folder, listed, scan

SUBFOLDER = "a subfolder"
RANGES = "ranges"  # folder of the cache
SMALLEST, LARGEST = 8, 1024  # side of pictures


def read_folder(
    folder: Path,
    *,
    labels: LabelFiles = None,
    subfolders: bool | None = None,
    test: str | Path | None = None,
    size: int | None = None,
    encoder: Encoder | None = None,
    views: int = 0,
    value_range: ValueRange | None = None,
) -> Dataset:
    """The class of a picture is what label files say; without any, or with `subfolders`, else that of its subfolder.

    With `subfolders` False, subfolders are never classes.
    """
    if test is not None and Path(test).resolve().is_relative_to(folder.resolve()):
        raise UserError(f"the test pictures in {test} are also training pictures: move them out of {folder}.")
    known = understand(folder, labels, subfolders)
    files, classes_of, classes = known.files, known.classes_of, known.classes
    if size is not None and not SMALLEST <= size <= LARGEST:
        raise UserError(f"--size must be from {SMALLEST} to {LARGEST} pixels, not {size}.")
    size = size or default_size([folder / name for name in sample(files)])
    value_range = value_range or (encoder.value_range if encoder else None)
    value_range = range_of(folder, files, value_range, known.notes)
    if encoder is not None:
        encoder = replace(encoder, value_range=value_range)
    train = read_pictures(folder, files, classes_of, classes, size, encoder, views, value_range)
    held_out = None
    if test is not None:
        held_out = read_labelled(Path(test), classes, size, encoder=encoder, value_range=value_range)
    return Dataset(folder.resolve().name, train, held_out, True, tuple(known.notes), known.no_class)


def range_of(folder: Path, files: Sequence[str], given: ValueRange | None, notes: list[str]) -> ValueRange | None:
    """The range of values of pictures with more than 8 bits, given or measured; None where there are none."""
    found = look_at_headers(folder, files)
    value_range = given
    if found.deep and given is None:
        place = cache_folder() / RANGES / f"{cache_key(folder, found.deep, 0)}.json"
        try:
            value_range = as_range(parse_json(place.read_text()))
        except (OSError, ValueError, TypeError):
            value_range = measure(folder / name for name in found.deep)
            with contextlib.suppress(OSError, UserError):
                place.parent.mkdir(parents=True, exist_ok=True)
                write_json(place, value_range)
    notes += found.notes(value_range, fixed=given is not None)
    return value_range if found.deep else given


class Known(NamedTuple):
    """The contents of a folder and its label files, before any picture is opened."""

    files: list[str]  # without those of no class
    classes_of: dict[str, str]  # of those that have a label; an empty one says that nothing is known
    classes: tuple[str, ...]
    no_class: tuple[str, ...]  # pictures labelled (none)
    notes: list[str]  # messages about what was read


def understand(folder: Path, labels: LabelFiles, subfolders: bool | None = None) -> Known:
    """The pictures, the classes, and the source of each class."""
    notes = list[str]()
    files, folders = scan(folder, notes), class_folders(folder)
    if subfolders or (subfolders is None and labels is None):
        classes_of = classes_by_folder(files, folders)
        source = dict.fromkeys(folders, SUBFOLDER)
        if folders:
            notes.append(f"Subfolders are classes: {listed(sorted(folders))}.")
    else:
        classes_of, source = {}, {}
        if folders and subfolders is None:
            notes.append(
                f"Subfolders are not used as classes, because a label file is given: {listed(sorted(folders))}. To "
                "use them: --subfolders."
            )
    if labels is not None:
        said = read_labels(as_paths(labels), folder, files)
        classes_of = classes_of | said.classes
        for name, label in said.classes.items():
            source.setdefault(label, said.sources[name])
        notes += said.notes
    no_class = tuple(name for name in files if classes_of.get(name) == NO_CLASS)
    if no_class:
        notes.append(f"Left out of training because they are labelled {NO_CLASS}: {len(no_class)}.")
    classes = {name for name in source if name not in ("", NO_CLASS)}
    refuse_alike(classes, source)
    left_out = set(no_class)
    files = [name for name in files if name not in left_out]
    if not files:
        raise UserError(f"all pictures in {folder} are labelled {NO_CLASS}: give some of them a class.")
    return Known(files, classes_of, tuple(sorted(classes)), no_class, notes)


def read_labelled(
    folder: Path,
    classes: Sequence[str],
    size: int,
    labels: LabelFiles = None,
    encoder: Encoder | None = None,
    value_range: ValueRange | None = None,
) -> Examples:
    """Labelled pictures for evaluation, at the model's size or encoded."""
    files, classes_of, *_ = understand(folder, labels)
    if strange := sorted({name for name in classes_of.values() if name not in ("", NO_CLASS)} - set(classes)):
        raise UserError(f"{folder} has the class '{strange[0]}', which the training images do not have.")
    if not any(classes_of.values()):
        raise UserError(f"{folder} holds no labelled pictures: put them into one subfolder per class.")
    return read_pictures(folder, files, classes_of, classes, size, encoder, value_range=value_range)


def read_unlabelled(
    path: Path, size: int, chunk: int, title: str = "", value_range: ValueRange | None = None
) -> Iterator[Examples]:
    """A folder of pictures (or one picture) of which nothing is known, `chunk` at a time, with a bar called `title`.

    Nothing is kept: while one chunk is worked on, the next is decoded.
    """
    folder, files = (path.parent, [path.name]) if path.is_file() else (path, scan(path))
    pictures = iter(with_progress(decoded(folder, files, size, value_range), len(files), title))
    for first in range(0, len(files), chunk):
        names = files[first : first + chunk]
        found = dict(zip(names, itertools.islice(pictures, len(names)), strict=True))
        pixels = {name: picture for name, picture in found.items() if not isinstance(picture, str)}
        skipped = {name: picture for name, picture in found.items() if isinstance(picture, str)}
        stack = np.stack(list(pixels.values())) if pixels else np.empty((0, CHANNELS, size, size), np.uint8)
        yield Images(torch.from_numpy(stack), torch.full((len(pixels),), UNLABELLED), (), list(pixels), skipped)


def read_pictures(
    folder: Path,
    files: Sequence[str],
    classes_of: dict[str, str],
    classes: Sequence[str],
    size: int,
    encoder: Encoder | None = None,
    views: int = 0,
    value_range: ValueRange | None = None,
) -> Examples:
    """Pixels of that size or, with an encoder, features."""
    if encoder is not None:
        return encode_files(encoder, folder, files, classes, classes_of, views)
    key = cache_key(folder, files, size, value_range)
    pixels, rows, skipped = decode_all(folder, files, size, key, value_range)
    number = {name: i for i, name in enumerate(classes)} | {"": UNLABELLED}
    names = [files[row] for row in rows]
    labels = torch.tensor([number[classes_of.get(name, "")] for name in names])
    kind = ImageKind(CHANNELS, size, value_range=value_range)
    return Images(torch.from_numpy(pixels), labels, tuple(classes), names, skipped, source=key, kind=kind)
