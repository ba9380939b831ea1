"""Folders of ordinary pictures: class subfolders and loose files, with labels from a CSV file."""

import csv
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from ..decode import CHANNELS, SUFFIXES, cache_key, decode_all, decoded, default_size
from ..encoders import Encoder
from ..errors import UserError
from ..terminal import with_progress
from .examples import UNLABELLED, Dataset, Examples
from .features import encode_files
from .images import Images

NO_CLASS = ("unlabelled", "unlabeled")  # subfolders of these names hold pictures of no known class
WRITTEN = ("recipe.json", "drift.csv")  # in a folder that `fewlabel train` or `fewlabel drift` has made


def read_folder(
    folder: Path,
    *,
    labels: str | Path | None = None,
    test: str | Path | None = None,
    size: int | None = None,
    encoder: Encoder | None = None,
    views: int = 0,
) -> Dataset:
    """Pictures in class subfolders are labelled, loose ones are not; what the CSV file says goes first."""
    if test is not None and Path(test).resolve().is_relative_to(folder.resolve()):
        raise UserError(f"the test pictures in {test} are among those to be trained on: move them out of {folder}.")
    files, classes_of = scan(folder)
    subfolders = class_folders(folder)
    if labels is not None:
        classes_of.update(read_labels(Path(labels), folder, files))
    classes = tuple(sorted({*subfolders, *(name for name in classes_of.values() if name)}))
    if size is not None and size < 8:
        raise UserError(f"--size must be at least 8 pixels, not {size}.")
    size = size or default_size([folder / name for name in files])
    train = read_pictures(folder, files, classes_of, classes, size, encoder, views)
    held_out = None
    if test is not None:
        held_out = read_labelled(Path(test), classes, size, encoder=encoder)
    return Dataset(folder.resolve().name, train, held_out, flip=True)


def read_labelled(
    folder: Path,
    classes: Sequence[str],
    size: int,
    labels: str | Path | None = None,
    encoder: Encoder | None = None,
) -> Examples:
    """Pictures to evaluate a model on, all of its classes, at its size or encoded."""
    files, classes_of = scan(folder)
    if labels is not None:
        classes_of.update(read_labels(Path(labels), folder, files))
    if strange := sorted({name for name in classes_of.values() if name} - set(classes)):
        raise UserError(f"{folder} has the class '{strange[0]}', which the training images have not.")
    if not any(classes_of.values()):
        raise UserError(f"{folder} holds no labelled picture: put the pictures into one subfolder per class.")
    return read_pictures(folder, files, classes_of, classes, size, encoder)


def read_unlabelled(path: Path, size: int, chunk: int, title: str = "") -> Iterator[Examples]:
    """A folder of pictures (or one picture) of which nothing is known, `chunk` at a time, with a bar called `title`.

    Nothing is kept: while one chunk is worked on, the next is decoded.
    """
    folder, files = (path.parent, [path.name]) if path.is_file() else (path, scan(path)[0])
    pictures = iter(with_progress(decoded(folder, files, size), len(files), title))
    for first in range(0, len(files), chunk):
        names = files[first : first + chunk]
        found = dict(zip(names, itertools.islice(pictures, len(names)), strict=True))
        pixels = {name: picture for name, picture in found.items() if not isinstance(picture, str)}
        skipped = {name: picture for name, picture in found.items() if isinstance(picture, str)}
        stack = np.stack(list(pixels.values())) if pixels else np.empty((0, CHANNELS, size, size), np.uint8)
        yield Images(torch.from_numpy(stack), torch.full((len(pixels),), UNLABELLED), (), list(pixels), skipped)


def scan(folder: Path) -> tuple[list[str], dict[str, str]]:
    """All picture files, as sorted paths relative to the folder, and the class of those in a class subfolder."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}.")
    files = sorted(pictures_in(str(folder)))
    if not files:
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        raise UserError(f"{folder} holds no pictures ({kinds}).")
    tops, classes = {name: name.partition("/")[0] for name in files if "/" in name}, set(class_folders(folder))
    return files, {name: top for name, top in tops.items() if top in classes}


def pictures_in(folder: str, before: str = "") -> Iterator[str]:
    """Picture files at any depth, as paths from the top; a million of them take seconds.

    Hidden ones are left out, and what fewlabel has written. Links to folders are followed at the top only: deeper ones
    may lead round in circles.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=not before):
                if not written(Path(entry.path)):
                    yield from pictures_in(entry.path, f"{before}{entry.name}/")
            elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.is_file():
                yield before + entry.name


def class_folders(folder: Path) -> list[str]:
    """Subfolders that stand for a class; hidden ones and folders of runs do not."""
    return [
        sub.name
        for sub in folder.iterdir()
        if sub.is_dir() and not sub.name.startswith(".") and sub.name.lower() not in NO_CLASS
        if not written(sub) and not any(sub.glob("*/recipe.json"))
    ]


def written(folder: Path) -> bool:
    """Is it fewlabel's own, and no part of anybody's pictures?"""
    return any((folder / name).exists() for name in WRITTEN)


def read_labels(path: Path, folder: Path, files: Sequence[str]) -> dict[str, str]:
    """file -> label from a CSV file with that header; an empty label says that nothing is known."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="", skipinitialspace=True)
            reader.fieldnames = header = [name.strip() for name in reader.fieldnames or ()]
            rows = list(reader)
    except OSError as error:
        raise UserError(f"cannot read the label file {path} ({error.strerror}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"the label file {path} is not a CSV file in UTF-8.") from error
    if not rows or "file" not in header or "label" not in header:
        raise UserError(f"the label file {path} needs the header file,label and at least one line below it.")
    known, labels = set(files), dict[str, str]()
    missing = []
    for row in rows:
        name, label = PurePosixPath(row["file"].strip().replace("\\", "/")).as_posix(), row["label"].strip()
        if name not in known:
            missing.append(row["file"])
        elif labels.setdefault(name, label) != label:
            raise UserError(f"the label file {path} gives {name} two labels, '{labels[name]}' and '{label}'.")
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise UserError(f"the label file {path} names {missing[0]}{more}: no such picture in {folder}.")
    return labels


def read_pictures(
    folder: Path,
    files: Sequence[str],
    classes_of: dict[str, str],
    classes: Sequence[str],
    size: int,
    encoder: Encoder | None = None,
    views: int = 0,
) -> Examples:
    """Pixels of that size or, with an encoder, features."""
    if encoder is not None:
        return encode_files(encoder, folder, files, classes, classes_of, views)
    key = cache_key(folder, files, size)
    pixels, rows, skipped = decode_all(folder, files, size, key)
    number = {name: i for i, name in enumerate(classes)} | {"": UNLABELLED}
    names = [files[row] for row in rows]
    labels = torch.tensor([number[classes_of.get(name, "")] for name in names])
    return Images(pixels, labels, tuple(classes), names, skipped, source=key)
