"""The command line as its users have it: another process."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def fewlabel(*words: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fewlabel", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=300)


def start(*words: str | Path, cwd: Path) -> "subprocess.Popen[str]":
    """A command at work, which hears Ctrl-C even where the tests themselves were started in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "fewlabel", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=ENVIRONMENT,
        start_new_session=True,  # so that all its processes can be told at once, as a terminal does
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, f"the run ended too early: {process.communicate()}"
        assert time.monotonic() < until
        time.sleep(0.005)


def killed(*words: str | Path, when: Callable[[], bool], cwd: Path) -> None:
    """A command that kill -9 ends once the condition holds."""
    process = start(*words, cwd=cwd)
    wait_for(when, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def past_a_checkpoint(stage: Path, lines: int) -> Callable[[], bool]:
    """Has a stage a checkpoint, and so many lines of metrics?"""
    return lambda: (stage / "last.ckpt").exists() and (stage / "metrics.jsonl").read_text().count("\n") >= lines


def in_process(*words: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The same through the same entry point, without the seconds in which another process imports torch.

    For what follows commands that were typed for real elsewhere.
    """
    from fewlabel.commands.main import main

    output, errors = io.StringIO(), io.StringIO()
    threads = torch.get_num_threads()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(list(map(str, words)))
    torch.set_num_threads(threads)
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())
