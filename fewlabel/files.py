"""Write files atomically: a kill or a full disk never leaves half of one."""

import codecs
import csv
import errno
import io
import itertools
import json
import math
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from .errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a disk that holds no more


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: either the new content or the old one is there."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise not_saved(path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """A temporary folder to fill, which appears under its name when the block ends without an error.

    If another process was faster, its folder stays.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="filling-") as temporary:
        yield Path(temporary)
        try:
            os.rename(temporary, place)
            os.mkdir(temporary)  # for TemporaryDirectory to remove
        except OSError:
            if not place.exists():
                raise


def make_folder(path: Path) -> None:
    """Check before work that a folder is writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(folder: Path, error: OSError) -> UserError:
    return UserError(f"cannot write into {folder} ({error.strerror}): check the folder, or choose another.")


def not_saved(path: Path, error: OSError) -> UserError:
    advice = "free some space" if error.errno in FULL else "check the folder"
    return UserError(
        f"could not save {path} ({error.strerror}): {advice}, then run the command again "
        "(a training continues with --resume)."
    )


def parse_json(text: str) -> Any:
    """Standard JSON: NaN, infinity and too deep nesting raise ValueError."""
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_float=finite_float)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def finite_float(text: str) -> float:
    """1e999 is not."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


# A spreadsheet takes a cell that begins like this for a formula. We write an apostrophe before it, and take it off.
# The same for spaces at the beginning, which are lost otherwise.
FORMULA = re.compile(r"'*[=+\-@\s]")
NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]], separator: str = ",") -> None:
    """A file that spreadsheets open right: marked as UTF-8, and without anything that they take for a formula."""
    write_lines(path, (csv_line(row, separator) for row in itertools.chain([header], rows)))


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Lines that `csv_line` has made."""
    with replacing(path) as file:
        file.write(codecs.BOM_UTF8)
        file.writelines(lines)


def csv_line(row: Sequence[Any], separator: str = ",") -> bytes:
    text = io.StringIO()
    cells = [neutralised(cell) if isinstance(cell, str) else cell for cell in row]
    csv.writer(text, lineterminator="\r\n", delimiter=separator).writerow(cells)  # so that it quotes cells with either
    return (text.getvalue().removesuffix("\r\n") + "\n").encode("utf-8", "surrogateescape")


def neutralised(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; `as_written` undoes it."""
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def as_written(cell: str) -> str:
    """A cell without the apostrophe that `neutralised` put before it."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
