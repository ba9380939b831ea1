"""Files of rows (.csv, .tsv, .jsonl, .parquet, a folder of .txt): texts or rows of a table, perhaps with labels."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..scratch import Growing, Strings, first_repeated, slices
from .labels import as_label
from .records import FILE, FOLDER, SUFFIXES, TEXT, Records, is_text_folder, open_records, row_name

PART = 1 << 14  # rows whose labels are counted or moved at a time
SHOWN = 400  # letters of a row that people are shown


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of a file."""

    text: str | None = None  # what is learnt from; without it, all columns that have no other role
    label: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()

    @classmethod
    def of(cls, text_column: str | None, label_column: str | None, id_column: str | None, drop: str) -> "Roles":
        """Roles from the fields of a recipe; `drop` are names separated by commas."""
        return cls(
            text_column, label_column, id_column, tuple(name.strip() for name in drop.split(",") if name.strip())
        )

    def as_settings(self) -> dict[str, Any]:
        """As a recipe has them."""
        drop = ",".join(self.drop)
        return {"text_column": self.text, "label_column": self.label, "id_column": self.id, "drop": drop}

    def inputs(self, records: Records) -> list[str]:
        """The columns that are learnt from. One without a name is not: it may be the number of the row."""
        given = [name for name in (self.text, self.label, self.id, *self.drop) if name is not None]
        for name in given:
            records.column(name)
            if given.count(name) > 1:
                raise UserError(
                    f"column '{name}' is named twice: --text-column, --label-column, --id-column and --drop must name "
                    "different columns."
                )
        if self.text is not None:
            return [self.text]
        return [name for name in records.header if name and name not in given]


def is_row_file(data: str | Path) -> bool:
    """Whether `load` reads it as a file of rows or a folder of texts."""
    path = Path(data)
    return is_text_folder(path) if path.is_dir() else path.suffix.lower() in SUFFIXES


def folder_roles(data: str | Path, subfolders: bool) -> Roles | None:
    """The columns of a folder of .txt files; None of anything else."""
    return Roles(TEXT, FOLDER if subfolders else None, FILE) if is_text_folder(Path(data)) else None


class RowFile:
    """A file of which some columns are learnt from. Rows are read anew each time, and never all at once."""

    def __init__(self, path: Path, roles: Roles, columns: Sequence[str] = (), unused: Sequence[str] = ()) -> None:
        """All columns that have no other role, or those `columns` that a model was trained on.

        Of these it does not use some: they may be missing, and their cells are empty then.
        """
        self.path, self.roles, self.records = path, roles, open_records(path)
        self.columns = list(columns) or roles.inputs(self.records)
        if not self.columns:
            raise UserError(f"{path} has no column to train on.")
        missing = set(unused) - set(self.records.header)
        self._places = [None if name in missing else self.records.column(name) for name in self.columns]

    def inputs(self) -> Iterator[list[str]]:
        """The input cells of each row."""
        return (self._mine(cells) for cells in self.records)

    def _mine(self, cells: Sequence[str]) -> list[str]:
        return ["" if place is None else cells[place] for place in self._places]

    def listing(self, longest: int = SHOWN) -> "Listing":
        """Names, labels and previews of all rows, in one pass. What grows with the rows lies in temporary files."""
        names, shown, digest = Strings(), Previews(longest), hashlib.sha256()
        numbers, values, hashes = Growing(np.int32), {"": 0}, Growing(np.uint64)
        label = None if self.roles.label is None else self.records.column(self.roles.label)
        key = None if self.roles.id is None else self.records.column(self.roles.id)
        for number, cells in enumerate(self.records, 1):
            mine = self._mine(cells)
            name = row_name(number, mine) if key is None else cells[key]
            if key is not None:
                if not name:
                    self._refuse_repeated(names, hashes.array())
                    raise self._no_id(number, "has none")
                hashes.append(hash_of(name))
            names.append(name)
            numbers.append(values.setdefault("" if label is None else as_label(cells[label]), len(values)))
            shown.add(self.describe(mine))
            digest.update("\x1f".join((name, *mine)).encode("utf-8", "surrogatepass") + b"\n")
        if not names:
            raise UserError(f"{self.path} has a header but no rows below it.")
        self._refuse_repeated(names, hashes.array())
        for strings in (names, shown.texts):
            strings.flush()  # before several threads read them
        return Listing(names, RowLabels(numbers.array(), list(values)), shown, digest.hexdigest())

    def _refuse_repeated(self, names: Strings, hashes: NDArray[np.uint64]) -> None:
        """Names of an id column must differ."""
        if (found := first_repeated(names, hashes)) is not None:
            raise self._no_id(found[0] + 1, f"has the same as row {found[1] + 1}")

    def _no_id(self, row: int, why: str) -> UserError:
        return UserError(f"--id-column {self.roles.id} must identify every row, but row {row} {why}.")

    def describe(self, cells: Sequence[str]) -> str:
        """One row as text."""
        if self.roles.text is not None:
            return cells[0]
        return ", ".join(f"{name} {cell}" for name, cell in zip(self.columns, cells, strict=True) if cell)


def hash_of(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass
class RowLabels:
    """The label of each row, as a number in the list of those that there are; "", the first one, is none."""

    numbers: NDArray[np.int32]
    values: list[str]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[str]:
        return (self.values[number] for number in self.numbers)

    def __getitem__(self, row: int) -> str:
        return self.values[self.numbers[row]]

    def set(self, row: int, label: str) -> None:
        if label not in self.values:
            self.values.append(label)
        self.numbers[row] = self.values.index(label)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each label, "" included."""
        found = np.zeros(len(self.values), np.int64)
        for part in slices(len(self), PART):
            found += np.bincount(self.numbers[part], minlength=len(self.values))
        return dict(zip(self.values, found.tolist(), strict=True))

    def rows_without(self, *labels: str) -> NDArray[np.int64] | None:
        """The rows with another label than these; None if that is all of them."""
        kept = np.array([value not in labels for value in self.values])
        if not any(count for label, count in self.counts.items() if label in labels):
            return None
        parts = [part.start + np.flatnonzero(kept[self.numbers[part]]) for part in slices(len(self), PART)]
        return np.concatenate(parts)


class Listing(NamedTuple):
    names: Strings
    labels: RowLabels  # as written
    shown: "Previews"
    digest: str  # of names and content


class Previews:
    """The beginning of each row, to be shown to people: on disk, since there may be millions."""

    def __init__(self, longest: int = SHOWN) -> None:
        self.longest = longest  # letters
        self.texts = Strings()

    def add(self, text: str) -> None:
        self.texts.append(text if len(text) <= self.longest else f"{text[: self.longest]}…")

    def show(self, position: int) -> str:
        return self.texts[position].encode("utf-8", "surrogatepass").decode("utf-8", "replace")

    def at(self, positions: Sequence[int] | NDArray[np.int64]) -> "ChosenPreviews":
        return ChosenPreviews(self, positions)


@dataclass(frozen=True)
class ChosenPreviews:
    """Previews of some of the rows."""

    previews: Previews
    positions: Sequence[int] | NDArray[np.int64]

    def show(self, position: int) -> str:
        return self.previews.show(int(self.positions[position]))
