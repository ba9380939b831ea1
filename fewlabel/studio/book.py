"""The labels of a folder of pictures, on disk: every change is in the file before the page hears of it.

The label file is the truth. It is read again whenever another program has changed it, and a change is made to what it
says then, so nobody's labels are overwritten. Other columns, the separator and the order of the rows stay as they are.
Beside it lies a history, one line per change, by which changes are undone, also after a restart.
"""

import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from ..data.labels import NO_CLASS, Columns, Names, read_label_file, same_form, understood
from ..data.tables import read_table, separator_in
from ..errors import UserError
from ..files import not_saved, write_csv

HEADER = ["file", "label"]
LONGEST = 100  # letters of a class name
LABEL, SKIP, CLASSES, UNDO = "label", "skip", "classes", "undo"  # kinds of events


@dataclass
class Sheet:
    """A label file as it lies on disk."""

    header: list[str] | None  # None where the file begins with a picture
    columns: Columns
    rows: list[list[str]]
    separator: str
    places: dict[str, int] = field(default_factory=dict)  # picture -> row
    labels: dict[str, str] = field(default_factory=dict)  # picture -> class, without empty ones

    def set(self, name: str, label: str) -> None:
        """An empty label takes the label away."""
        if name not in self.places:
            self.places[name] = len(self.rows)
            self.rows.append([""] * (1 + max(value for value in self.columns if value is not None)))
            self.rows[-1][self.columns.file] = name
        row = self.rows[self.places[name]]
        row += [""] * (1 + max(value for value in self.columns if value is not None) - len(row))
        row[self.columns.label] = label
        if self.columns.guess is not None and self.columns.confirmed is not None:
            row[self.columns.confirmed] = "yes" if label else ""
        if label:
            self.labels[name] = label
        else:
            self.labels.pop(name, None)


@dataclass(frozen=True)
class Event:
    """One change: which labels were and are, which classes were and are."""

    what: str
    changes: list[list[str]] = field(default_factory=list)  # picture, label before, label after
    before: list[str] | None = None  # the classes
    after: list[str] | None = None
    number: int = -1  # of the event that is undone


