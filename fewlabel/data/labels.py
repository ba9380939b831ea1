"""Label files as people write them: the class of each picture."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import UserError
from .tables import Row, guess_note, read_table

NO_CLASS = "(none)"  # the label of pictures that are of no class
FILE_COLUMNS = ("file", "filename", "image", "path", "filepath", "imagepath", "picture", "name")
LABEL_COLUMNS = ("label", "class", "category", "target", "classname", "labels")
LabelFiles = str | Path | Sequence[str | Path] | None  # none, one or several
SHOWN = ("text", "row")  # columns of files that fewlabel has written: what the example is
GUESS, CONFIRMED = "guess", "confirmed"  # of files that fewlabel has written, for a person to correct
YES = ("yes", "y", "true", "1", "x", "ok", "✓", "ja", "oui", "si", "sí", "wahr", "vrai")
NO = ("", "no", "n", "false", "0", "nein", "non", "falsch", "faux")


class Columns(NamedTuple):
    """The columns of a label file; None for a missing column."""

    file: int
    label: int
    guess: int | None = None
    confirmed: int | None = None


class Labels(NamedTuple):
    """The contents of label files."""

    classes: dict[str, str]  # of each picture; "" where its label is empty
    sources: dict[str, str]  # the name of the file that gave each picture its label
    notes: list[str]  # messages


def as_paths(labels: LabelFiles) -> list[Path]:
    if labels is None:
        return []
    return [Path(labels)] if isinstance(labels, str | Path) else [Path(path) for path in labels]


def read_labels(paths: Sequence[Path], folder: Path, files: Sequence[str], noun: str = "picture") -> Labels:
    """The labels of pictures of a folder or rows of a file. Of several label files the later wins, where it has one."""
    names, found = Names(folder, files, noun), Labels({}, {}, [])
    for path in paths:
        for name, label in read_label_file(path, names, found.notes).items():
            if label or name not in found.classes:
                found.classes[name] = label
                found.sources[name] = path.name
    return found


def names_meant(paths: Sequence[Path], folder: Path, files: Iterable[str]) -> list[str]:
    """Those of many names that label files may mean, however they write them."""
    names, asked = Names(folder, ()), set[str]()
    for path in paths:
        for row in read_table(path, "label file"):
            for written in row.cells:
                asked |= {same_form(written), *(same_form(tail) for tail, _ in names._tails(written))}
    return [name for name in files if same_form(name) in asked]


def read_label_file(path: Path, names: "Names", notes: list[str], missing_allowed: bool = False) -> dict[str, str]:
    """Picture -> label. Unknown pictures are an error, unless they are allowed: then they are left out."""
    rows = read_table(path, "label file")
    columns, rows = understood(path, rows, names, notes)
    labels, told, missing = dict[str, str](), dict[str, int](), list[str]()
    notes += guess_note([path])
    names.otherwise.clear()
    counted = 0
    for row in rows:
        written, label = cell(row, columns.file), as_label(cell(row, columns.label))
        if not written:
            raise UserError(f"the label file {path} names no {names.noun} in row {row.number}.")
        name = names.find(path, row, written)
        if name is None:
            missing.append(written)
            continue
        if columns.guess is not None and not by_a_person(path, row, columns):
            continue
        if "\n" in label:
            raise UserError(f"the label file {path} has a label of several lines in row {row.number}: is a quote open?")
        counted += bool(label)
        before = labels.get(name)
        if before and label and before != label:
            raise UserError(
                f"the label file {path} gives {name} two labels: '{before}' in row {told[name]} and '{label}' in row "
                f"{row.number}."
            )
        if label or before is None:
            labels[name], told[name] = label, row.number
    if missing and not missing_allowed:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        hint = " (was the row changed, or were other columns dropped?)" if names.noun == "row" else ""
        raise UserError(
            f"the label file {path} names {missing[0]}{more}: no such {names.noun} in {names.folder}{hint}."
        )
    if columns.guess is not None:
        notes.append(f"{path.name}: {counted} of {len(rows)} rows were changed or confirmed by a person and are used.")
    if names.otherwise:
        ways = ", ".join(f"{count} {way}" for way, count in names.otherwise.items())
        notes.append(f"{path.name}: names that differ from those of the pictures were matched: {ways}.")
    return labels


def read_answers(path: Path) -> list[tuple[str, str, str]]:
    """Name, label and guess of each row of a file that fewlabel wrote and a person may have filled in."""
    rows = read_table(path, "file")
    header = [normal(cell) for cell in rows[0].cells] if rows else []
    file, label = (column(path, header, wanted) for wanted in (FILE_COLUMNS, LABEL_COLUMNS))
    if file is None or label is None:
        raise UserError(f"{path} has no columns file and label: is it the right file?")
    guess = column(path, header, (GUESS,))
    return [
        (cell(row, file), as_label(cell(row, label)), "" if guess is None else cell(row, guess)) for row in rows[1:]
    ]


def normal(name: str) -> str:
    """A column name without case, spaces and punctuation."""
    return "".join(c for c in name.casefold() if c.isalnum())


def understood(
    path: Path, rows: list[Row], names: "Names", notes: list[str] | None = None
) -> tuple[Columns, list[Row]]:
    """Which columns are which, and the rows below the header. There may be none if a row begins with a picture."""
    if not rows:
        raise UserError(f"the label file {path} is empty.")
    header = [normal(cell) for cell in rows[0].cells]
    file, label = (column(path, header, wanted) for wanted in (FILE_COLUMNS, LABEL_COLUMNS))
    if file is not None and label is not None:
        if len(rows) == 1:
            raise UserError(f"the label file {path} has a header but no rows below it.")
        for place, wanted in ((file, FILE_COLUMNS), (label, LABEL_COLUMNS)):
            others = [name for i, name in enumerate(header) if i != place and name in wanted]
            if others and notes is not None:
                notes.append(f"{path.name}: of the columns {header[place]} and {', '.join(others)} the first is used.")
        return Columns(file, label, *(column(path, header, (name,)) for name in (GUESS, CONFIRMED))), rows[1:]
    pictures = [i for i, cell in enumerate(rows[0].cells) if names.find(path, rows[0], cell) is not None]
    if pictures and len(rows[0].cells) == 2:
        return Columns(pictures[0], 1 - pictures[0]), rows
    raise UserError(
        f"the label file {path} begins with '{', '.join(rows[0].cells)}': it needs a header with a column for the "
        "picture (such as file) and one for the class (such as label)."
    )


def column(path: Path, header: list[str], wanted: Sequence[str]) -> int | None:
    for name in wanted:
        places = [i for i, cell in enumerate(header) if cell == name]
        if len(places) > 1:
            raise UserError(f"the label file {path} has {len(places)} columns called {name}: keep one.")
        if places:
            return places[0]
    return None


def cell(row: Row, place: int) -> str:
    return row.cells[place] if place < len(row.cells) else ""


def as_label(written: str) -> str:
    return NO_CLASS if written.casefold() == NO_CLASS else written


def by_a_person(path: Path, row: Row, columns: Columns) -> bool:
    """Whether a person changed or confirmed the predicted label."""
    assert columns.guess is not None
    if as_label(cell(row, columns.label)) != cell(row, columns.guess):
        return True
    answer = "" if columns.confirmed is None else cell(row, columns.confirmed).casefold()
    if answer not in YES + NO:
        raise UserError(f"the label file {path} says '{answer}' under confirmed in row {row.number}: write yes or no.")
    return answer in YES


class Names:
    """The pictures of a folder, found by names that may be written otherwise."""

    def __init__(self, folder: Path, files: Sequence[str], noun: str = "picture") -> None:
        self.folder, self.noun, self._files = folder, noun, set(files)
        self._top = folder.resolve().name
        self.otherwise: Counter[str] = Counter()  # how often each other way of writing was met
        self._by_form = dict[Callable[[str], str], dict[str, list[str]]]()  # form -> key -> names

    def find(self, path: Path, row: Row, written: str) -> str | None:
        """The picture that is meant; counts what was not written literally."""
        if written in self._files:
            return written
        for tail, way in self._tails(written):
            for form, how in ((unicode_form, "in another Unicode form"), (same_form, "in another case")):
                found = [tail] if tail in self._files else self._of_form(form, tail)
                if len(found) > 1:
                    raise UserError(
                        f"the label file {path} names {written} in row {row.number}: that may be {found[0]} or "
                        f"{found[1]}."
                    )
                if found:
                    self.otherwise[way or how] += 1
                    return found[0]
        return None

    def _of_form(self, form: Callable[[str], str], written: str) -> list[str]:
        """The pictures whose names have the same form. Tables are made when needed, since there may be millions."""
        if form not in self._by_form:
            others = self._by_form[form] = dict[str, list[str]]()
            for name in sorted(self._files):
                if (key := form(name)) != name:
                    others.setdefault(key, []).append(name)
        key = form(written)
        same = [key] if key in self._files and form(key) == key else []
        return sorted([*same, *self._by_form[form].get(key, [])])

    def _tails(self, written: str) -> Iterable[tuple[str, str]]:
        """The path itself, with plain slashes, and what follows the folder's own name in it."""
        parts = PurePosixPath(written.replace("\\", "/")).parts
        yield "/".join(parts), "with other slashes" if "\\" in written or "./" in written else ""
        for place, part in enumerate(parts):
            if same_form(part) == same_form(self._top) and place + 1 < len(parts):
                yield "/".join(parts[place + 1 :]), "with the folder in front"
                return  # what lies deeper may be another folder of that name


