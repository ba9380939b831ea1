"""What the user sees while a run goes on: a live bar on a terminal, plain lines elsewhere, and metrics.jsonl."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from torch import Tensor

from .files import not_saved, write_atomically

TIME_FIELDS = ("seconds", "images_per_second")  # of a line of metrics: all that two equal runs may differ in


class Meter:
    """Means over the steps since the last line of metrics. It stays on the device, so no step waits for it."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self._classes, self._device = classes, device
        self._dtype = torch.float32 if device.type == "mps" else torch.float64
        self.sums: dict[str, Tensor] = {}

    def add(self, terms: dict[str, Tensor], records: dict[str, Tensor], truth: Tensor) -> None:
        """`truth` are the labels of the unlabelled batch where they are known (else -1): for the report only."""
        self._sum("steps", torch.ones((), device=self._device))
        for name, value in terms.items():
            self._sum(f"loss/{name}", value.detach())
        if records:
            guess, kept, predicted = (records[name] for name in ("pseudo_labels", "kept", "predictions"))
            known = kept & (truth >= 0)
            self._sum("rows", torch.full((), float(len(kept)), device=self._device))
            self._sum("known", known.sum())
            self._sum("right", (known & (guess == truth)).sum())
            per_class = torch.zeros(3, self._classes, device=self._device)
            each = torch.ones_like(guess, dtype=torch.float32)
            for row, classes, weight in zip(
                per_class, (guess, guess, predicted), (each, kept.float(), each), strict=True
            ):
                row.index_add_(0, classes, weight)
            self._sum("by class", per_class)

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value.to(self._dtype)

    def read(self) -> dict[str, Any]:
        """The means as plain numbers; starts anew."""
        sums, self.sums = {name: value.cpu() for name, value in self.sums.items()}, {}
        steps = sums.pop("steps").item()
        line: dict[str, Any] = {}
        terms = {name.removeprefix("loss/"): (sums[name] / steps).item() for name in sums if name.startswith("loss/")}
        line["loss"] = {"total": sum(terms.values()), **terms}
        if "rows" in sums:
            guessed, kept, predicted = sums["by class"]
            line["kept"] = (kept.sum() / sums["rows"]).item()
            line["kept_accuracy"] = (sums["right"] / sums["known"]).item() if sums["known"] else None
            line["guessed_by_class"] = (guessed / sums["rows"]).tolist()
            line["kept_by_class"] = (kept / sums["rows"]).tolist()
            line["predicted_by_class"] = (predicted / sums["rows"]).tolist()
        return line

    def finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.sums.values())


class Bar(Progress):
    """A progress bar with a line of figures below it."""

    note = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(f"  {self.note}", style="dim", no_wrap=True, overflow="ellipsis")


class Reporter:
    """Says what happens: to the terminal, and to metrics.jsonl."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(quiet=quiet, soft_wrap=True, highlight=False)
        self.live = self.console.is_terminal and not quiet
        self._bar: Bar | None = None

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def start(self, title: str, path: Path, done: int, total: int, seconds: float) -> None:
        """Begin (or continue) a run of `total` steps; metrics of steps after `done` are of a killed run and go."""
        self._title, self._path, self._total, self._done, self._first = title, path, total, done, done
        self._earlier, self._began = seconds, time.monotonic()
        self._images, self._since = 0, self._began
        self.history = kept_lines(path, done)
        content = "".join(json.dumps(line) + "\n" for line in self.history)
        write_atomically(path, content.encode())
        if self.live:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=self.console)
            self._task = self._bar.add_task(title, total=total, completed=done)
            self._bar.start()

    @property
    def seconds(self) -> float:
        """Since the run began, earlier sessions of a resumed run included."""
        return self._earlier + time.monotonic() - self._began

    def tick(self, images: int) -> None:
        """One step is done."""
        self._images += images
        self._done += 1
        if self._bar:
            self._bar.update(self._task, advance=1)

    def speed(self) -> dict[str, float]:
        """Images through the network per second since the last line of metrics."""
        return {"images_per_second": round(self._images / max(time.monotonic() - self._since, 1e-9), 1)}

    def line(self, step: int, values: dict[str, Any]) -> None:
        """A line of metrics."""
        self._images, self._since = 0, time.monotonic()
        line = {"step": step, **values, "seconds": round(self.seconds, 2)}
        self.history.append(line)
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise not_saved(self._path, error) from error
        if self._bar:
            self._bar.note = describe(line)
        elif "accuracy" in line or "evaluated" in line:
            pace = (time.monotonic() - self._began) / max(self._done - self._first, 1)
            left = pace * (self._total - self._done)
            self.say(f"{self._title}: step {step}/{self._total}, {describe(line)}, {left:.0f} s left")

    def stop(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


def describe(line: dict[str, Any]) -> str:
    """A line of metrics in words."""
    words = [f"{name} {value:.3f}" for name, value in line["loss"].items() if name != "total"]
    if "kept" in line:
        right = "" if line["kept_accuracy"] is None else f" ({line['kept_accuracy']:.1%} right)"
        words.append(f"kept {line['kept']:.0%}{right}")
    if "accuracy" in line:
        words.append(f"test {line['accuracy']:.2%}")
    words.append(f"{line['images_per_second']:.0f} images/s")
    return ", ".join(words)


def kept_lines(path: Path, last_step: int) -> list[dict[str, Any]]:
    """The whole lines of an existing metrics file up to a step."""
    lines: list[dict[str, Any]] = []
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                break  # cut off by a kill
            if line["step"] <= last_step:
                lines.append(line)
    return lines