class LabelBook:
    """The label file of a folder, the classes, and the history."""

    def __init__(self, path: Path, folder: Path, files: Sequence[str]) -> None:
        if path.suffix.lower() != ".csv":
            raise UserError(f"the studio writes labels as CSV: save {path.name} as a .csv file and give that.")
        self.path, self.history = path, path.with_name(f"{path.stem}-history.jsonl")
        self._names = Names(folder, files)
        self._lock = threading.RLock()
        self._between = FileLock(path.with_name(f".{path.name}.lock"))  # between processes
        self._sheet, self._seen = Sheet(HEADER, Columns(0, 1), [], ","), (0, 0, 0)
        self._events: list[Event] = []
        self._events_read = 0  # bytes of the history
        with self._alone():
            pass

    # ---- what is there

    @property
    def labels(self) -> dict[str, str]:
        """Picture -> class, of those that have one."""
        with self._lock:
            self._refresh()
            return dict(self._sheet.labels)

    @property
    def classes(self) -> list[str]:
        """In the order in which they came: their keys stay the same."""
        with self._lock:
            self._refresh()
            return self._classes()

    @property
    def skipped(self) -> list[str]:
        """Pictures that were put off and have no label yet, in that order."""
        with self._lock:
            self._refresh()
            names = dict.fromkeys(event.changes[0][0] for _, event in self._standing() if event.what == SKIP)
            return [name for name in names if name not in self._sheet.labels]

    # ---- changes

    def label(self, names: Sequence[str], label: str) -> None:
        """Give pictures a class, a new one as well, or none with an empty label."""
        with self._alone():
            classes = self._classes()
            if label and label != NO_CLASS:
                label = self._checked(label, classes)
            after = classes if label in ("", NO_CLASS, *classes) else [*classes, label]
            changes = [[name, self._sheet.labels.get(name, ""), label] for name in names]
            changes = [change for change in changes if change[1] != change[2]]
            if changes:
                self._do(Event(LABEL, changes, classes, after))

    def skip(self, name: str) -> None:
        with self._alone():
            self._do(Event(SKIP, [[name, "", ""]]))

    def add_class(self, name: str) -> None:
        with self._alone():
            classes = self._classes()
            name = self._checked(name, classes)
            if name in classes:
                raise UserError(f"there is a class '{name}' already.")
            self._do(Event(CLASSES, [], classes, [*classes, name]))

    def rename_class(self, old: str, new: str) -> None:
        """Under the name of another class the two are merged."""
        with self._alone():
            classes = self._classes()
            if old not in classes:
                raise UserError(f"there is no class '{old}'.")
            new = self._checked(new, [name for name in classes if name != old])
            changes = [[name, old, new] for name, label in self._sheet.labels.items() if label == old]
            after = [new if name == old else name for name in classes if name != new]
            if after != classes:
                self._do(Event(CLASSES, changes, classes, after))

    def undo(self) -> Event | None:
        """Take the last change back; what somebody else has changed since stays. None where there is nothing left."""
        with self._alone():
            standing = self._standing()
            if not standing:
                return None
            number, last = standing[-1]
            changes = [[name, after, before] for name, before, after in last.changes]
            changes = [change for change in changes if self._sheet.labels.get(change[0], "") == change[1]]
            self._do(Event(UNDO, changes, last.after, last.before, number))
            return last

    def copy(self, path: Path) -> None:
        """The labels as they are now, in a file of their own."""
        write_csv(path, HEADER, sorted(self.labels.items()))

    # ---- how

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other thread or process changes the file; what it says by then is read first."""
        try:
            with self._lock, self._between:
                self._refresh()
                yield
        except OSError as error:
            raise not_saved(self.path, error) from error

    def _do(self, event: Event) -> None:
        """The history first: if we are killed in between, the change has not been made and nothing is lost."""
        facts = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **asdict(event)}
        with open(self.history, "ab") as file:
            if self._events_read != file.tell():  # half a line, of a writer that was killed
                file.write(b"\n")
            file.write(f"{json.dumps(facts)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        for name, _, label in event.changes:
            if event.what != SKIP:
                self._sheet.set(name, label)
        if event.what != SKIP and event.changes:
            self._write()
        self._read_history()

    def _write(self) -> None:
        sheet = self._sheet
        header, rows = (sheet.header, sheet.rows) if sheet.header else (sheet.rows[0], sheet.rows[1:])
        self._keep_original()
        write_csv(self.path, header, rows, sheet.separator)
        self._seen = signature(self.path)

    def _keep_original(self) -> None:
        """A copy of a file that was there before the studio first changed it."""
        copy = self.path.with_name(f"{self.path.stem}-before-studio.csv")
        if self.path.exists() and self._first_change() and not copy.exists():
            shutil.copy2(self.path, copy)

    def _first_change(self) -> bool:
        return not any(event.changes for event in self._events if event.what != SKIP)

    def _refresh(self) -> None:
        """Read what another program has changed."""
        self._read_history()
        now = signature(self.path)
        if now != self._seen:
            self._sheet = read_sheet(self.path, self._names)
            self._seen = now

    def _read_history(self) -> None:
        """Lines that are new; half a line, of a process that was killed, is left out."""
        if not self.history.exists():
            return
        with open(self.history, "rb") as file:
            file.seek(self._events_read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._events_read += len(whole)
        for line in whole.splitlines():
            event = as_event(line)
            if event is not None:
                self._events.append(event)

    def _standing(self) -> list[tuple[int, Event]]:
        """Events that were not undone, and their numbers."""
        undone = {event.number for event in self._events if event.what == UNDO}
        return [(i, event) for i, event in enumerate(self._events) if event.what != UNDO and i not in undone]

    def _classes(self) -> list[str]:
        known = next((event.after for event in reversed(self._events) if event.after is not None), [])
        found = dict.fromkeys(known or [])
        return [*found, *sorted({*self._sheet.labels.values()} - {*found, NO_CLASS})]

    def _checked(self, name: str, classes: Sequence[str]) -> str:
        """A name that a class can have; that of a class which differs only in case or spaces is meant."""
        name = " ".join(name.split())
        if not name or name.startswith("(") or not name.isprintable():
            raise UserError("a class needs a name, which does not begin with a bracket.")
        if len(name) > LONGEST:
            raise UserError(f"the name of a class has at most {LONGEST} letters.")
        return next((one for one in classes if same_form(one) == same_form(name)), name)


def signature(path: Path) -> tuple[int, int, int]:
    """Changes when the file does."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_sheet(path: Path, names: Names) -> Sheet:
    if not path.exists():
        return Sheet(list(HEADER), Columns(0, 1), [], ",")
    rows = read_table(path, "label file")
    if not rows or (len(rows) == 1 and [cell.casefold() for cell in rows[0].cells[:2]] == HEADER):
        return Sheet(rows[0].cells if rows else list(HEADER), Columns(0, 1), [], ",")
    columns, below = understood(path, rows, names)
    labels = {name: label for name, label in read_label_file(path, names, []).items() if label}
    header = None if len(below) == len(rows) else rows[0].cells
    sheet = Sheet(header, columns, [row.cells for row in below], separator_in(path), labels=labels)
    for position, row in enumerate(below):
        name = names.find(path, row, row.cells[columns.file])
        assert name is not None  # else the file has been refused
        sheet.places[name] = position
    return sheet


def as_event(line: bytes) -> Event | None:
    """None for a line that is damaged."""
    try:
        facts: dict[str, Any] = json.loads(line)
        changes = [[str(name), str(before), str(after)] for name, before, after in facts["changes"]]
        return Event(str(facts["what"]), changes, facts["before"], facts["after"], int(facts["number"]))
    except (ValueError, LookupError, TypeError):
        return None
