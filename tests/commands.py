"""The command line as its users have it: another process."""

import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def fewlabel(*words: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fewlabel", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=300)


def start(*words: str | Path, cwd: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fewlabel", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=ENVIRONMENT
    )
