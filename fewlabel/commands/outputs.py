"""Files that commands write: never over somebody's work."""

from pathlib import Path

from ..data.labels import holds_work
from ..errors import UserError
from ..pages import is_foreign


def check_output(path: Path, flag: str, overwrite: bool, *, page: bool = False) -> None:
    """Before any work: may this CSV file be written, and the page beside it?"""
    if path.suffix.lower() != ".csv":
        raise UserError(f"{flag} must end in .csv, not {path.name}.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no folder {path.absolute().parent} for {flag}.")
    if holds_work(path) and not overwrite:
        raise UserError(f"{path} is there already, with labels or other content: replace it with --overwrite.")
    if page and is_foreign(path.with_suffix(".html")) and not overwrite:
        raise UserError(
            f"{path.with_suffix('.html')} is there already and holds something else: choose another {flag}."
        )
