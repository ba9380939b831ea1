"""Folders of ordinary pictures: which files there are, and which subfolders stand for a class."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..decode import SUFFIXES
from ..errors import UserError
from .records import UNKNOWN_CLASS

NAMES = 20  # that a message lists
UNREADABLE = {".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf"}
WRITTEN = ("recipe.json", "drift.csv")  # in a folder that `fewlabel train` or `fewlabel drift` has made


def scan(folder: Path, notes: list[str] | None = None) -> list[str]:
    """All picture files, as sorted paths relative to the folder.

    `notes` gets messages about subfolders that cannot be opened, and about pictures in formats that are not read.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}.")
    closed, others = list[str](), Counter[str]()
    files = sorted(pictures_in(str(folder), closed=closed, others=others))
    told = []
    if closed:
        told.append(f"Left out because they cannot be opened: {listed(sorted(closed))}.")
    if others:
        counts = ", ".join(f"{count} {suffix}" for suffix, count in sorted(others.items()))
        told.append(f"Formats that fewlabel does not read: {counts}. Convert these files to JPEG to use them.")
    if notes is not None:
        notes += told
    if not files:
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        raise UserError(" ".join([f"{folder} holds no pictures ({kinds}).", *told]))
    return files


def classes_by_folder(files: Sequence[str], class_names: Sequence[str]) -> dict[str, str]:
    """The class of each picture in a class subfolder."""
    classes = {name: name for name in class_names}  # one string for all pictures of a class
    return {name: classes[top] for name in files if "/" in name and (top := name.partition("/")[0]) in classes}


def pictures_in(
    folder: str, before: str = "", closed: list[str] | None = None, others: Counter[str] | None = None
) -> Iterator[str]:
    """Picture files at any depth, as paths from the top; a million of them take seconds.

    Hidden ones are left out, and what fewlabel has written. Links to folders are followed at the top only, and only to
    other places: others may lead round in circles. Subfolders that may not be opened are listed in `closed`, and
    formats that cannot be read are counted in `others`.
    """
    try:
        entries = os.scandir(folder)
    except PermissionError:
        if not before:
            raise
        if closed is not None:
            closed.append(before.rstrip("/"))
        return
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if is_folder(entry, follow=not before):
                if not leads_back(entry.path, folder) and not written(Path(entry.path)):
                    yield from pictures_in(entry.path, f"{before}{entry.name}/", closed, others)
            elif (suffix := os.path.splitext(entry.name)[1].lower()) in SUFFIXES and is_file(entry):
                yield before + entry.name
            elif others is not None and suffix in UNREADABLE:
                others[suffix] += 1


def leads_back(path: str, folder: str) -> bool:
    """Whether it links to a parent or child of this folder, whose pictures would be counted twice."""
    if not os.path.islink(path):
        return False
    there, here = Path(path).resolve(), Path(folder).resolve()
    return there.is_relative_to(here) or here.is_relative_to(there)


def is_folder(entry: os.DirEntry[str], follow: bool) -> bool:
    """False for a link that leads to itself."""
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def is_file(entry: os.DirEntry[str]) -> bool:
    """False for a link that leads nowhere, or to itself."""
    try:
        return entry.is_file()
    except OSError:
        return False


def class_folders(folder: Path) -> list[str]:
    """Subfolders that stand for a class; hidden ones and folders of runs do not."""
    return [
        sub.name
        for sub in folder.iterdir()
        if is_open(sub) and not sub.name.startswith(".") and sub.name.lower() not in UNKNOWN_CLASS
        if not leads_back(str(sub), str(folder)) and not written(sub) and not any(sub.glob("*/recipe.json"))
    ]


def is_open(path: Path) -> bool:
    """Whether it is a readable folder."""
    return path.is_dir() and os.access(path, os.R_OK | os.X_OK)


def written(folder: Path) -> bool:
    """Whether it was written by fewlabel, so it is not one of the user's pictures."""
    return any(os.path.exists(folder / name) for name in WRITTEN)  # False where the folder may not be opened


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(names[:NAMES]) + more
