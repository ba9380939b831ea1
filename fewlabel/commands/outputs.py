"""Checks of output files: a user's work is never overwritten."""

from pathlib import Path

from ..data.labels import holds_work
from ..errors import UserError
from ..pages import is_foreign


def check_output(path: Path, flag: str, overwrite: bool, *, page: bool = False) -> None:
    """Check before any work that this CSV file and the page beside it may be written."""
    if path.suffix.lower() != ".csv":
        raise UserError(f"{flag} must end in .csv, not {path.name}.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"the folder {path.absolute().parent} of {flag} does not exist.")
    if holds_work(path) and not overwrite:
        raise UserError(f"{path} already exists, with labels or other content: replace it with --overwrite.")
    if page and is_foreign(path.with_suffix(".html")) and not overwrite:
        raise UserError(
            f"{path.with_suffix('.html')} already exists and was not written by fewlabel: choose another {flag}."
        )
