"""Every example runs to its end and says something with a number in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} == {"arrays", "folder", "own_encoder", "own_method", "texts", "vectors"}


@pytest.mark.parametrize(
    "path",
    [path if path.stem == "texts" else pytest.param(path, marks=pytest.mark.slow) for path in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_example(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, **ENVIRONMENT, "TMPDIR": str(tmp_path), "FEWLABEL_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d", done.stdout.splitlines()[-1])
