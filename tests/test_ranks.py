"""Runs on several processes: real ones, started by torchrun and connected by gloo."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fewlabel import METHODS, Recipe, UserError, load
from fewlabel.augment import VIEWS
from fewlabel.checkpoint import read_checkpoint
from fewlabel.loop import for_ranks
from fewlabel.methods import TERMS
from fewlabel.plan import make_plan
from fewlabel.randomness import Draws
from fewlabel.ranks import Ranks
from tests import together
from tests.augment.test_randaugment import photographs
from tests.commands import ENVIRONMENT, fewlabel, wait_for
from tests.drawing import draws
from tests.runs import assert_same_run, metrics

STEPS = 96
WORDS = ["train", "digits", "--labels-per-class", "2", "--steps", str(STEPS), "--evaluations", "6", "--no-floor"]
WORDS += ["--batch", "9", "--out"]
COMPARED = (*METHODS, "fixmatch+icl", "fixmatch+aug-contrast")


def torchrun(*words: str | Path, cwd: Path, processes: int = 2, restarts: int = 0) -> "subprocess.Popen[str]":
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    launcher += ["--max-restarts", str(restarts)]
    return subprocess.Popen(
        [*launcher, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        # torch's launcher itself warns of things that are not ours
        env={**ENVIRONMENT, "PYTHONWARNINGS": "default", "PYTHONPATH": str(Path(__file__).parent.parent)},
        start_new_session=True,
    )


def finished(process: "subprocess.Popen[str]") -> tuple[str, str]:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return output, errors


def workers(launcher: "subprocess.Popen[str]") -> dict[int, int]:
    """Process ids by their rank."""
    found: dict[int, int] = {}
    for child in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        found |= {int(v.removeprefix(b"RANK=")): int(child) for v in variables if v.startswith(b"RANK=")}
    return found


# ---- the same problem


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some steps of every method, on one process and on two."""
    place = tmp_path_factory.mktemp("compared")
    finished(torchrun(together.__file__, place, *COMPARED, cwd=place))
    together.main(str(place), *COMPARED)
    return place


@pytest.mark.parametrize("method", COMPARED)
def test_two_processes_solve_the_same_problem(compared: Path, method: str) -> None:
    """Losses, guesses, weights, averages, momentum and whatever the method remembers, after several steps."""
    (alone, state), (shared, other) = (torch.load(compared / f"{method}-{count}.pt") for count in (1, 2))
    for (terms, records, images), (terms2, records2, images2) in zip(alone, shared, strict=True):
        assert images == images2
        assert_close(terms, terms2)
        assert_close(records, records2)
    assert all(any(terms[name] != 0 for terms, _, _ in alone) for name in alone[0][0])  # every term has its say
    assert_close(
        {name: tensor for name, tensor in state.items() if "num_batches_tracked" not in name},
        {name: tensor for name, tensor in other.items() if "num_batches_tracked" not in name},
    )


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.allclose(second[name], tensor, rtol=1e-8, atol=1e-10), name


def test_every_method_and_term_is_compared() -> None:
    assert {part for name in COMPARED for part in name.split("+")} == {*METHODS, *TERMS}


# ---- the command


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    output, errors = finished(torchrun("-m", "fewlabel", *WORDS, "run", cwd=place))
    assert output.count("on 2 processes, each on cpu") == 1
    assert output.count(f"step {STEPS}/{STEPS}") == 1
    assert output.count("Report: ") == 1
    assert "Traceback" not in errors
    return place / "run"


