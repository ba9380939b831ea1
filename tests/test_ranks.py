"""Runs on several processes: real ones, started by torchrun and connected by gloo."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fewlabel import METHODS, SELF_SUPERVISED, UserError
from fewlabel.augment import VIEWS
from fewlabel.methods import TERMS, parts_of
from fewlabel.networks import share_norms
from fewlabel.randomness import Draws
from fewlabel.ranks import Ranks
from fewlabel.runs.checkpoint import read_checkpoint
from tests import together
from tests.augment.test_randaugment import photographs
from tests.drawing import draws
from tests.equal import assert_same_run, metrics
from tests.processes import ENVIRONMENT, fewlabel, wait_for

STEPS = 48
WORDS = [
    "train",
    "digits",
    "--labels-per-class",
    "2",
    "--steps",
    str(STEPS),
    "--evaluations",
    "6",
    "--batch",
    "9",
    "--out",
]


@contextmanager
def torchrun(*words: str | Path, cwd: Path, restarts: int = 0) -> Iterator["subprocess.Popen[str]"]:
    """A launcher with its processes, none of which is left behind."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", str(restarts), *map(str, words)]
    # torch's launcher itself warns of things that are not ours
    environment = {**ENVIRONMENT, "PYTHONWARNINGS": "default", "PYTHONPATH": str(Path(__file__).parent.parent)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment
    ) as launcher:
        try:
            yield launcher
        finally:
            if launcher.poll() is None:
                for process in (*workers(launcher).values(), launcher.pid):
                    os.kill(process, signal.SIGKILL)


def finished(*words: str | Path, cwd: Path) -> tuple[str, str]:
    with torchrun(*words, cwd=cwd) as launcher:
        output, errors = launcher.communicate(timeout=240)
    assert launcher.returncode == 0, errors
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
    finished(together.__file__, place, cwd=place)
    together.main(str(place))
    return place


