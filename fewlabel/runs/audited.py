"""Audited examples measure a model, so their labels are not used for training."""

import json
from collections.abc import Iterable
from pathlib import Path

from ..errors import UserError
from ..run_files import AUDIT
from .directory import RunDirectory

SHOWN = 30  # names in a message


def audited_examples(runs: Path, data: str) -> dict[str, str]:
    """Examples of these data that were drawn for an audit of a run in a folder of runs: name -> run."""
    found: dict[str, str] = {}
    for path in sorted(runs.glob(f"*/{AUDIT}")) if runs.is_dir() else ():
        try:
            facts = RunDirectory(path.parent).facts()
            strata = json.loads(path.read_text())["strata"]
            if facts and facts["recipe"]["data"] == data:
                found |= {str(name): str(path.parent) for names in strata for name in names}
        except (UserError, OSError, ValueError, LookupError, TypeError):
            continue  # what lies there is no run, or its audit is damaged
    return found


def audited_before(data: str, run: RunDirectory | None = None) -> dict[str, str]:
    """The same of all runs that are easily found: beside this run, in the current folder and in its folder `runs`."""
    places = [Path.cwd(), Path.cwd() / "runs", *([run.path.absolute().parent] if run else [])]
    found: dict[str, str] = {}
    for place in dict.fromkeys(places):
        found |= audited_examples(place, data)
    return found


def refuse_audited(run: RunDirectory, data: str, labelled: Iterable[str]) -> None:
    """Labels of examples that were audited."""
    audited = audited_before(data, run)
    if spent := [name for name in labelled if name in audited]:
        more = f" and {len(spent) - SHOWN} others" if len(spent) > SHOWN else ""
        raise UserError(
            f"examples that were drawn for the audit of {audited[spent[0]]} have labels here: "
            f"{', '.join(spent[:SHOWN])}{more}. Once trained on, they can no longer measure accuracy. Leave these rows "
            "out, or use --spend-audit."
        )