def test_the_run_of_two_processes(undisturbed: Path, tmp_path: Path) -> None:
    facts = json.loads((undisturbed / "recipe.json").read_text())
    assert (facts["processes"], facts["steps"], facts["recipe"]["batch"]) == (2, STEPS, 9)
    lines = metrics(undisturbed)
    assert [line["step"] for line in lines if "accuracy" in line] == [16, 32, 48, 64, 80, 96]
    done = fewlabel(*WORDS, "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    alone = metrics(tmp_path / "run")
    assert lines[0]["loss"] == pytest.approx(alone[0]["loss"], rel=1e-4)
    assert lines[-1]["accuracy"] == pytest.approx(alone[-1]["accuracy"], abs=0.1)


def interrupt(cwd: Path, rank: int | None, number: int, restarts: int = 0) -> tuple["subprocess.Popen[str]", str, str]:
    """Train into cwd / "run"; after the second checkpoint send a signal to a rank, or to all and the launcher."""
    launcher = torchrun("-m", "fewlabel", *WORDS, "run", cwd=cwd, restarts=restarts)
    wait_for((cwd / "run" / "previous.ckpt").exists, launcher)
    if rank is None:
        os.killpg(launcher.pid, number)
        for worker in workers(launcher).values():  # each is the leader of a session of its own
            os.kill(worker, number)
    else:
        os.kill(workers(launcher)[rank], number)
    output, errors = launcher.communicate(timeout=240)
    return launcher, output, errors


def test_resumed_by_as_many_processes_it_is_the_same_run(undisturbed: Path, tmp_path: Path) -> None:
    """Also after one of them was killed, which is said, and after which the checkpoint is whole."""
    launcher, _, errors = interrupt(tmp_path, 1, signal.SIGKILL)
    assert launcher.returncode != 0
    assert "another process of this run has ended" in errors
    assert "--resume" in errors
    saved = read_checkpoint(tmp_path / "run" / "last.ckpt")
    assert saved is not None
    assert 0 < saved[1]["step"] < STEPS
    output, _ = finished(torchrun("-m", "fewlabel", *WORDS, "run", "--resume", cwd=tmp_path))
    assert f"continuing after step {saved[1]['step']}" in output
    assert "bits may differ" not in output
    assert_same_run(undisturbed, tmp_path / "run")


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_carries_on_by_itself(undisturbed: Path, tmp_path: Path, rank: int) -> None:
    launcher, output, errors = interrupt(tmp_path, rank, signal.SIGKILL, restarts=3)
    assert launcher.returncode == 0, errors
    assert output.count("continuing after step") == 1
    assert_same_run(undisturbed, tmp_path / "run")


def test_told_to_stop_it_is_saved_and_another_number_of_processes_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    launcher, _, errors = interrupt(tmp_path, None, signal.SIGINT)
    assert launcher.returncode != 0
    assert errors.count("everything is saved") == 1
    done = fewlabel(*WORDS, "run", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "processes or versions; bits may differ" in done.stdout
    assert len(metrics(tmp_path / "run")) == len(metrics(undisturbed))
    assert metrics(tmp_path / "run")[0] == metrics(undisturbed)[0]


def test_norms_of_each_process_alone(undisturbed: Path, tmp_path: Path) -> None:
    finished(torchrun("-m", "fewlabel", *WORDS, "run", "--no-share-norms", cwd=tmp_path))
    first, other = metrics(tmp_path / "run")[0]["loss"], metrics(undisturbed)[0]["loss"]
    assert first["labelled"] == pytest.approx(other["labelled"], rel=0.2)
    assert first != other


def test_what_cannot_work_is_said_once(tmp_path: Path) -> None:
    launcher = torchrun("-m", "fewlabel", *WORDS, "run", "--compile", cwd=tmp_path, processes=3)
    _, errors = launcher.communicate(timeout=240)
    assert launcher.returncode != 0
    assert errors.count("--compile is for one process") == 1
    assert "another process of this run has ended" not in errors
    assert not (tmp_path / "run").exists()


def test_what_several_processes_cannot_do() -> None:
    plan = make_plan(Recipe(labels_per_class=2, batch=4, device="cpu"), load("digits"))
    assert for_ranks(plan, Ranks(3, 4)) == plan
    with pytest.raises(UserError, match="5 processes need at least as many labelled images a step: raise --batch"):
        for_ranks(plan, Ranks(0, 5))
    with pytest.raises(UserError, match="cannot share the device mps"):
        for_ranks(replace(plan, device=torch.device("mps")), Ranks(0, 2))


# ---- the parts


@pytest.mark.parametrize(("count", "total"), [(1, 5), (2, 5), (3, 7), (4, 4)])
def test_the_rows_of_all_processes_are_the_batch(count: int, total: int) -> None:
    rows = sorted(row for number in range(count) for row in range(total)[Ranks(number, count).rows()])
    assert rows == list(range(total))


def test_random_numbers_of_a_part_are_those_of_the_whole() -> None:
    def drawn(rows: slice = slice(None)) -> list[Tensor]:
        draw = Draws(torch.Generator().manual_seed(0), 7, rows)
        return [draw.uniform(), draw.integers(-2, 5, 3), draw.normal(2, 2), draw.uniform(4)]

    for whole, part in zip(drawn(), drawn(Ranks(1, 3).rows()), strict=True):
        assert torch.equal(part, whole[1::3])


@pytest.mark.parametrize("kind", VIEWS)
def test_views_of_a_part_are_those_of_the_whole(kind: str) -> None:
    images = photographs(23, 3, 16)
    whole = VIEWS[kind](images, draws(images))
    rows = Ranks(1, 4).rows()
    part = VIEWS[kind](images[rows], Draws(torch.Generator().manual_seed(0), 23, rows))
    assert torch.equal(part, whole[rows])