@pytest.mark.slow
@pytest.mark.parametrize("case", together.CASES)
def test_two_processes_solve_the_same_problem(compared: Path, case: str) -> None:
    """Losses, guesses, weights, averages, momentum and whatever the method remembers, after several steps."""
    (alone, state), (shared, other) = (torch.load(compared / f"{case}-{count}.pt") for count in (1, 2))
    for (terms, records, images), (terms2, records2, images2) in zip(alone, shared, strict=True):
        assert images == images2
        assert_close(terms, terms2)
        assert_close(records, records2)
    assert all(any(terms[name] != 0 for terms, _, _ in alone) for name in alone[0][0])  # every term has its say
    assert_close(
        {name: tensor for name, tensor in state.items() if "num_batches_tracked" not in name},
        {name: tensor for name, tensor in other.items() if "num_batches_tracked" not in name},
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_weight_0_changes_no_bit_of_its_base_on_two_processes(compared: Path, name: str, term: str) -> None:
    (alone, both) = (torch.load(compared / f"{case}-2.pt")[1] for case in (name, f"{name}+{term} idle"))
    networks = [{k: v for k, v in state.items() if "/network." in k} for state in (alone, both)]
    assert networks[0]
    assert all(torch.equal(value, networks[1][key]) for key, value in networks[0].items())


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.allclose(second[name], tensor, rtol=1e-8, atol=1e-10), name


def test_every_method_and_term_is_compared() -> None:
    methods = [case["method"] for case in together.CASES.values()]
    assert {part for method in methods for part in parts_of(method)} == {*METHODS, *TERMS, *SELF_SUPERVISED}


# ---- the command


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    output, errors = finished("-m", "fewlabel", *WORDS, "run", cwd=place)
    assert output.count("on 2 processes, each on cpu") == 1
    assert output.count(f"step {STEPS}/{STEPS}") == 2  # of the run and of its floor
    assert output.count("Report: ") == 1
    assert "Traceback" not in errors
    return place / "run"


def test_the_run_of_two_processes(undisturbed: Path) -> None:
    facts = json.loads((undisturbed / "recipe.json").read_text())
    assert (facts["processes"], facts["steps"], facts["recipe"]["batch"]) == (2, STEPS, 9)
    lines = metrics(undisturbed)
    assert [line["step"] for line in lines if "accuracy" in line] == [8, 16, 24, 32, 40, 48]
    assert lines[-1]["accuracy"] > 0.3  # of ten classes


def interrupt(cwd: Path, rank: int | None, number: int, restarts: int = 0) -> tuple[int, str, str]:
    """Train into cwd / "run"; after the second checkpoint send a signal to a rank, or to the launcher."""
    with torchrun("-m", "fewlabel", *WORDS, "run", cwd=cwd, restarts=restarts) as launcher:
        wait_for((cwd / "run" / "previous.ckpt").exists, launcher)
        os.kill(launcher.pid if rank is None else workers(launcher)[rank], number)
        output, errors = launcher.communicate(timeout=240)
    return launcher.returncode, output, errors


@pytest.mark.slow
def test_resumed_by_as_many_processes_it_is_the_same_run(undisturbed: Path, tmp_path: Path) -> None:
    """Also after one of them was killed, which is said, and after which the checkpoint is whole."""
    code, _, errors = interrupt(tmp_path, 1, signal.SIGKILL)
    assert code != 0
    assert "another process of this run has ended" in errors
    assert "--resume" in errors
    saved = read_checkpoint(tmp_path / "run" / "last.ckpt")
    assert saved is not None
    assert 0 < saved[1]["step"] < STEPS
    shutil.copytree(tmp_path / "run", tmp_path / "other" / "run")
    output, _ = finished("-m", "fewlabel", *WORDS, "run", "--resume", cwd=tmp_path)
    assert f"continuing after step {saved[1]['step']}" in output
    assert "may not be bit-identical" not in output
    assert_same_run(undisturbed, tmp_path / "run")

    done = fewlabel(*WORDS, "run", "--resume", cwd=tmp_path / "other")  # by another number of them
    assert done.returncode == 0, done.stderr
    assert "processes or versions differ from before" in done.stdout
    lines, expected = metrics(tmp_path / "other" / "run"), metrics(undisturbed)
    assert (len(lines), lines[0]) == (len(expected), expected[0])


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_carries_on_by_itself(undisturbed: Path, tmp_path: Path, rank: int) -> None:
    code, output, errors = interrupt(tmp_path, rank, signal.SIGKILL, restarts=3)
    assert code == 0, errors
    assert output.count("continuing after step") == 1
    assert_same_run(undisturbed, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_is_saved(tmp_path: Path, number: int) -> None:
    code, _, errors = interrupt(tmp_path, None, number)
    assert code != 0
    assert errors.count("everything is saved. Continue with: torchrun as before, -m fewlabel train digits") == 1
    assert read_checkpoint(tmp_path / "run" / "last.ckpt") is not None


@pytest.mark.slow
def test_norms_of_each_process_alone(tmp_path: Path) -> None:
    whole_batch = ("--icl.share", "1", "--no-floor")
    for name, more in (("alone", ("--no-share-norms",)), ("shared", ())):
        finished("-m", "fewlabel", *WORDS, name, *whole_batch, *more, cwd=tmp_path)
    first, other = (metrics(tmp_path / name)[0]["loss"] for name in ("alone", "shared"))
    assert first["labelled"] == pytest.approx(other["labelled"], rel=0.2)
    assert first != other


@pytest.mark.slow
def test_norms_of_each_process_alone_need_two_rows(tmp_path: Path) -> None:
    """ICL mixes two rows of this batch, so that each process has one of them."""
    with torchrun("-m", "fewlabel", *WORDS, "run", "--no-share-norms", cwd=tmp_path) as launcher:
        _, errors = launcher.communicate(timeout=240)
    assert launcher.returncode != 0 and "ValueError" not in errors
    assert errors.count("2 processes need 4 images in each pass, and one pass has 2: increase --batch.") == 1


@pytest.mark.slow
def test_what_cannot_work_is_said_once(tmp_path: Path) -> None:
    with torchrun("-m", "fewlabel", *WORDS, "run", "--device", "cpu:0", cwd=tmp_path) as launcher:
        _, errors = launcher.communicate(timeout=240)
    assert launcher.returncode != 0
    assert errors.count("is one device: use cpu") == 1
    assert "another process of this run has ended" not in errors
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_of_others_is_not_continued_by_a_restart(undisturbed: Path) -> None:
    """Refused at the first start, it is refused again when torchrun starts the processes once more."""
    before = {path: path.stat().st_mtime_ns for path in undisturbed.iterdir()}
    with torchrun("-m", "fewlabel", *WORDS, "run", cwd=undisturbed.parent, restarts=1) as launcher:
        output, errors = launcher.communicate(timeout=240)
    assert launcher.returncode != 0
    assert errors.count("already holds a run") == 2
    assert output == ""
    assert before == {path: path.stat().st_mtime_ns for path in undisturbed.iterdir()}


def test_what_several_processes_cannot_do() -> None:
    cpu = torch.device("cpu")
    Ranks(3, 4).check(cpu, batch=4, share_norms=True)
    Ranks(0, 2).check(cpu, batch=4, share_norms=False)
    for device, count, shared, message in (
        (cpu, 5, True, "5 processes need at least 5 labelled examples per step: increase --batch"),
        (
            cpu,
            3,
            False,
            "3 processes need at least 6 labelled examples per step: increase --batch",
        ),  # two for each norm
        (torch.device("mps"), 2, True, "cannot share the device mps"),
        (torch.device("cuda:1"), 2, True, "--device cuda:1 is one device: use cuda"),
    ):
        with pytest.raises(UserError, match=message):
            Ranks(0, count).check(device, batch=4, share_norms=shared)


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


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_shared_norms_in_half_precision(shift: float) -> None:
    """As precise as torch's own, also where the mean is far from 0."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(64, 6, 5, 5, generator=draw) + shift
    toward = torch.randn(64, 6, 5, 5, generator=draw)

    def gradient(precision: torch.dtype, kind: str) -> Tensor:
        layer = nn.BatchNorm2d(6)
        if kind == "shared":
            share_norms(layer, ranks := Ranks())
            ranks.at_work = True
        given = rows.to(precision).detach().requires_grad_()
        (layer(given).float() * toward).sum().backward()
        assert given.grad is not None
        return given.grad.float()

    exact = gradient(torch.float32, "torch")
    assert torch.allclose(gradient(torch.float32, "shared"), exact, atol=1e-5)
    errors = {kind: (gradient(torch.bfloat16, kind) - exact).norm() for kind in ("torch", "shared")}
    assert errors["shared"] < 1.5 * errors["torch"]
