"""Disks that are full, folders that may not be written, clocks that are set back, and two processes at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT

linux = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full and limits of file sizes are Linux's")


@linux
@pytest.mark.parametrize("words", [("methods",), ("--version",)])
def test_output_that_cannot_be_written(words: tuple[str, ...], tmp_path: Path) -> None:
    """Into a full disk, say: one sentence, whether it is written at once or at the end."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fewlabel", *words]
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=tmp_path, timeout=60
        )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("fewlabel: ") and ended.stderr.count("\n") == 1 and "No space left" in ended.stderr
