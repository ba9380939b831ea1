"""Files of rows (.csv, .tsv, .jsonl, .parquet, a folder of .txt): texts or rows of a table, perhaps with labels."""

import hashlib
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from .labels import as_label
from .records import FILE, FOLDER, SUFFIXES, TEXT, Records, is_text_folder, open_records, row_name

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
        """Names, labels and previews of all rows, in one pass."""
        names, labels, shown, digest = list[str](), list[str](), Previews(longest), hashlib.sha256()
        label = None if self.roles.label is None else self.records.column(self.roles.label)
        key = None if self.roles.id is None else self.records.column(self.roles.id)
        seen = set[str]()
        for number, cells in enumerate(self.records, 1):
            mine = self._mine(cells)
            name = row_name(number, mine) if key is None else cells[key]
            if key is not None:
                if not name or name in seen:
                    why = f"has the same as row {names.index(name) + 1}" if name else "has none"
                    raise UserError(f"--id-column {self.roles.id} must identify every row, but row {number} {why}.")
                seen.add(name)
            names.append(name)
            labels.append("" if label is None else as_label(cells[label]))
            shown.add(self.describe(mine))
            digest.update("\x1f".join((name, *mine)).encode("utf-8", "surrogatepass") + b"\n")
        if not names:
            raise UserError(f"{self.path} has a header but no rows below it.")
        return Listing(names, labels, shown, digest.hexdigest())

    def describe(self, cells: Sequence[str]) -> str:
        """One row as text."""
        if self.roles.text is not None:
            return cells[0]
        return ", ".join(f"{name} {cell}" for name, cell in zip(self.columns, cells, strict=True) if cell)


class Listing(NamedTuple):
    names: list[str]
    labels: list[str]  # as written; "" where there is none
    shown: "Previews"
    digest: str  # of names and content


@dataclass
class Previews:
    """The beginning of each row, to be shown to people: on disk, since there may be millions."""

    longest: int = SHOWN  # letters
    ends: "array[int]" = field(default_factory=lambda: array("Q"))

    def __post_init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # for as long as the examples live
        weakref.finalize(self, self._file.close)

    def add(self, text: str) -> None:
        cut = text if len(text) <= self.longest else f"{text[: self.longest]}…"
        content = cut.encode("utf-8", "surrogatepass")
        self._file.write(content)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(content))

    def show(self, position: int) -> str:
        first = self.ends[position - 1] if position else 0
        self._file.seek(first)
        return self._file.read(self.ends[position] - first).decode("utf-8", "replace")

    def at(self, positions: Sequence[int]) -> "Chosen":
        return Chosen(self, positions)


@dataclass(frozen=True)
class Chosen:
    """Previews of some of the rows."""

    previews: Previews
    positions: Sequence[int]

    def show(self, position: int) -> str:
        return self.previews.show(self.positions[position])
