"""Records: rows of texts, numbers and categories, read one at a time from a file, or from a folder of .txt files."""

import csv
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..decode import SUFFIXES as PICTURES
from ..errors import UserError, unknown
from .tables import SNIFFED, as_text, decoded, guess_note, read_sheet, separated

SUFFIXES = (".csv", ".tsv", ".jsonl", ".xlsx", ".parquet")
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a"})
NOTHING = frozenset({"nan", "NaT", "<NA>"})  # of numpy and pandas
LONGEST = 1 << 24  # characters of one cell
END = "\x04"  # a line of our own behind the last one: within a quote that is still open it becomes part of a cell
CHUNK = 10_000  # rows of a parquet file at a time
TEXT_FILE = ".txt"
UNKNOWN_CLASS = ("unlabelled", "unlabeled")  # subfolders of these names are no class
FILE, TEXT, FOLDER = FOLDER_HEADER = ("file", "text", "class")  # columns of a folder of .txt files

Cells = list[str]


@dataclass(frozen=True)
class Records:
    """A file of rows with a header. Rows are read anew each time they are asked for, and never all at once."""

    path: Path
    header: tuple[str, ...]

    def column(self, name: str) -> int:
        """The place of a column; a wrong name is answered with the nearest ones."""
        if name not in self.header:
            raise unknown(f"column of {self.path}", name, self.header)
        return self.header.index(name)

    def notes(self) -> list[str]:
        """Messages about its encoding and its columns."""
        unnamed = self.header.count("")
        left_out = [f"{unnamed} of the columns of {self.path.name} have no name and are left out."] if unnamed else []
        return guess_note(text_files(self.path) if self.path.is_dir() else [self.path]) + left_out

    def __iter__(self) -> Iterator[Cells]:
        """The cells of each row, as many as the header has; missing ones are empty."""
        for number, cells in enumerate(read_rows(self.path, self.header), 1):
            if len(cells) > len(self.header) and any(cells[len(self.header) :]):
                raise UserError(
                    f"row {number} of {self.path} has {len(cells)} cells, but the header has {len(self.header)}: is a "
                    "separator or a quote missing?"
                )
            yield (cells + [""] * len(self.header))[: len(self.header)]


def open_records(path: Path) -> Records:
    """The file, with its header read and checked."""
    if not path.is_file() and not is_text_folder(path):
        raise UserError(f"there is no file {path}.")
    header = read_header(path)
    if not header:
        raise UserError(f"{path} is empty: it needs a first line with the names of the columns.")
    for place, name in enumerate(header):
        if name and name in header[:place]:
            raise UserError(f"{path} has two columns called '{name}': rename or remove one.")
    return Records(path, tuple(header))


def read_header(path: Path) -> list[str]:
    if path.is_dir():
        return list(FOLDER_HEADER)
    kind = path.suffix.lower()
    if kind == ".parquet":
        return parquet_header(path)
    if kind == ".jsonl":
        return json_header(path)
    return next(sheet_rows(path) if kind == ".xlsx" else csv_rows(path), [])


def read_rows(path: Path, header: Sequence[str]) -> Iterator[Cells]:
    kind = path.suffix.lower()
    if path.is_dir():
        yield from folder_rows(path)
    elif kind == ".parquet":
        yield from parquet_rows(path, header)
    elif kind == ".jsonl":
        yield from ([as_cell(found.get(name)) for name in header] for found in json_objects(path))
    else:
        rows = sheet_rows(path) if kind == ".xlsx" else csv_rows(path)
        next(rows)
        yield from rows


# ---- CSV, TSV and spreadsheets: the rows that are not empty, header included, without spaces around cells


def sheet_rows(path: Path) -> Iterator[Cells]:
    return ([stripped(cell) for cell in cells] for cells in read_sheet(path) if any(cells))


