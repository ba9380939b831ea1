"""An audit on the page: the same draw and the same sums as `fewlabel audit`, with the answers given one by one."""

from pathlib import Path
from typing import Any

from ..auditing import Answered, read_audit, start_audit, summary, take_answers
from ..data.labels import NO_CLASS, read_answers
from ..errors import UserError
from ..files import write_csv
from ..model import load_model
from ..runs.directory import AUDIT, RunDirectory
from .project import Project, one_of, printable

DRAWN = 30


class Audits:
    """Answers are kept in a file beside the run until all are there."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def start(self) -> dict[str, Any]:
        run = self._run()
        unlabelled = len(self._project.files) - len(self._project.book.labels)
        start_audit(run, min(DRAWN, unlabelled), self._file())
        return self.state()

    def answer(self, number: Any, label: str) -> dict[str, Any]:
        name, answers = self._project.name(number), self._answers()
        if name not in answers:
            raise UserError("that picture was not drawn for the audit.")
        answers[name] = one_of(label, [*self._classes(), NO_CLASS, ""], "class of the model")
        write_csv(self._file(), ("file", "label"), answers.items())
        if all(answers.values()):
            take_answers(self._run(), self._file())
        return self.state()

    def state(self) -> dict[str, Any]:
        """What is left to answer, or the result."""
        if self._project.run is None:
            return {"status": "no run"}
        run = self._run()
        audit = read_audit(run)
        if audit is None:
            return {"status": "none", "run": run.path.name}
        if audit.answers:
            interval = audit.accuracy(audit.guesses)
            words = summary(Answered(audit, {}), "images")
            return {"status": "done", "run": run.path.name, "accuracy": interval._asdict(), "words": words}
        if not self._file().exists():
            return {"status": "elsewhere", "run": run.path.name, "file": str(run / AUDIT)}
        answers = self._answers()
        pictures = [
            {"number": self._project.numbers[name], "name": printable(name), "label": label}
            for name, label in answers.items()
        ]
        return {"status": "asking", "run": run.path.name, "pictures": pictures, "classes": self._classes()}

    def _run(self) -> RunDirectory:
        if self._project.run is None:
            raise UserError("train first: an audit measures the predictions of a training.")
        return RunDirectory(self._project.run)

    def _file(self) -> Path:
        run = self._run().path
        return run.with_name(f"{run.name}-audit.csv")

    def _answers(self) -> dict[str, str]:
        return {name: label for name, label, _ in read_answers(self._file())}

    def _classes(self) -> list[str]:
        return list(load_model(self._run().path, "cpu").classes)
