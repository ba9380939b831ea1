"""Finished runs, as the studio reads them: the newest run, its labels and its predictions."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..data.labels import read_answers
from ..data.tables import read_table
from ..errors import UserError
from ..run_files import LABELS, PREDICTIONS, REPORT
from ..runs.directory import RunDirectory


class Guess(NamedTuple):
    label: str
    confidence: float


@lru_cache(maxsize=4)
def read_trained(run: Path | None) -> dict[str, str]:
    """The training labels of a run; empty if the run is gone."""
    if run is None or not (run / LABELS).exists():
        return {}
    return {name: label for name, label, _ in read_answers(run / LABELS)}


def latest_run(runs: Path, folder: Path) -> Path | None:
    """The newest finished run on these pictures."""
    found = []
    for path in runs.glob(f"*/{REPORT}") if runs.is_dir() else ():
        try:
            facts = RunDirectory(path.parent).facts()
        except UserError:
            continue
        if facts and facts["recipe"].get("data") == str(folder) and (path.parent / PREDICTIONS).exists():
            found.append(path)
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


def read_guesses(run: Path | None) -> dict[str, Guess]:
    """The predictions of a run for the unlabelled pictures."""
    if run is None or not (run / PREDICTIONS).exists():
        return {}
    header, *rows = read_table(run / PREDICTIONS, "file")
    file, guess, confidence = (header.cells.index(name) for name in ("file", "guess", "confidence"))
    return {row.cells[file]: Guess(row.cells[guess], float(row.cells[confidence])) for row in rows if row.cells[guess]}


def choose_run(run: str | None) -> Path | None:
    """A run that a user names."""
    if run is None:
        return None
    directory = RunDirectory(run)
    facts = directory.facts_to_continue()
    from ..methods import SELF_SUPERVISED  # slow: it imports torch

    if facts["recipe"]["method"] in SELF_SUPERVISED:
        raise UserError(f"{run} was trained without labels, so it predicts nothing: give a run of `fewlabel train`.")
    if not directory.finished:
        raise UserError(f"{run} is not finished: continue it with `fewlabel train --resume`.")
    return Path(run)
