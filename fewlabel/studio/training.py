"""Training from the page: `fewlabel train` in its own process, watched through the files of its run."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ..errors import UserError
from ..run_files import FLOOR, LOCK
from ..runs.directory import RunDirectory
from .worker import let_the_page_go_first

POINTS = 100  # of a curve


class Training:
    """The training process; at most one at a time."""

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
        self.run, self._cancelled = run, False

    def start(self, run: Path, words: list[str]) -> None:
        """`words` follow `fewlabel train`."""
        if self.going_on:
            raise UserError("a training is already running.")
        self.run, self._cancelled = run, False
        if self._output is not None:
            self._output.close()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until the next training
        command = [sys.executable, "-m", "fewlabel", "train", *words, "--out", str(run)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True
        )
        let_the_page_go_first(self._process.pid)

    def cancel(self) -> None:
        if self.run is None or not self.going_on:
            return
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
        elif not interrupt(self.run):
            raise UserError(
                "the process of this training, which an earlier studio started, was not found: wait for it."
            )
        self._cancelled = True

    def close(self) -> None:
        """Before the studio ends."""
        with suppress(UserError):
            self.cancel()
        if self._process is not None:
            self._process.wait()
        if self._output is not None:
            self._output.close()

    def state(self) -> dict[str, Any]:
        """The state of the training for the page."""
        if self.run is None:
            return {"status": "none"}
        if self._process is None:
            ended = "finished" if RunDirectory(self.run).finished else "cancelled" if self._cancelled else "failed"
            status = "going on" if self.going_on else ended
            message = "It was interrupted." if status == "failed" else ""
            return {"status": status, "run": self.run.name, "message": message, **progress(self.run)}
        code = self._process.poll()
        ended = "cancelled" if self._cancelled else "finished" if code == 0 else "failed"
        status = "going on" if code is None else ended
        return {"status": status, "run": self.run.name, "message": self._message(code), **progress(self.run)}

    def _message(self, code: int | None) -> str:
        """The last output of a failed training."""
        if code in (None, 0) or self._cancelled or self._output is None:
            return ""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        said = next((line for line in reversed(lines) if line.startswith("fewlabel: ")), lines[-1] if lines else "")
        return said.removeprefix("fewlabel: ")


def at_work(path: Path) -> bool:
    """Whether another process is training there."""
    if not (path / LOCK).exists():
        return False
    with RunDirectory(path) as run:
        try:
            run.lock()
        except UserError:
            return True
    return False


def interrupt(run: Path) -> bool:
    """Ctrl-C for the process that a studio has started to train there; False where it is not found."""
    if not hasattr(os, "pidfd_open"):  # Linux has it
        return False
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if trains_in(place, run):
                process = os.pidfd_open(int(place.name))  # means that process, whoever gets its number afterwards
                try:
                    if trains_in(place, run):
                        signal.pidfd_send_signal(process, signal.SIGINT)
                        return True
                finally:
                    os.close(process)
    return False


def trains_in(process: Path, run: Path) -> bool:
    """Whether the process is ours and was started by `Training.start` for that run."""
    words = (process / "cmdline").read_bytes().split(b"\0")
    ours = process.stat().st_uid == os.getuid() and os.getsid(int(process.name)) == int(process.name)
    return ours and words[1:4] == [b"-m", b"fewlabel", b"train"] and words[-3:] == [b"--out", os.fsencode(run), b""]


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
