"""Training from the page: `fewlabel train` in a process of its own, watched through the files of its run."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from ..errors import UserError
from ..run_files import FLOOR, LOCK
from ..runs.directory import RunDirectory

POINTS = 100  # of a curve
PRIORITY = 5  # lower than the page's


class Training:
    """At most one at a time."""

    def __init__(self) -> None:
        self.run: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None  # of the command
        self._cancelled = False

    @property
    def going_on(self) -> bool:
        if self._process is None:
            return self.run is not None and at_work(self.run)
        return self._process.poll() is None

    def adopt(self, run: Path) -> None:
        """A training that was started by a studio which was killed."""
        self.run = run

    def start(self, run: Path, words: list[str]) -> None:
        """`words` follow `fewlabel train`."""
        if self.going_on:
            raise UserError("a training is going on already.")
        self.run, self._cancelled = run, False
        if self._output is not None:
            self._output.close()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until the next training
        command = [sys.executable, "-m", "fewlabel", "train", *words, "--out", str(run)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True
        )
        if hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, PRIORITY)

    def cancel(self) -> None:
        if self._process is None and self.going_on:
            raise UserError("this training was started by an earlier studio: wait for it.")
        if self._process is not None and self.going_on:
            self._cancelled = True
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Before the studio ends."""
        if self._process is not None:
            self.cancel()
            self._process.wait()
        if self._output is not None:
            self._output.close()

    def state(self) -> dict[str, Any]:
        """What the page shows."""
        if self.run is None:
            return {"status": "none"}
        if self._process is None:
            status = "going on" if self.going_on else "finished" if RunDirectory(self.run).finished else "failed"
            message = "It was interrupted." if status == "failed" else ""
            return {"status": status, "run": self.run.name, "message": message, **progress(self.run)}
        code = self._process.poll()
        ended = "cancelled" if self._cancelled else "finished" if code == 0 else "failed"
        status = "going on" if code is None else ended
        return {"status": status, "run": self.run.name, "message": self._message(code), **progress(self.run)}

    def _message(self, code: int | None) -> str:
        """Of a training that failed, its last words."""
        if code in (None, 0) or self._cancelled or self._output is None:
            return ""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        said = next((line for line in reversed(lines) if line.startswith("fewlabel: ")), lines[-1] if lines else "")
        return said.removeprefix("fewlabel: ")


def at_work(path: Path) -> bool:
    """Is another process training there?"""
    if not (path / LOCK).exists():
        return False
    with RunDirectory(path) as run:
        try:
            run.lock()
        except UserError:
            return True
    return False


def progress(path: Path) -> dict[str, Any]:
    """Steps, curves, alarms and the time that is left, from the files of a run."""
    run = RunDirectory(path)
    try:
        facts = run.facts()
    except UserError:
        facts = None
    if facts is None:
        return {"stage": "preparing", "step": 0, "steps": 0}
    history, floor = run.history(), run.history(FLOOR)
    steps, lines = facts["steps"], floor or history
    step, seconds = (lines[-1]["step"], lines[-1]["seconds"]) if lines else (0, 0.0)
    left = seconds / step * (steps - step) if step else None
    if left is not None and not floor:
        left *= 1.3  # the labels alone come after it
    alarms = sorted({alarm for line in history for alarm in line.get("alarms", ())})
    return {
        "stage": "labels only" if floor else "training",
        "step": step,
        "steps": steps,
        "seconds_left": left,
        "alarms": alarms,
        "loss": curve(history, "loss"),
        "kept": curve(history, "kept"),
    }


def curve(history: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """Some points of it."""
    found = []
    for line in history[:: -(-len(history) // POINTS) or 1]:
        value = line.get(name)
        if isinstance(value, dict):
            value = value["total"]
        if value is not None:
            found.append((line["step"], round(float(value), 4)))
    return found