def unicode_form(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def same_form(name: str) -> str:
    """The same for names that differ in case, spaces around words or Unicode form only."""
    if name.isascii():  # the usual one, of which there may be millions
        return " ".join(name.lower().split())
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def refuse_alike(classes: Iterable[str], source: dict[str, str]) -> None:
    """Refuse classes whose names differ only in case, spaces or Unicode form."""
    seen = dict[str, str]()
    for name in sorted(classes):
        other = seen.setdefault(same_form(name), name)
        if other != name:
            raise UserError(
                f"the classes '{other}' ({source[other]}) and '{name}' ({source[name]}) differ only in case, spaces or "
                "Unicode form: give them one name."
            )


def holds_work(path: Path) -> bool:
    """Whether a file holds a person's work or was not written by fewlabel, so it must not be replaced."""
    if not path.exists():
        return False
    try:
        first, *rows = read_table(path, "file")
    except (UserError, ValueError):
        return True
    header = tuple(first.cells)
    if header[:2] == ("file", "label") and header[2:] in ((), *((name,) for name in SHOWN)):  # to be filled in
        return any(len(row.cells) > len(header) or cell(row, 1) for row in rows)
    if header[:4] == ("file", "label", GUESS, CONFIRMED):  # to be corrected
        return any(cell(row, 1) != cell(row, 2) or cell(row, 3) for row in rows)
    return True
