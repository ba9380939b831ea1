"""What scripts/campaign and scripts/kills share: commands in forked processes, and results kept line by line."""

import json
import os
import resource
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(ROOT))


def in_a_fork(place: Path, words: list[str], memory: int | None = None) -> int:
    """The process that runs the command, without the seconds of its imports; its output goes into files beside.

    It leads a group of its own, and may take so many bytes of memory more than it begins with.
    """
    process = os.fork()
    os.setpgid(process, process)  # by both, since either may come first
    if process:
        return process
    code = 1
    try:
        os.chdir(place)
        for number, path in ((1, output_of(place)), (2, errors_of(place))):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        if memory is not None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + memory
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        from fewlabel.commands.main import main

        code = main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def output_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.stdout")


def errors_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.stderr")


def restore(inputs: Path, place: Path) -> None:
    """The inputs where they were made: a run knows where its data lie."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(inputs, place)


def kept(results: Path) -> list[dict[str, Any]]:
    """The lines so far; half a line, of a script that was killed, is left out."""
    if not results.exists():
        return []
    *whole, _ = results.read_text().split("\n")
    return [json.loads(line) for line in whole]


def keep(results: Path, **facts: Any) -> None:
    """One more line."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with open(results, "a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(f"{json.dumps(facts)}\n".encode())
