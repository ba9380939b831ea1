"""A grid on a real Dask cluster of two processes, one of which is killed."""

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import distributed
import pytest

from fewlabel import Recipe
from fewlabel.commands.main import main
from fewlabel.errors import UserError
from fewlabel.grid import Result, read_result, run_grid, write_result
from fewlabel.training import check_recipe
from tests.encoders.test_onnx import write as write_encoder
from tests.pictures import fruit_folder

BASE = Recipe(labels_per_class=2, network="mlp", batch=8, mu=1, steps=10, evaluations=1, floor=False)
BASE = replace(BASE, method="supervised", learning_rate=0.03)


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.LocalCluster]:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield made


def accuracies(results: list[Result]) -> list[float | None]:
    assert [result.error for result in results] == [None] * len(results)
    return [result.accuracy for result in results]


def test_a_cluster_gives_the_same_accuracies(cluster: distributed.LocalCluster, tmp_path: Path) -> None:
    recipes = [replace(BASE, seed=seed) for seed in range(3)]
    told: list[Result] = []
    far = run_grid(recipes, tmp_path / "far", scheduler=cluster.scheduler_address, told=told.append)
    assert [result.recipe["seed"] for result in far] == [0, 1, 2]
    assert sorted(result.recipe["seed"] for result in told) == [0, 1, 2]
    assert len(set(accuracies(far))) > 1
    assert accuracies(far) == accuracies(run_grid(recipes, tmp_path / "near"))

    told.clear()
    again = run_grid(recipes, tmp_path / "far", scheduler=cluster.scheduler_address, told=told.append)
    assert (again, told) == (far, [])


def test_a_failure_on_a_cluster_is_kept_and_stops_no_other_run(
    cluster: distributed.LocalCluster, tmp_path: Path
) -> None:
    recipes = [replace(BASE, labels_per_class=100_000), BASE]
    results = run_grid(recipes, tmp_path, scheduler=cluster.scheduler_address)
    assert "fewer than --labels-per-class 100000" in (results[0].error or "")
    assert results[1].error is None


@pytest.mark.slow
def test_a_killed_worker_does_not_stop_the_grid(cluster: distributed.LocalCluster, tmp_path: Path) -> None:
    """Killed in the midst of a run, past a checkpoint: the results are those of an undisturbed grid."""
    recipes = [replace(BASE, seed=seed, steps=600, evaluations=6) for seed in range(3)]
    victim = Victim(cluster.scheduler_address, tmp_path / "far")
    victim.start()
    results = run_grid(recipes, tmp_path / "far", scheduler=cluster.scheduler_address)
    victim.join()
    assert victim.error is None
    assert victim.unfinished >= 1
    assert accuracies(results) == accuracies(run_grid(recipes, tmp_path / "near"))
    with distributed.Client(cluster.scheduler_address) as client:
        assert victim.pid not in client.run(os.getpid).values()


class Victim(threading.Thread):
    """Kills a worker as soon as every worker that has something to do is past a checkpoint of it."""

    def __init__(self, scheduler: str, out: Path) -> None:
        super().__init__()
        self.scheduler, self.out = scheduler, out
        self.pid, self.unfinished = 0, 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.kill()
        except BaseException as error:  # shown by the test, which would not see it otherwise
            self.error = error

    def kill(self) -> None:
        until = time.monotonic() + 120
        with distributed.Client(self.scheduler, set_as_default=False) as client:
            pids: dict[str, int] = client.run(os.getpid)
            busy: list[str] = []
            while not 1 <= len(busy) <= len(self.begun()):
                assert time.monotonic() < until, "no run has begun"
                time.sleep(0.01)
                busy = [worker for worker, tasks in client.processing().items() if tasks]
            self.pid = pids[busy[0]]
            os.kill(self.pid, signal.SIGKILL)
            self.unfinished = len(self.begun())

    def begun(self) -> set[str]:
        """Runs with a checkpoint but without a result."""
        saved = {path.parent.name for path in self.out.glob("runs/*/last.ckpt")}
        return saved - {path.stem for path in self.out.glob("results/*.json")}


