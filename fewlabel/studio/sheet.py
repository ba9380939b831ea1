"""A label file on disk, with all its columns and rows; only labels are changed."""

from dataclasses import dataclass, field
from pathlib import Path

from ..data.labels import Columns, Names, read_label_file, understood
from ..data.tables import SEPARATORS, read_table, separator_in
from ..files import csv_line, write_lines

HEADER = ["file", "label"]
PLAIN = Columns(0, 1)


@dataclass
class Sheet:
    header: list[str] | None = field(default_factory=lambda: list(HEADER))  # None where it begins with a picture
    columns: Columns = PLAIN
    rows: list[list[str]] = field(default_factory=list)
    separator: str = ","
    places: dict[str, list[int]] = field(default_factory=dict)  # picture -> its rows
    labels: dict[str, str] = field(default_factory=dict)  # picture -> class, without empty ones
    missing: int = 0  # rows of pictures that are not in the folder; they stay
    lines: list[bytes] = field(default_factory=list)  # of all rows, as they were last written

    def set(self, name: str, label: str) -> None:
        """An empty label takes the label away: then a guess in the same row stands as it was."""
        if name not in self.places:
            self.places[name] = [len(self.rows)]
            self.rows.append([])
        for place in self.places[name]:
            self._set_row(self.rows[place], name, label)
            if self.lines:
                self.lines[place : place + 1] = [csv_line(self.rows[place], self.separator)]
        if label:
            self.labels[name] = label
        else:
            self.labels.pop(name, None)

    def _set_row(self, row: list[str], name: str, label: str) -> None:
        columns = self.columns
        row += [""] * (1 + max(value for value in columns if value is not None) - len(row))
        row[columns.file] = row[columns.file] or name
        row[columns.label] = label
        if columns.guess is not None:
            row[columns.label] = label or row[columns.guess]
            if columns.confirmed is not None:
                row[columns.confirmed] = "yes" if label else ""

    def write(self, path: Path) -> None:
        """Only rows that were changed since the last time are put into words again: there may be many."""
        self.lines = self.lines or [csv_line(row, self.separator) for row in self.rows]
        header = [csv_line(self.header, self.separator)] if self.header else []
        write_lines(path, [*header, *self.lines])


def read_sheet(path: Path, names: Names) -> Sheet:
    """Pictures that are not in the folder any more keep their rows and are left out otherwise."""
    if not path.exists():
        return Sheet()
    rows = read_table(path, "label file")
    if not rows or (len(rows) == 1 and [cell.casefold() for cell in rows[0].cells[:2]] == HEADER):
        return Sheet(rows[0].cells) if rows else Sheet()
    columns, below = understood(path, rows, names)
    labels = read_label_file(path, names, [], missing_allowed=True)
    separator = separator_in(path)
    sheet = Sheet(
        None if len(below) == len(rows) else rows[0].cells,
        columns,
        [row.cells for row in below],
        separator if separator in SEPARATORS else ",",
        labels={name: label for name, label in labels.items() if label},
    )
    for position, row in enumerate(below):
        name = names.find(path, row, row.cells[columns.file])
        if name is None:
            sheet.missing += 1
        else:
            sheet.places.setdefault(name, []).append(position)
    return sheet
