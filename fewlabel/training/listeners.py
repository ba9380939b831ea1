"""Listeners of `fit`: clock, divergence check, alarms, history and the progress bar."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..terminal import Terminal
from .alarms import advice, alarms
from .fit import Listener
from .trainer import StepResult, Trainer

TIME_FIELDS = ("seconds", "images_per_second")  # of a line of metrics: all that two equal runs may differ in


class DivergenceCheck(Listener):
    """Stops training where the loss or a weight has become NaN or infinite."""

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        if line is not None:
            trainer.check_finite(step, line)


class Clock(Listener):
    """Adds the speed and the seconds since the run began, earlier sessions of a resumed run included."""

    def begin(self, trainer: Trainer) -> None:
        self._earlier, self._began = trainer.seconds, time.monotonic()
        self._images, self._since = 0, self._began

    @property
    def seconds(self) -> float:
        return self._earlier + time.monotonic() - self._began

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        self._images += result.images
        if line is not None:
            now = time.monotonic()
            line["images_per_second"] = round(self._images / max(now - self._since, 1e-9), 1)
            line["seconds"] = round(self.seconds, 2)
            self._images, self._since = 0, now


class History(Listener):
    """Stores the lines of metrics."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        if line is not None:
            self.lines.append(line)


class Alarms(Listener):
    """Adds active alarms to each line; prints each with advice the first time. Must come before the history."""

    def __init__(self, history: History, tell: Callable[[str], None], flags: bool = True) -> None:
        """With `flags`, advice writes settings as command-line flags."""
        self._history, self._tell, self._flags = history, tell, flags

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        if line is None:
            return
        plan = trainer.plan
        found = alarms([*self._history.lines, line], plan.steps, trainer.train.classes, trainer.train.kind.noun)
        for alarm, seen in found.items():
            if not any(alarm in earlier.get("alarms", ()) for earlier in self._history.lines):
                suggestions = "".join(f"\n  - {text}" for text in advice(alarm, plan, self._flags))
                self._tell(f"Warning at step {step}: {seen}. What may help:{suggestions}")
        if found:
            line["alarms"] = found


class ProgressBar(Listener):
    """A live bar on a terminal; elsewhere a plain line for each evaluation."""

    def __init__(self, title: str, terminal: Terminal) -> None:
        self._title, self._terminal = title, terminal
        self._bar: Bar | None = None

    def begin(self, trainer: Trainer) -> None:
        self._first, self._began, self._total = trainer.done, time.monotonic(), trainer.plan.steps
        if self._terminal.live:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=self._terminal.console)
            self._task = self._bar.add_task(self._title, total=self._total, completed=trainer.done)
            self._bar.start()

    def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
        if self._bar:
            self._bar.update(self._task, advance=1)
            self._bar.note = describe(line) if line else self._bar.note
        elif line is not None and ("accuracy" in line or "evaluated" in line):
            pace = (time.monotonic() - self._began) / (step - self._first)
            left = pace * (self._total - step)
            self._terminal.say(f"{self._title}: step {step}/{self._total}, {describe(line)}, {left:.0f} s left")

    def end(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


class Bar(Progress):
    """A progress bar with a line of figures below it."""

    note = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(f"  {self.note}", style="dim", no_wrap=True, overflow="ellipsis")


def describe(line: dict[str, Any]) -> str:
    """A line of metrics in words: accuracy first, since a narrow terminal cuts the end."""
    words = []
    if "accuracy" in line:
        words.append(f"test {line['accuracy']:.2%}")
    if "neighbour_accuracy" in line:
        words.append(f"neighbours of the same class {line['neighbour_accuracy']:.1%}")
    if "kept" in line:
        right = "" if line["kept_accuracy"] is None else f" ({line['kept_accuracy']:.1%} correct)"
        words.append(f"pseudo-labels {line['kept']:.0%}{right}")
    words += [f"{name} {value:.3f}" for name, value in line["loss"].items() if name != "total"]
    if "images_per_second" in line:
        words.append(f"{line['images_per_second']:.0f} examples/s")
    return ", ".join(words)