def test_workers_with_other_disks(
    cluster: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they write is not seen here: the results are, also in the place of a failure before."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    recipes = [check_recipe(replace(BASE, seed=seed)) for seed in range(2)]
    write_result(Path("out"), recipes[1], Result(recipes[1].to_dict(), error="no luck"))
    with distributed.Client(cluster.scheduler_address) as client:
        client.wait_for_workers(2)  # the killed one has come back
        before = client.run(os.getcwd)
        client.run(os.chdir, tmp_path / "there")
        results = run_grid(recipes, Path("out"), scheduler=cluster.scheduler_address)
        client.run(os.chdir, next(iter(before.values())))
    assert len(accuracies(results)) == 2
    assert len(list((tmp_path / "there/out/results").iterdir())) == 2
    assert not (tmp_path / "here/out/runs").exists()
    assert [read_result(Path("out"), recipe) for recipe in recipes] == results


def test_the_command_runs_a_table_on_a_cluster(
    cluster: distributed.LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["paper", "run", "table7", "--scale", "smoke", "--out", str(tmp_path)]
    assert main([*words, "--backend", "dask", "--scheduler", cluster.scheduler_address]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("6 runs, 0 of them done.")
    assert len([line for line in said if line.startswith("digits, 2 a class, ")]) == 6
    facts = [json.loads(path.read_text()) for path in (tmp_path / "results").iterdir()]
    assert [fact["error"] for fact in facts] == [None] * 6
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("6 runs, 6 of them done.")


# ---- where there is no cluster


def half_open() -> list[distributed.Client]:
    return [thing for thing in gc.get_objects() if type(thing) is distributed.Client and thing.status != "closed"]


@pytest.fixture
def tidy() -> Iterator[None]:
    """A client that is thrown away half open may block the process for ever, when the next one is made."""
    yield
    for client in half_open():
        client.close()


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:8786", "127.0.0.1:port", "tcp://127.0.0.1:9"])
@pytest.mark.usefixtures("tidy")
def test_an_address_where_nobody_answers(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused at once where it cannot be an address, else given up after a while."""
    monkeypatch.setattr("fewlabel.cluster.PATIENCE", 1)
    with pytest.raises(UserError, match=f"no Dask scheduler answers at {address} "):
        run_grid([BASE], tmp_path, scheduler=address)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("tidy")
def test_no_client_is_left_half_open(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run_grid([BASE], tmp_path, scheduler="nonsense")
    assert half_open() == [], str(caught.value)


@pytest.mark.parametrize("words", [["--backend", "dask"], ["--scheduler", "tcp://127.0.0.1:9"]])
def test_backend_and_scheduler_belong_together(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "run", "table7", "--scale", "smoke", "--out", str(tmp_path / "out"), *words]) == 2
    assert capsys.readouterr().err == "fewlabel: use --backend dask and --scheduler ADDRESS together.\n"
    assert not (tmp_path / "out").exists()


def test_pictures_are_encoded_on_a_cluster(
    cluster: distributed.LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As it is typed; the features are those of this machine."""
    monkeypatch.setattr("fewlabel.encoders.encode.CHUNK", 5)
    labels = fruit_folder(tmp_path / "photos")
    write_encoder(tmp_path / "encoder.onnx")
    words = ["train", str(tmp_path / "photos"), "--labels", str(labels), "--encoder", str(tmp_path / "encoder.onnx")]
    words += ["--steps", "3", "--threads", "1"]
    found = []
    for where in (["--backend", "dask", "--scheduler", cluster.scheduler_address], []):
        monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / f"cache{len(where)}"))
        assert main([*words, *where, "--out", str(tmp_path / f"run{len(where)}")]) == 0, capsys.readouterr().err
        (features,) = (tmp_path / f"cache{len(where)}").glob("sets/*/features.f32")
        found.append(features.read_bytes())
    assert found[0] == found[1] and len(found[0]) == 36 * 4 * 4
    assert main([*words, "--backend", "dask"]) == 2
    assert "use --backend dask and --scheduler ADDRESS together" in capsys.readouterr().err
