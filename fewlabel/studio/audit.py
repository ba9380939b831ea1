"""An audit on the page: the same sample and result as `fewlabel audit`, with the answers given one by one."""

import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..auditing import Answered, read_audit, start_audit, summary, take_answers
from ..data.labels import NO_CLASS, read_answers
from ..errors import UserError
from ..files import write_csv
from ..run_files import AUDIT
from ..runs.directory import RunDirectory
from .project import Project, one_of

DRAWN = 30


class Audits:
    """Answers are kept in a file beside the run until all are there. An audit that was begun is finished first."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._lock = threading.RLock()

    def start(self) -> dict[str, Any]:
        with self._lock:
            run, labels = self._run(), self._project.book.labels
            free = [name for name in self._project.guesses if name not in labels]
            if not free:
                raise UserError(f"all {self._project.noun} have a label: nothing is left to audit.")
            start_audit(run, min(DRAWN, len(free)), answers_of(run), excluded=labels.keys())
            return self.state()

    def answer(self, number: Any, label: str) -> dict[str, Any]:
        with self._lock:
            name, run = self._project.name(number), self._run()
            answers = {name: label for name, label, _ in read_answers(answers_of(run))}
            if name not in answers:
                raise UserError("this one was not drawn for the audit.")
            answers[name] = one_of(label, [*classes_of(run.path), NO_CLASS, ""], "class of the model")
            write_csv(answers_of(run), ("file", "label"), answers.items())
            if all(answers.values()):
                take_answers(run, answers_of(run))
            return self.state(run)

    def state(self, run: RunDirectory | None = None) -> dict[str, Any]:
        """The examples left to answer, or the result."""
        if self._project.run is None:
            return {"status": "no run"}
        run = run or self._run()
        audit = read_audit(run)
        if audit is None:
            return {"status": "none", "run": run.path.name}
        if audit.answers:
            interval = audit.accuracy(audit.guesses)
            words = summary(Answered(audit, {}), self._project.noun)
            return {"status": "done", "run": run.path.name, "accuracy": interval._asdict(), "words": words}
        if not answers_of(run).exists():
            return {"status": "elsewhere", "run": run.path.name}
        pictures = [
            self._project.identity(name) | {"label": label}
            for name, label, _ in read_answers(answers_of(run))
            if name in self._project.numbers
        ]
        return {"status": "asking", "run": run.path.name, "pictures": pictures, "classes": classes_of(run.path)}

    def _run(self) -> RunDirectory:
        """The run whose audit was begun here and is not finished, else the last run."""
        for path in sorted(self._project.runs.glob("studio-*-audit.csv")):
            run = RunDirectory(path.with_name(path.name.removesuffix("-audit.csv")))
            facts = run.facts() if (run / AUDIT).exists() else None
            audit = read_audit(run) if facts and facts["recipe"]["data"] == str(self._project.folder) else None
            if audit is not None and not audit.answers:
                return run
        if self._project.run is None:
            raise UserError("train first: an audit measures the predictions of a training.")
        return RunDirectory(self._project.run)


def answers_of(run: RunDirectory) -> Path:
    return run.path.with_name(f"{run.path.name}-audit.csv")


@lru_cache(maxsize=4)
def classes_of(run: Path) -> list[str]:
    from ..model import load_model  # slow: it imports torch

    return list(load_model(run, "cpu").classes)
