"""The run directory: its files, its lock, and how it is found again."""

import csv
import glob
import hashlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from filelock import FileLock, Timeout

from ..errors import UserError
from ..files import as_written, cannot_write, make_folder, parse_json, write_csv, write_json
from ..run_files import AUDIT, FILES, FIRST_STAGE, LABELS, LOCK, METRICS, RECIPE, REPORT
from .metrics import read_metrics

if TYPE_CHECKING:
    from ..training import Recipe

FORMAT = 2  # of recipe.json; 1 is that of version 0.1
HEADER = ("file", "label")  # of labels.csv


class RunDirectory:
    """A directory that stores a run. To train in it, open it in a `with` block, which locks it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    # ---- what is there

    def facts(self) -> dict[str, Any] | None:
        """The content of recipe.json, or None if there is no run."""
        if not (self / RECIPE).exists():
            return None
        try:
            facts = parse_json((self / RECIPE).read_text(encoding="utf-8"))
            if not {"recipe", "data", "steps"} <= facts.keys() or not isinstance(facts["recipe"].get("data"), str):
                raise ValueError
        except (ValueError, AttributeError, TypeError, OSError) as error:
            raise UserError(f"{self / RECIPE} was not written by a run: choose another --out.") from error
        return facts

    def facts_to_continue(self) -> dict[str, Any]:
        """The content of recipe.json, for a run that this version can resume, repeat or report on."""
        facts = self.facts()
        if facts is None:
            raise UserError(f"{self.path} holds no run: give a run directory.")
        versions, written = facts.get("versions"), facts.get("format", 1)
        version = versions.get("fewlabel", "another version") if isinstance(versions, dict) else "another version"
        if not isinstance(written, int):
            raise self._damaged_recipe()
        if written > FORMAT:
            raise UserError(f"{self.path} was written by fewlabel {version}, a newer version: upgrade fewlabel.")
        if written < FORMAT:
            raise UserError(
                f"{self.path} was written by fewlabel {version}: its model can be used, but to resume, repeat or "
                "report on the run install that version, or train again with `fewlabel train`."
            )
        from .check import check_plan  # slow: it imports torch

        try:
            check_plan(facts)
        except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            raise self._damaged_recipe() from error
        return facts

    def _damaged_recipe(self) -> UserError:
        return UserError(f"{self / RECIPE} is damaged: restore it, or train again with another --out.")

    @property
    def finished(self) -> bool:
        """The report is written last."""
        return (self / REPORT).exists()

    def refuse_occupied(self, *, resume: bool, overwrite: bool) -> None:
        """Check before any work that a run may be written here."""
        if resume and overwrite:
            raise UserError("give --resume or --overwrite, not both.")
        facts = self.facts()
        if facts and not resume and not overwrite:
            raise UserError(
                f"{self.path} already holds a run: continue it with --resume or replace it with --overwrite."
            )
        if facts and resume:
            self.facts_to_continue()
        if facts and overwrite and (self / AUDIT).exists():
            raise UserError(
                f"{self.path} holds an audit, which is never overwritten: choose another --out, or remove "
                f"{self / AUDIT}."
            )
        if not facts and self.path.is_dir():
            there = list(self.path.iterdir())
            begun = (self / LOCK).exists()  # by a run that was killed before it had written its recipe
            if any(not is_ours(entry) for entry in there) or (there and not begun):
                raise UserError(f"{self.path} is not empty and holds no run: choose another --out.")

    # ---- opening it to train

    def lock(self) -> None:
        """Keep others out until the `with` block is left, or the process ends, however it ends."""
        make_folder(self.path)
        if self._lock is not None:
            return
        lock = FileLock(self / LOCK, blocking=False, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout as error:
            raise UserError(
                f"another process is training in {self.path}: wait for it, or choose another --out."
            ) from error
        except PermissionError as error:
            raise cannot_write(self.path, error) from error
        except (OSError, NotImplementedError):
            return  # a disk without locks
        self._lock = lock

    def clear(self) -> None:
        """Delete the files of an earlier run only."""
        try:
            for entry in sorted(self.path.iterdir(), key=lambda entry: entry.name == RECIPE):  # recipe.json last
                if is_ours(entry) and entry.name != LOCK:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError as error:
            raise cannot_write(self.path, error) from error

    # ---- what a run is made of; labels.csv is written before recipe.json, which makes a directory a run

    def write_start(self, facts: dict[str, Any], names: Sequence[str], labels: Sequence[str]) -> None:
        rows = list(zip(names, labels, strict=True))
        write_csv(self / LABELS, HEADER, rows)
        write_json(self / RECIPE, {"format": FORMAT, **facts, "labels_digest": digest_of(rows)})

    def labelled_names(self) -> list[str]:
        """The names of the labelled examples, from the file as the run has written it."""
        try:
            with open(self / LABELS, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
                header, *rows = [tuple(as_written(cell) for cell in row) for row in csv.reader(file)] or [()]
            if header != HEADER or any(len(row) != len(HEADER) for row in rows):
                raise ValueError
        except (OSError, ValueError, csv.Error) as error:
            raise UserError(
                f"{self / LABELS} is missing or damaged, so the labels of the run are not known: restore the file."
            ) from error
        if (self.facts() or {}).get("labels_digest") not in (None, digest_of(rows)):
            raise UserError(
                f"{self / LABELS} was changed, but it records the labels of a run: restore it; to train on other "
                "labels, give your own file with --labels, and another --out."
            )
        return [name for name, _ in rows]

    def history(self, stage: str = "", until: float = float("inf")) -> list[dict[str, Any]]:
        """The whole lines of metrics of a stage, up to a step."""
        return read_metrics(self.path / stage / METRICS, until)

    def finished_history(self) -> list[dict[str, Any]]:
        """The lines of metrics of a run that has ended."""
        lines, facts = self.history(), self.facts()
        cut = facts and lines and lines[-1]["step"] != facts["steps"]
        lost = any("accuracy" in line for line in lines) and "raw_accuracy" not in lines[-1]
        if not lines or cut or lost:
            raise UserError(f"{self / METRICS} is missing or damaged: train again with another --out.")
        return lines


def digest_of(rows: Iterable[tuple[str, ...]]) -> str:
    """A digest of the rows of labels.csv, to detect changes."""
    return hashlib.sha256(repr([*rows]).encode("utf-8", "surrogateescape")).hexdigest()


def is_ours(entry: Path) -> bool:
    """Whether a run wrote this file. Other files in its directory are never touched."""
    return entry.name in FILES or (entry.name.startswith(".") and entry.name.endswith(".partial"))


def choose_directory(recipe: "Recipe", *, resume: bool, overwrite: bool) -> Path:
    """The directory that `out` names, or runs/DATA-METHOD-SEED with the next free number.

    A run of the same recipe in such a directory is resumed, the newest unfinished one first, or overwritten; and one
    that is not finished is not left behind silently.
    """
    if recipe.out:
        return recipe.directory
    there = numbered_directories(recipe.directory)
    same = [path for path in there.values() if is_of(recipe, RunDirectory(path))]
    unfinished = [path for path in same if not RunDirectory(path).finished]
    if resume and same:
        return (unfinished or same)[-1]
    if overwrite and same:
        return same[-1]
    if unfinished:
        return unfinished[-1]
    number = max(there, default=0) + 1
    return recipe.directory if number == 1 else recipe.directory.with_name(f"{recipe.directory.name}-{number}")


def numbered_directories(first: Path) -> dict[int, Path]:
    """runs/x, runs/x-2, runs/x-3, ... as far as they exist, by number."""
    found = {1: first} if first.exists() else {}
    for path in first.parent.glob(f"{glob.escape(first.name)}-*"):
        number = path.name.removeprefix(f"{first.name}-")
        if number.isdecimal() and int(number) > 1:
            found[int(number)] = path
    return dict(sorted(found.items()))


def is_of(recipe: "Recipe", run: RunDirectory) -> bool:
    """Whether a directory holds a run of that recipe. Settings that the recipe leaves open may differ."""
    try:
        facts = run.facts()
    except UserError:
        return False
    if facts is None or facts.get("format", 1) != FORMAT:
        return False
    saved = facts["recipe"]
    changed = set(recipe.differences(saved)) - {"settings"}
    known = saved["settings"]
    if first := facts.get("first"):
        known = {f"{FIRST_STAGE}.{name}": value for name, value in first["recipe"]["settings"].items()} | known
        known = first["recipe"]["settings"] | known
    return not changed and recipe.settings.items() <= known.items()
