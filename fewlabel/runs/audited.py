"""Audited examples measure a model, so their labels are not used for training."""

import json
from collections.abc import Iterable
from pathlib import Path

from ..errors import UserError
from ..run_files import AUDIT
from .directory import RunDirectory


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


def refuse_audited(run: RunDirectory, data: str, labelled: Iterable[str]) -> None:
    """Labels of examples that were audited in a run beside this one."""
    audited = audited_examples(run.path.absolute().parent, data)
    if spent := [name for name in labelled if name in audited]:
        raise UserError(
            f"{len(spent)} of the labelled examples were drawn for the audit of {audited[spent[0]]}, beginning with "
            f"{spent[0]}: once trained on, they can no longer measure accuracy. Leave them out, or use --spend-audit."
        )
