"""Copy pictures into one folder per predicted class."""

import filecmp
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .errors import UserError
from .files import make_folder
from .predictions import Predictions
from .terminal import with_progress

REVIEW = "review"  # where unsure ones go


def sort_pictures(source: Path, destination: Path, sure: Predictions, unsure: Predictions, link: bool) -> Counter[str]:
    """Copy (or link) the pictures of a folder; returns how many each folder got. Nothing is moved or overwritten."""
    refuse_inside(source, destination)
    top = source if source.is_dir() else source.parent
    folders = folder_names(sure.classes)
    work = [(name, folders[label]) for name, label in zip(sure.names, sure.labels, strict=True)]
    work += [(name, REVIEW) for name in unsure.names]
    done: Counter[str] = Counter()
    for name, folder in with_progress(work, len(work), f"Sorting into {destination}"):
        place(top / name, destination / folder / name, link)
        done[folder] += 1
    return done


def refuse_inside(source: Path, destination: Path) -> None:
    if source.is_dir() and destination.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{destination} is inside {source}: choose a folder outside of it.")


def elsewhere(destination: Path, sure: Predictions, unsure: Predictions) -> int:
    """How many pictures lie in the folder of another class too, from an earlier sorting: nothing is ever removed."""
    folders = folder_names(sure.classes)
    wanted = {name: folders[label] for name, label in zip(sure.names, sure.labels, strict=True)}
    wanted |= dict.fromkeys(unsure.names, REVIEW)
    others = {*folders.values(), REVIEW}
    return sum(
        any((destination / other / name).exists() for other in others if other != folder)
        for name, folder in wanted.items()
    )


def folder_names(classes: Iterable[str]) -> dict[str, str]:
    """Class -> a folder that every system can have; no two classes share one."""
    found: dict[str, str] = {}
    taken = {REVIEW}
    for name in classes:
        safe = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).strip(" .") or "_"
        candidate, number = safe, 2
        while candidate.casefold() in taken:
            candidate, number = f"{safe}-{number}", number + 1
        taken.add(candidate.casefold())
        found[name] = candidate
    return found


def place(picture: Path, target: Path, link: bool) -> None:
    """A copy that is there already stays; another file of that name stays too, and ours gets a number."""
    make_folder(target.parent)
    stem, number = target.stem, 2
    while os.path.lexists(target):
        if target.exists() and filecmp.cmp(picture, target, shallow=False):
            return
        target = target.with_name(f"{stem}-{number}{target.suffix}")
        number += 1
    try:
        if link:
            target.symlink_to(os.path.abspath(picture))
        else:
            shutil.copy2(picture, target)
    except OSError as error:
        if not isinstance(error, FileExistsError):  # of another program
            target.unlink(missing_ok=True)
        raise UserError(f"cannot write {target} ({error.strerror}).") from error
