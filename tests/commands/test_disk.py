"""Disks that are full, and two processes at once."""

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pictures import fruit_folder
from tests.processes import ENVIRONMENT, in_process, start

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


TRAIN = ("train", "photos", "--labels", "labels.csv", "--encoder", "none", "--network", "mlp", "--threads", "1")
SHORT = (*TRAIN, "--steps", "4", "--evaluations", "2", "--no-floor", "--out")


@contextlib.contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk does, without the rights to mount one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    fruit_folder(tmp_path / "photos")
    return tmp_path


@linux
def test_a_training_that_filled_the_disk_is_continued(photos: Path) -> None:
    assert in_process(*SHORT, "undisturbed", cwd=photos).returncode == 0
    with files_at_most(100_000):  # pixels fit, a checkpoint does not
        full = in_process(*SHORT, "run", cwd=photos)
    assert full.returncode == 2 and "could not save run/new.ckpt (File too large): free some space" in full.stderr
    assert not (photos / "run/model.safetensors").exists()
    again = in_process(*SHORT, "run", "--resume", cwd=photos)
    assert again.returncode == 0, again.stderr
    for name in ("model.safetensors", "predictions.csv", "labels.csv"):
        assert (photos / "run" / name).read_bytes() == (photos / "undisturbed" / name).read_bytes()


@linux
def test_outputs_and_caches_on_a_full_disk(photos: Path) -> None:
    """One sentence each, and nothing half-written stays."""
    assert in_process(*SHORT, "run", cwd=photos).returncode == 0
    before = sorted(photos.rglob("*"))
    for words, at_most in (
        (("predict", "run", "photos", "-o", "out.csv"), 500),
        (("suggest", "photos", "--run", "run", "-n", "3", "-o", "out.csv"), 20),
        (("audit", "run", "-n", "5", "-o", "out.csv"), 20),
        (("evaluate", "run", "photos", "--labels", "labels.csv", "--mistakes", "wrong.html"), 20),
        (("report", "run"), 1000),
        ((*SHORT, "other", "--size", "40"), 1000),  # which decodes anew
    ):
        with files_at_most(at_most):
            full = in_process(*words, cwd=photos)
        assert full.returncode == 2 and "(File too large)" in full.stderr and full.stderr.count("\n") == 1, words
        assert sorted(photos.rglob("*")) == before, words


@pytest.mark.slow
def test_two_processes_in_one_run_and_on_one_cache(photos: Path) -> None:
    """One of them trains, the other is told; in runs of their own both reach the same bytes."""
    there = [start(*SHORT, name, cwd=photos) for name in ("one", "one", "two")]
    said = [process.communicate(timeout=120)[1] for process in there]
    codes = [process.returncode for process in there]
    assert sorted(codes[:2]) == [0, 2] and codes[2] == 0, said
    refused = said[codes.index(2)]
    assert "another process is training in one" in refused or "one already holds a run" in refused
    assert (photos / "one/model.safetensors").read_bytes() == (photos / "two/model.safetensors").read_bytes()
