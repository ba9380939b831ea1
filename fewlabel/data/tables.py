"""Read tables as spreadsheets write them: rows of cells, with any common separator and encoding."""

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..files import as_written

SEPARATORS = (",", ";", "\t")
SNIFFED = 1 << 20  # bytes by which an encoding is found
TEXTS = (".csv", ".tsv", ".txt")
FALLBACK = "cp1252"  # of files that are not UTF
LOOKED_AT = 50  # lines by which the separator is found


class Row(NamedTuple):
    number: int  # as a spreadsheet counts
    cells: list[str]


def read_table(path: Path, what: str) -> list[Row]:
    """The rows of a CSV file (or of the first sheet of an .xlsx file) that are not empty; `what` it is, for errors."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the {what} {path} ({error.strerror}).") from error
    sheet = path.suffix.lower() == ".xlsx"
    rows = read_sheet(path) if sheet else read_text(path, as_text(path, content, what), what)
    numbered = [Row(number, [as_meant(cell) for cell in cells]) for number, cells in enumerate(rows, 1)]
    return [row for row in numbered if any(row.cells)]


def as_text(path: Path, content: bytes, what: str) -> str:
    """UTF-8 and UTF-16 with and without a mark at the beginning, else Windows' code page 1252."""
    return decoded(path, content, what)[1]


def decoded(path: Path, content: bytes, what: str, whole: bool = True) -> tuple[str, str]:
    """The encoding, and the text; where it is not the `whole` content, it may end within a letter."""
    zeros = content[:1000:2].count(0), content[1:1000:2].count(0)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    elif max(zeros) > len(content[:1000]) // 4:  # of two bytes for one letter, one is zero
        encodings = ["utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"]
    else:
        encodings = ["utf-8-sig", FALLBACK]
    if content.startswith(codecs.BOM_UTF8):  # as we write it; file names may have any bytes
        return "utf-8-sig", content.decode("utf-8-sig", "surrogateescape")
    for encoding in encodings:
        if encoding == FALLBACK and mostly_utf8(content):
            raise UserError(f"the {what} {path} is in UTF-8 with some letters in another encoding: save it as UTF-8.")
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(content, final=whole)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return encoding, text
    raise UserError(f"the {what} {path} is not a table in text: save it as CSV.")


def guess_note(paths: Sequence[Path]) -> list[str]:
    """A message about texts whose encoding is uncertain."""
    guessed = [path.name for path in paths if path.suffix.lower() in TEXTS and is_guessed(path)]
    if not guessed:
        return []
    names = f"{guessed[0]} and {len(guessed) - 1} more" if len(guessed) > 1 else guessed[0]
    return [f"Not in UTF-8, so read as Western European ({FALLBACK}): {names}. If letters look wrong, save as UTF-8."]


def is_guessed(path: Path) -> bool:
    with open(path, "rb") as file:
        sample = file.read(SNIFFED)
    return decoded(path, sample, "table", whole=len(sample) < SNIFFED)[0] == FALLBACK


def mostly_utf8(content: bytes) -> bool:
    """Whether most non-ASCII letters are valid UTF-8."""
    text = content.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) > 2 * broken


def read_text(path: Path, text: str, what: str) -> list[list[str]]:
    separator, text = separated(text)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise UserError(f"the {what} {path} is not a CSV file ({error}).") from error


def separator_in(path: Path) -> str:
    """The separator of a CSV file that `read_table` has read."""
    return separated(as_text(path, path.read_bytes(), "file"))[0]


def separated(text: str) -> tuple[str, str]:
    """The separator, and the text without a first line that names it."""
    first, _, rest = text.partition("\n")
    if told := re.fullmatch(r"sep=(.)\s*", first.strip('"\r'), re.IGNORECASE):
        return told[1], rest
    return separator_of(text), text


def separator_of(text: str) -> str:
    """The one that divides most lines into the same number of cells, at least two."""

    def score(separator: str) -> tuple[int, int]:
        lines = [line for line in text.splitlines()[:LOOKED_AT] if line.strip()]
        widths = [len(cells) for cells in csv.reader(lines, delimiter=separator, skipinitialspace=True) if cells]
        usual = max(widths, key=widths.count, default=1)
        return (widths.count(usual) if usual > 1 else 0), usual

    try:
        return max(SEPARATORS, key=score)
    except csv.Error:
        return SEPARATORS[0]


def read_sheet(path: Path) -> Iterator[list[str]]:
    """The rows of its first sheet, one at a time."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise UserError(
            f"to read {path} install openpyxl (pip install 'fewlabel[excel]'), or save it as CSV."
        ) from error
    try:
        with contextlib.closing(load_workbook(path, read_only=True, data_only=True)) as book:
            for row in book.worksheets[0].iter_rows(values_only=True):
                yield [text_of(value) for value in row]
    except Exception as error:  # damaged files raise many kinds of errors
        raise UserError(f"{path} is not an .xlsx file that can be read ({error}).") from error


def text_of(value: Any) -> str:
    """A cell of a spreadsheet, in which 3 may be 3.0."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def as_meant(cell: str) -> str:
    """A cell without surrounding spaces and without the apostrophe before a formula."""
    return as_written(cell.strip(" \u00a0\r\n"))