def csv_rows(path: Path) -> Iterator[Cells]:
    with open(path, "rb") as file:
        sample = file.read(SNIFFED)
    encoding, sniffed = decoded(path, sample, "table", whole=len(sample) < SNIFFED)
    separator, rest = separated(sniffed) if path.suffix.lower() != ".tsv" else ("\t", sniffed)
    csv.field_size_limit(LONGEST)
    count = 0
    try:
        with open(path, encoding=encoding, errors="strict", newline="") as file:
            if len(rest) < len(sniffed):
                file.readline()  # which named the separator
            for cells in csv.reader(itertools.chain(file, (END,)), delimiter=separator, skipinitialspace=True):
                if cells and cells[-1].endswith(END) and cells != [END]:
                    raise UserError(
                        f"{path} has a quote that opens in row {count} and never closes: remove or double it."
                    )
                if any(cells) and cells != [END]:
                    yield [stripped(cell) for cell in cells]
                    count += 1
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise UserError(
            f"{path} is in {name} up to row {count}, and then in another encoding: save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV file ({error}).") from error


def stripped(cell: str) -> str:
    return cell.strip(" \u00a0\r\n")


# ---- a folder of .txt files


def is_text_folder(path: Path) -> bool:
    """A folder with several .txt files and without pictures; a single one may be a note about the folder."""
    found, folders = 0, [str(path)] if path.is_dir() else []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                ending = os.path.splitext(entry.name)[1].lower()
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif ending in PICTURES:
                    return False  # at the first one: there may be millions
                found += ending == TEXT_FILE
    return found > 1


def text_files(folder: Path) -> list[Path]:
    found = sorted(folder.rglob(f"*{TEXT_FILE}"))
    hidden = {path for path in found if any(part.startswith(".") for part in path.relative_to(folder).parts)}
    return [path for path in found if path not in hidden and path.is_file()]


def folder_rows(folder: Path) -> Iterator[Cells]:
    """Path, text and subfolder of each file, in the order of the paths."""
    for path in text_files(folder):
        name = path.relative_to(folder)
        text = as_text(path, path.read_bytes(), "text")
        top = name.parts[0] if len(name.parts) > 1 else ""
        yield [name.as_posix(), text.strip(), "" if top.lower() in UNKNOWN_CLASS else top]


# ---- JSON, an object a line


def json_objects(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
                if not isinstance(found, dict):
                    raise ValueError("it is not an object")
            except RecursionError as error:
                raise UserError(f"line {number} of {path} is nested too deeply.") from error
            except ValueError as error:
                raise UserError(
                    f"line {number} of {path} is not a JSON object ({error}): each line must be one, in UTF-8."
                ) from error
            yield found


def json_header(path: Path) -> list[str]:
    """All names that any line has, in the order in which they come."""
    names: dict[str, None] = {}
    for found in json_objects(path):
        names |= dict.fromkeys(found)
    return list(names)


def as_cell(value: Any) -> str:
    """The value as text, as in a CSV file."""
    if value is None or (not isinstance(value, str) and str(value) in NOTHING):
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


# ---- parquet


def parquet(path: Path) -> Any:
    try:
        from pyarrow.parquet import ParquetFile  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise UserError(f"to read {path} install pyarrow, or save it as CSV.") from error
    try:
        return ParquetFile(path)
    except Exception as error:  # damaged files raise many kinds of errors
        raise not_parquet(path, error) from error


def not_parquet(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} is not a parquet file that can be read ({error}).")


def parquet_header(path: Path) -> list[str]:
    return [str(name) for name in parquet(path).schema_arrow.names]


def parquet_columns(path: Path, count: int) -> Iterator[list[list[Any]]]:
    """Some thousand rows at a time."""
    file = parquet(path)
    try:
        for batch in file.iter_batches(CHUNK):
            yield [batch.column(place).to_pylist() for place in range(count)]
    except Exception as error:  # damaged pages
        raise not_parquet(path, error) from error


def parquet_rows(path: Path, header: Sequence[str]) -> Iterator[Cells]:
    for columns in parquet_columns(path, len(header)):
        yield from ([as_cell(value) for value in row] for row in zip(*columns, strict=True))


# ---- how a row is known


def row_name(number: int, cells: Sequence[str]) -> str:
    """A name from row number and content, so that a changed or moved row gets a new name."""
    content = "\x1f".join(cells).encode("utf-8", "surrogateescape")
    return f"{number}-{hashlib.blake2b(content, digest_size=4).hexdigest()}"


def is_missing(cell: str) -> bool:
    return cell.casefold() in MISSING
