"""The labels of pictures, texts or rows, on disk: every change is in the file before the page hears of it.

The label file is the truth. It is read again whenever another program has changed it, and a change is made to what it
says then, so nobody's labels are overwritten. Other columns, the separator and the order of the rows stay as they are.
Beside it lies a history, one line per change, by which changes are undone, also after a restart.
"""

import json
import os
import shutil
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from ..data.labels import NO_CLASS, Names, same_form
from ..errors import UserError
from ..files import not_saved, write_csv
from .sheet import HEADER, Sheet, read_sheet

LONGEST = 100  # letters of a class name
UNREAD = (-1, -1, -1)
LABEL, SKIP, CLASSES, UNDO = "label", "skip", "classes", "undo"  # kinds of events


@dataclass(frozen=True)
class Event:
    """One change: which labels were and are, which classes were and are."""

    what: str
    changes: list[list[str]] = field(default_factory=list)  # picture, label before, label after
    before: list[str] | None = None  # the classes
    after: list[str] | None = None
    number: int = -1  # of the event that is undone
    renamed: list[str] | None = None  # a class: its old name, its new name


class LabelBook:
    """The label file of a folder, the classes, and the history."""

    def __init__(self, path: Path, folder: Path, files: Sequence[str], noun: str = "pictures") -> None:
        if path.suffix.lower() != ".csv":
            raise UserError(f"the studio writes labels as CSV: save {path.name} as a .csv file and give that.")
        self.path, self.history = path, path.with_name(f"{path.stem}-history.jsonl")
        self._names, self._files = Names(folder, files, noun), set(files)
        self._lock = threading.RLock()
        self._between = FileLock(path.with_name(f".{path.name}.lock"))  # between processes
        self._sheet, self._seen = Sheet(), UNREAD
        self.note = ""  # a message about the file
        self._events: list[Event] = []
        self._standing: list[tuple[int, Event]] = []  # those that were not undone, and their numbers
        self._events_read = 0  # bytes of the history
        with self.alone():
            pass

    # ---- what is there

    @property
    def labels(self) -> dict[str, str]:
        """Picture -> class, for labelled pictures."""
        with self.alone():
            return dict(self._sheet.labels)

    @property
    def classes(self) -> list[str]:
        """The classes in order of creation, so that their keys stay the same."""
        with self.alone():
            return self._classes()

    @property
    def skipped(self) -> list[str]:
        """Pictures that were put off and have no label yet, in that order."""
        with self.alone():
            names = [event.changes[0][0] for _, event in self._standing if event.what == SKIP]
            last_first = dict.fromkeys(reversed(names))
            return [name for name in reversed(last_first) if name not in self._sheet.labels and name in self._files]

    def renamed(self, name: str) -> str:
        """The current name of a class."""
        for _, event in self._standing:
            if event.renamed is not None and event.renamed[0] == name:
                name = event.renamed[1]
        return name

    # ---- changes

    def begin(self, labels: Mapping[str, str]) -> None:
        """Start with labels that came with the examples; nothing is written if there are none."""
        by_class: dict[str, list[str]] = {}
        for name, label in labels.items():
            by_class.setdefault(label, []).append(name)
        for label in sorted(by_class):
            self.label(by_class[label], label)

    def label(self, names: Sequence[str], label: str, before: str | None = None) -> None:
        """Give pictures a class, a new one as well, or none with an empty label.

        `before` is the label that the page showed: if it was changed elsewhere, that label stays.
        """
        with self.alone():
            classes = self._classes()
            for name in names if before is not None else ():
                if (there := self._sheet.labels.get(name, "")) != before:
                    raise UserError(f"{name} has been changed elsewhere: its label is now '{there}'.")
            if label and label != NO_CLASS:
                label = self._checked(label, classes)
            after = classes if label in ("", NO_CLASS, *classes) else [*classes, label]
            changes = [[name, self._sheet.labels.get(name, ""), label] for name in names]
            changes = [change for change in changes if change[1] != change[2]]
            if changes:
                self._do(Event(LABEL, changes, classes, after))

    def skip(self, name: str) -> None:
        with self.alone():
            self._do(Event(SKIP, [[name, "", ""]]))

    def add_class(self, name: str) -> None:
        with self.alone():
            classes = self._classes()
            name = self._checked(name, classes)
            if name in classes:
                raise UserError(f"the class '{name}' already exists.")
            self._do(Event(CLASSES, [], classes, [*classes, name]))

    def rename_class(self, old: str, new: str) -> None:
        """Under the name of another class the two are merged."""
        with self.alone():
            classes = self._classes()
            if old not in classes:
                raise UserError(f"there is no class '{old}'.")
            new = self._checked(new, [name for name in classes if name != old])
            changes = [[name, old, new] for name, label in self._sheet.labels.items() if label == old]
            after = [new if name == old else name for name in classes if name != new]
            if after != classes:
                self._do(Event(CLASSES, changes, classes, after, renamed=[old, new]))

    def undo(self) -> Event | None:
        """Undo the last change, except what was changed elsewhere since. None if nothing is left."""
        with self.alone():
            standing = self._standing
            if not standing:
                return None
            number, last = standing[-1]
            now = self._sheet.labels
            changes = [
                [name, after, before]
                for name, before, after in last.changes
                if before != after and now.get(name, "") == after and name in self._files
            ]
            self._do(Event(UNDO, changes, last.after, last.before, number))
            return last

    def copy(self, path: Path, without: Collection[str] = ()) -> None:
        """The labels as they are now, in a file of their own."""
        write_csv(path, HEADER, [one for one in sorted(self.labels.items()) if one[0] not in without])

    # ---- how

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other thread or process changes the file; what it says by then is read first.

        Within such a block another one costs nothing.
        """
        try:
            with self._lock:
                held = self._between.is_locked
                with nullcontext() if held else self._between:
                    if not held:
                        self._refresh()
                    yield
        except OSError as error:
            raise not_saved(self.path, error) from error

    def _do(self, event: Event) -> None:
        """The history first, which can be cut again: a change that could not be saved has not been made."""
        facts = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **asdict(event)}
        end = self.history.stat().st_size if self.history.exists() else 0
        try:
            with open(self.history, "ab") as file:
                if self._events_read != end:  # half a line, of a writer that was killed
                    file.write(b"\n")
                file.write(f"{json.dumps(facts)}\n".encode())
                file.flush()
                os.fsync(file.fileno())
            if event.what != SKIP and event.changes:
                for name, _, label in event.changes:
                    self._sheet.set(name, label)
                self._write()
        except BaseException:
            self._seen = UNREAD  # what is on disk counts
            with suppress(OSError):
                os.truncate(self.history, end)
            raise
        self._read_history()

    def _write(self) -> None:
        self._keep_original()
        self._sheet.write(self.path)
        self._seen = signature(self.path)

    def _keep_original(self) -> None:
        """A copy of a file that was there before the studio first changed it."""
        copy = self.path.with_name(f"{self.path.stem}-before-studio.csv")
        changed_before = any(event.changes for event in self._events if event.what != SKIP)
        if self.path.exists() and not changed_before and not copy.exists():
            shutil.copy2(self.path, copy)

    def _refresh(self) -> None:
        """Read what another program has changed.

        It may have saved what it had read before the last labels were given here: those are put back.
        """
        self._read_history()
        now = signature(self.path)
        if now == self._seen:
            return
        before, first = self._sheet.labels, self._seen == UNREAD
        self._sheet, self._seen = read_sheet(self.path, self._names), now
        missing = self._sheet.missing
        where = f"{self._names.noun} that are not in {self._names.folder.name}"
        self.note = f"{self.path.name} names {missing} {where}." if missing else ""
        given = {name: label for _, event in self._standing for name, _, label in event.changes}
        there = self._sheet.labels
        lost = {name: label for name, label in before.items() if given.get(name) and name not in there and not first}
        if lost:
            for name, label in lost.items():
                self._sheet.set(name, label)
            self._write()
            self.note = f"Another program has saved {self.path.name} without {len(lost)} labels: they were restored."

    def _read_history(self) -> None:
        """Lines that are new; half a line, of a process that was killed, is left out."""
        size = self.history.stat().st_size if self.history.exists() else 0
        if size < self._events_read:  # it was removed
            self._events, self._standing, self._events_read = [], [], 0
        if size == self._events_read:
            return
        with open(self.history, "rb") as file:
            file.seek(self._events_read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._events_read += len(whole)
        self._events += [event for line in whole.splitlines() if (event := as_event(line)) is not None]
        undone = {event.number for event in self._events if event.what == UNDO}
        self._standing = [(i, one) for i, one in enumerate(self._events) if one.what != UNDO and i not in undone]

    def _classes(self) -> list[str]:
        known = next((event.after for event in reversed(self._events) if event.after is not None), [])
        found = dict.fromkeys(known or [])
        return [*found, *sorted({*self._sheet.labels.values()} - {*found, NO_CLASS})]

    def _checked(self, name: str, classes: Sequence[str]) -> str:
        """A name that a class can have; that of a class which differs only in case or spaces is meant."""
        name = " ".join(name.split())
        if not name or name.startswith("(") or not name.isprintable():
            raise UserError("a class needs a name that does not begin with a bracket.")
        if len(name) > LONGEST:
            raise UserError(f"the name of a class has at most {LONGEST} characters.")
        return next((one for one in classes if same_form(one) == same_form(name)), name)


def signature(path: Path) -> tuple[int, int, int]:
    """Changes when the file does."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def as_event(line: bytes) -> Event | None:
    """The event of a line of the history; None if the line is damaged."""
    try:
        facts: dict[str, Any] = json.loads(line)
        changes = [[str(name), str(before), str(after)] for name, before, after in facts["changes"]]
        what, number, renamed = str(facts["what"]), int(facts["number"]), facts.get("renamed")
        return Event(what, changes, facts["before"], facts["after"], number, renamed)
    except (ValueError, LookupError, TypeError):
        return None
