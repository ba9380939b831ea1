"""Columns of a table as numbers: what each one is, and how a row of cells becomes a row of float32."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import UserError
from ..scratch import room
from .records import is_missing

CATEGORIES = 50  # values of a column that have a place of their own; rarer ones share "other"
TOO_MANY = 0.5  # of the rows: a column of more different values tells rows apart, not classes
COUNTED = 20_000  # different values of a column, at most
SHOWN = 40  # letters of a cell in a message
KEPT = 20_000  # numbers of a column from which its median is taken
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"  # the day
    r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?"  # and perhaps the time
)
DATES = 0.8  # of the cells
NUMBERS = 0.8  # of the cells: the others are mistakes, where nearly all differ
ROWS = 10  # minimum number of rows of a table in which a column is taken for the rows' number or name
FIRST = (0, 1)  # number of the first row, in a column that counts the rows
DIFFERENT = 0.95  # of the cells of an ID
ID = re.compile(r"(.*[ _.-])?([iI][dD]|ID)|.*[a-z]I[dD]")  # customer_id, sampleID
LARGEST = 1e30  # what is larger does not fit into float32 together with its square

TITLES = {"number": "Numbers", "category": "Categories", "dropped": "Left out"}  # of the roles of columns


@dataclass(frozen=True)
class Column:
    """How a column is used."""

    name: str
    role: str  # number, category or dropped
    median: float = 0.0  # in place of missing numbers
    missing: bool = False  # does a further number say whether it is missing?
    categories: tuple[str, ...] = ()
    why: str = ""  # it was dropped
    comma: str = ""  # a cell with a decimal comma

    @property
    def width(self) -> int:
        """The number of features it becomes."""
        if self.role == "category":
            return len(self.categories) + 1  # and "other"
        return 1 + self.missing if self.role == "number" else 0

    def describe(self) -> str:
        """The name, and what is special."""
        special = [self.why] if self.why else []
        if self.comma:
            special.append(f"{self.comma} is read as {self.comma.replace(',', '.')}")
        if self.missing:
            special.append(f"missing values become {self.median:g} and are marked")
        if self.role == "category":
            special.append(f"{len(self.categories)} and other")
        return f"{self.name} ({'; '.join(special)})" if special else self.name

    def encode(self, cell: str) -> list[float]:
        """The numbers of one cell."""
        if self.role == "dropped":
            return []
        if self.role == "category":
            places = [0.0] * self.width
            places[self.categories.index(cell) if cell in self.categories else -1] = 1.0
            return places
        value = as_number(cell)
        if value is None:
            if not is_missing(cell):
                raise UserError(
                    f"column '{self.name}' holds numbers, but also '{cell[:SHOWN]}': correct or clear this cell."
                )
            return [self.median] + [1.0] * self.missing
        return [value] + [0.0] * self.missing


@dataclass(frozen=True)
class TableForm:
    """All columns of a table that are learnt from, in the order of the numbers."""

    columns: tuple[Column, ...]

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    @property
    def numbers(self) -> list[int]:
        """The places of numbers among those that the columns become; the others are 0 or 1."""
        starts = itertools.accumulate((column.width for column in self.columns), initial=0)
        return [start for start, column in zip(starts, self.columns, strict=False) if column.role == "number"]

    def describe(self) -> str:
        """A line for all columns of a role."""
        lines = []
        for role, title in TITLES.items():
            if found := [column.describe() for column in self.columns if column.role == role]:
                lines.append(f"{title}: {', '.join(found)}.")
        return "\n".join(lines)

    def encode(self, rows: Iterable[Sequence[str]], count: int) -> NDArray[np.float32]:
        """(count, width) of rows of cells, one for each column."""
        table = room((count, self.width), np.float32)
        for place, cells in enumerate(rows):
            table[place] = [x for column, cell in zip(self.columns, cells, strict=True) for x in column.encode(cell)]
        return table

    def to_list(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_list(cls, columns: list[dict[str, Any]]) -> "TableForm":
        return cls(tuple(Column(**column | {"categories": tuple(column["categories"])}) for column in columns))


class FromCells(nn.Module):
    """The same for an exported model, on one number per used column: NaN is missing, a category is its place."""

    def __init__(self, form: TableForm) -> None:
        super().__init__()
        self.columns = [column for column in form.columns if column.width]

    def forward(self, cells: Tensor) -> Tensor:
        """(N, used columns) to (N, width). A category that is not in the list, or NaN, is "other"."""
        parts = []
        for place, column in enumerate(self.columns):
            cell = cells[:, place : place + 1]
            if column.role == "number":
                missing = torch.isnan(cell)
                parts.append(torch.where(missing, torch.full_like(cell, column.median), cell))
                parts += [missing.to(cell.dtype)] * column.missing
            else:
                hot = (cell == torch.arange(len(column.categories), dtype=cell.dtype)).to(cell.dtype)
                parts += [hot, 1 - hot.sum(1, keepdim=True)]
        return torch.cat(parts, 1)


@dataclass
class Seen:
    """Statistics of the cells of a column, collected row by row."""

    name: str
    category: bool = False  # of any content
    chosen: bool = False  # by the user, so it is no mere count or ID
    rows: int = 0
    missing: int = 0
    dates: int = 0
    others: int = 0  # cells that are not numbers
    other: str = ""  # the first of them
    comma: str = ""  # the first number with a decimal comma
    counts: bool = True  # from 0 or 1, without a gap?
    whole: bool = True  # are all numbers whole?
    last: float | None = None  # the number of the last row
    numbers: list[float] = field(default_factory=list)
    values: Counter[str] = field(default_factory=Counter)

    def add(self, cell: str) -> None:
        self.rows += 1
        if is_missing(cell):
            self.missing += 1
            self.counts = False
            return
        value = as_number(cell)
        before = self.last
        self.counts = self.counts and (value in FIRST if before is None else value == before + 1)
        self.whole = self.whole and (value is None or value.is_integer())
        self.last = value
        if value is None:
            self.other = self.other or cell
            self.others += 1
            self.dates += DATE.fullmatch(cell) is not None
        else:
            self.comma = self.comma or (cell if "," in cell else "")
            if len(self.numbers) < KEPT:
                self.numbers.append(value)
        if len(self.values) < COUNTED or cell in self.values:
            self.values[cell] += 1

    @property
    def there(self) -> int:
        return self.rows - self.missing

    def stands_for_rows(self) -> str:
        """Why the column says nothing but which row it is: a count, or an ID that differs in nearly every row."""
        if self.category or self.chosen or self.there < ROWS:
            return ""
        if self.counts:
            return "it counts the rows"
        looked_at = self.values.total()
        if not ID.fullmatch(self.name) or not self.whole or len(self.values) < DIFFERENT * looked_at:
            return ""
        if looked_at == len(self.values) == self.rows:
            return "different in each row; to name rows by it: --id-column"
        return "different in nearly every row"

    def problem(self) -> tuple[str, str] | None:
        """Why the column cannot be used, and what to do: it holds dates, or its values are nearly unique."""
        if self.category or not self.others or self.stands_for_rows():
            return None
        if self.dates >= DATES * self.there:
            return f"holds dates, such as {self.other}", "turn dates into numbers"
        if len(self.values) <= min(TOO_MANY * self.there, COUNTED - 1):
            return None
        if self.there - self.others >= NUMBERS * self.there:
            more = f" and {self.others - 1} more such cells" if self.others > 1 else ""
            return f"holds numbers, but also '{self.other[:SHOWN]}'{more}", "correct or clear such cells"
        if self.there <= CATEGORIES:
            return None
        many = f"{len(self.values)}{' or more' if len(self.values) == COUNTED else ''}"
        return (
            f"has {many} different values in {self.there} rows, such as '{self.other[:SHOWN]}'",
            "name a column of texts with --text-column",
        )

    def decide(self) -> Column:
        """A number if all cells are numbers, else a category."""
        if not self.there:
            return Column(self.name, "dropped", why="empty")
        if len(self.values) == 1 and not self.missing:
            return Column(self.name, "dropped", why="the same in all rows")
        if why := self.stands_for_rows():
            return Column(self.name, "dropped", why=why)
        if self.category:
            return self.as_category()
        if not self.others:
            return Column(self.name, "number", float(np.median(self.numbers)), self.missing > 0, comma=self.comma)
        return self.as_category()

    def as_category(self) -> Column:
        common = tuple(value for value, _ in self.values.most_common(CATEGORIES))
        return Column(self.name, "category", categories=tuple(sorted(common)))


def find_form(
    header: Sequence[str], rows: Iterable[Sequence[str]], categories: Collection[str] = (), from_python: bool = False
) -> tuple[TableForm, int]:
    """Decide how each column is used, and count the rows.

    `categories` are columns whose numbers are names. A table from Python has the columns that the user chose: counts
    and IDs are left out of files only.
    """
    seen = [Seen(name, name in categories, chosen=from_python) for name in header]
    count = 0
    for cells in rows:
        count += 1
        for column, cell in zip(seen, cells, strict=True):
            column.add(cell)
    problems = {column.name: found for column in seen if (found := column.problem()) is not None}
    if problems:
        told = "; ".join(f"column '{name}' {why}" for name, (why, _) in problems.items())
        leave_out = "drop it" if from_python else f"add --drop '{','.join(problems)}'"
        ways = dict.fromkeys((leave_out, *(way for _, way in problems.values())))
        raise UserError(f"{told}: {', or '.join(ways)}.")
    form = TableForm(tuple(column.decide() for column in seen))
    if count and not form.width:
        left_out = f" {form.describe()}" if form.columns else ""
        raise UserError(f"no column is left to train on.{left_out}")
    return form, count


def as_number(cell: str) -> float | None:
    """A number that fits into float32, also with a decimal comma; None where it is none."""
    if "_" in cell:  # which Python takes for a part of numbers
        return None
    try:
        value = float(cell)
    except ValueError:
        if not re.fullmatch(r"[+-]?\d+,\d+", cell):
            return None
        value = float(cell.replace(",", "."))
    return value if abs(value) <= LARGEST else None
