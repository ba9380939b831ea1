"""Files that commands write: never over somebody's work."""

from pathlib import Path

from ..data.labels import holds_work
from ..errors import UserError


def check_output(path: Path, flag: str, overwrite: bool) -> None:
    """Before any work: may this CSV file be written?"""
    if path.suffix.lower() != ".csv":
        raise UserError(f"{flag} must end in .csv, not {path.name}.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no folder {path.absolute().parent} for {flag}.")
    if holds_work(path) and not overwrite:
        raise UserError(f"{path} is there already, with labels or other content: replace it with --overwrite.")
