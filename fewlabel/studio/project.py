"""The project of the studio: examples, labels, the order of labelling, and runs."""

import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..data import Roles
from ..data.labels import NO_CLASS
from ..errors import UserError, unknown
from ..files import make_folder, write_json
from ..run_files import LOCK
from ..runs.audited import audited_examples
from ..runs.directory import RunDirectory, numbered_directories
from .book import LabelBook
from .finished import Guess, latest_run, read_guesses, read_trained
from .sources import open_source
from .training import Training, at_work
from .worker import Answer, Worker

AHEAD = 12  # pictures that the page knows of beforehand
SUGGESTED = 20  # at a time
REFRESH = 5  # new labels after which the order is made anew
STEPS = 600  # of a first training: seconds on features


class Project:
    """Everything the page shows. It is stored in files, so that a restart continues where it was."""

    def __init__(
        self, data: Path, labels: Path | None, run: Path | None, worker: Worker, roles: Roles | None = None
    ) -> None:
        self.source = open_source(data, roles)
        self.folder, self.files, self.noun = self.source.path, self.source.names, self.source.noun
        self.runs = beside(data, "runs")
        self.title = self.folder.name if self.folder.is_dir() else self.folder.stem
        self._settings = self.runs / f"studio-{self.title}.json"
        self.numbers = {name: number for number, name in enumerate(self.files)}
        path = labels or default_labels(data)
        begun = path.exists()
        self.book = LabelBook(path, data, self.files, self.noun)
        if not begun:
            self.book.begin(self.source.given)
        self.training = Training()
        self.worker = worker
        self.run = run or latest_run(self.runs, self.folder)
        self._tried = read_trained(self.run)  # labels of the last training
        self.guesses = read_guesses(self.run)
        self.unreadable: dict[str, str] = {}
        self.note = self.source.note
        self._order: list[str] = []  # as suggested
        self._others = list(self.files)
        random.Random(0).shuffle(self._others)
        self._lock = threading.RLock()
        self._asked: Future[Answer] | None = None
        self._asked_with = -1  # number of labels then
        self._adopt_training()

    # ---- pictures by number

    def name(self, number: Any) -> str:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(self.files):
            raise UserError(f"there are no {self.noun} of that number.")
        return self.files[number]

    def names(self, numbers: Any) -> list[str]:
        if not isinstance(numbers, list):
            raise UserError(f"give the numbers of {self.noun}.")
        return [self.name(number) for number in numbers]

    def identity(self, name: str) -> dict[str, Any]:
        """The number, name and content of an example."""
        return {"number": self.numbers[name], "name": name, **self.source.shown(name)}

    def shown(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        """A picture as the page gets it."""
        guess, facts = self.guesses.get(name), self.identity(name) | {"label": labels.get(name, "")}
        return facts | ({"guess": self.book.renamed(guess.label), "confidence": guess.confidence} if guess else {})

    def renamed_guesses(self) -> dict[str, Guess]:
        """Labels with the current names of the classes."""
        names = {label: self.book.renamed(label) for label in {guess.label for guess in self.guesses.values()}}
        return {name: Guess(names[guess.label], guess.confidence) for name, guess in self.guesses.items()}

    # ---- what to label next

    def queue(self) -> list[dict[str, Any]]:
        """The next pictures: as suggested, then others, then those that were put off."""
        labels, later, audited = self.book.labels, self.book.skipped, self.audited()
        left = {*later, *audited, *self.unreadable}
        free = (
            name
            for name in itertools.chain(self._order, self._others)
            if name not in labels and name not in left and name in self.numbers
        )
        found = list(dict.fromkeys(itertools.islice(free, 2 * AHEAD)))[:AHEAD]
        found += [name for name in later if name not in audited][: AHEAD - len(found)]
        return [self.shown(name, labels) for name in found]

    def audited(self) -> dict[str, str]:
        """Pictures that measure a run: they are no labels to train on."""
        return audited_examples(self.runs, str(self.folder))

    def label(self, numbers: Any, label: str, before: str | None) -> None:
        """Save a label, and train if there are enough new ones."""
        names, audited = self.names(numbers), self.audited()
        if any(name in audited for name in names):
            raise UserError(f"{self.noun} that were drawn for an audit cannot be used for training.")
        self.book.label(names, label, before)
        if self.every and self.new_labels(self.book.labels) >= self.every and not self.training.going_on:
            with suppress(UserError):  # as long as there is one class only
                self.train()

    def refresh_order(self) -> None:
        """Ask for suggestions where enough has changed, and take those that have come."""
        with self._lock:
            if self._asked is not None and self._asked.done():
                self._take_order(self._asked)
                self._asked = None
            labels = self.book.labels
            stale = len(labels) - self._asked_with >= REFRESH or len(labels) < self._asked_with
            if self.source.comparable and self._asked is None and (self._asked_with < 0 or stale):
                self._ask(labels)

    def _ask(self, labels: dict[str, str]) -> None:
        known = [*labels, *self.audited()]
        if len(known) < len(self.files):
            run = str(self.run) if self.run else None
            self._asked_with = len(labels)
            self._asked = self.worker.call("suggest", **self.compared(), known=known, run=run, n=SUGGESTED)

    def compared(self) -> dict[str, Any]:
        """The settings of the background process that compares examples."""
        columns = None if self.source.roles is None else self.source.roles.as_settings()
        return {"data": str(self.folder), "encoder": self.source.encoder, "columns": columns}

    def _take_order(self, asked: Future[Answer]) -> None:
        try:
            answer = asked.result()
        except UserError as error:
            self.note = str(error)
            return
        self._order, self.unreadable = answer["names"], answer["unreadable"]
        what = (
            f"The {self.noun} that the model is least certain of" if self.run else f"The most useful {self.noun} first"
        )
        self.note = f"{what}: {answer['groups']} groups of similar {self.noun}. Classes may still be missing."

    # ---- state

    def state(self) -> dict[str, Any]:
        """The state of the page, except pictures."""
        facts: dict[str, Any] = {"folder": self.folder.name, "pictures": len(self.files), "problem": ""}
        facts |= {"noun": self.noun, "sortable": self.source.roles is None}
        try:
            self.take_run()
            with self.book.alone():
                labels, classes = self.book.labels, self.book.classes
                self.refresh_order()
                facts["queue"] = self.queue()
        except UserError as error:  # another program has made the label file unreadable
            labels, classes = {}, []
            facts |= {"problem": str(error), "queue": []}
        counts = Counter(labels.values())
        progress = self.worker.progress
        return facts | {
            "labels_file": near(self.book.path),
            "labelled": len(labels),
            "classes": [{"name": name, "count": counts[name]} for name in classes],
            "none": counts[NO_CLASS],
            "unreadable": len(self.unreadable),
            "note": f"{self.book.note} {self.note}".strip(),
            "every": self.every,
            "background": progress and {"title": progress[0], "done": progress[1], "total": progress[2]},
            "training": self.training.state(),
            "run": self.run_state(labels),
        }

    def run_state(self, labels: dict[str, str]) -> dict[str, Any] | None:
        """The run whose predictions are shown."""
        if self.run is None:
            return None
        counts: Counter[str] = Counter()
        for label, count in Counter(map(itemgetter(0), self.guesses.values())).items():
            counts[self.book.renamed(label)] += count
        return {
            "name": self.run.name,
            "predicted": sum(counts.values()),
            "new_labels": changed(labels, read_trained(self.run)),
            "classes": dict(sorted(counts.items())),
        }

    # ---- training

    @property
    def every(self) -> int:
        """New labels after which a training begins by itself; 0 for never."""
        try:
            return int(json.loads(self._settings.read_text())["every"])
        except (OSError, ValueError, LookupError, TypeError):
            return 0

    def train_every(self, count: Any) -> None:
        if not isinstance(count, int) or not 0 <= count <= 100_000:
            raise UserError("give a whole number of labels.")
        make_folder(self.runs)
        write_json(self._settings, {"every": count})

    def new_labels(self, labels: dict[str, str]) -> int:
        """Labels that the last training, also one that failed, did not have."""
        return changed(labels, self._tried)

    def train(self) -> None:
        """On a copy of the labels of this moment, so that the run can be looked at again whatever is labelled later."""
        with self._lock:
            if self.training.going_on:
                raise UserError("a training is already running.")
            self._start_training()

    def _start_training(self) -> None:
        audited = self.audited()
        labels = {name: label for name, label in self.book.labels.items() if name not in audited}
        classes = set(labels.values()) - {NO_CLASS}
        if len(classes) < 2:
            raise UserError(f"label {self.noun} of at least two classes first.")
        make_folder(self.runs)
        first = self.runs / f"studio-{self.title}"
        number = max(numbered_directories(first), default=0) + 1
        run = first if number == 1 else first.with_name(f"{first.name}-{number}")
        copy = run.with_name(f"{run.name}-labels.csv")
        self.book.copy(copy, audited)
        self._tried = labels
        words = [str(self.folder), "--labels", str(copy), *self._columns(), *self._start()]
        self.training.start(run, words)

    def _start(self) -> list[str]:
        """Start from the last run of the studio if there is one: then a few new labels take seconds."""
        if self.run is not None and self.run.name.startswith("studio-"):
            return ["--start-from", str(self.run), "--steps", str(STEPS // 2)]
        return ["--steps", str(STEPS)] if self.source.comparable else []

    def _columns(self) -> list[str]:
        """The roles of the columns of a file."""
        roles = self.source.roles
        if roles is None or self.folder.is_dir():
            return []
        settings = roles.as_settings().items()
        return [word for name, value in settings if value for word in (f"--{name.replace('_', '-')}", str(value))]

    def _adopt_training(self) -> None:
        """One on these pictures that an earlier studio has started, and that is still going on."""
        for path in self.runs.glob(f"studio-*/{LOCK}"):
            with suppress(UserError):
                facts = RunDirectory(path.parent).facts()
                if facts and facts["recipe"]["data"] == str(self.folder) and at_work(path.parent):
                    self.training.adopt(path.parent)

    def take_run(self) -> None:
        """The predictions of a training that has just finished."""
        run = self.training.run
        with self._lock:
            if run is not None and run != self.run and not self.training.going_on and RunDirectory(run).finished:
                self.guesses = read_guesses(run)
                self.run = run
                self._asked, self._asked_with = None, -1

    def close(self) -> None:
        self.training.close()
        self.worker.close()


def default_labels(folder: Path) -> Path:
    """labels.csv in the folder of pictures if it lies there already; else where the command was started."""
    if folder.is_file():
        return Path.cwd() / f"{folder.stem}-labels.csv"
    inside = folder / "labels.csv"
    return inside if inside.exists() else beside(folder, "labels.csv")


def beside(folder: Path, name: str) -> Path:
    """The working directory, or the parent of the folder of pictures if the command was started within it."""
    here, folder = Path.cwd(), folder.resolve()
    return folder.parent / f"{folder.name}-{name}" if here.resolve().is_relative_to(folder) else here / name


def changed(labels: dict[str, str], before: dict[str, str]) -> int:
    """The number of new or changed labels."""
    return sum(before.get(name) != label for name, label in labels.items() if label != NO_CLASS)


def near(path: Path) -> str:
    """A path as short as a user would write it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def one_of(value: Any, valid: Sequence[str], what: str) -> str:
    if value not in valid:
        raise unknown(what, str(value), valid)
    return str(value)
