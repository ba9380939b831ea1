"""First stages as users type them: with `train --pretrain`, and by themselves with `pretrain`."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewlabel import SELF_SUPERVISED, Recipe, UserError, load, load_model, train
from fewlabel.grid import run_grid
from fewlabel.runs.checkpoint import read_checkpoint
from fewlabel.training.length import Seconds
from tests.equal import assert_same_run, metrics
from tests.pictures import class_folder, fruit_folder
from tests.processes import ENVIRONMENT, fewlabel, in_process, killed, past_a_checkpoint

FIRST, MAIN = 24, 24  # steps
WORDS = (
    *("train", "digits", "--labels-per-class", "2", "--pretrain", "simclr", "--pretrain-steps", str(FIRST)),
    *("--pretrain-batch", "64", "--steps", str(MAIN), "--evaluations", "4", "--network", "cnn", "--out"),
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    done = fewlabel(*WORDS, "run", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "simclr, cnn on cpu (1 thread), 24 steps, without labels; then:" in done.stdout
    assert "icl-ssl, mlp on cpu (1 thread), 24 steps, into run" in done.stdout
    return place / "run"


def facts_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "recipe.json").read_text())


# ---- a first stage in front of a method


def test_what_a_run_with_a_first_stage_leaves(undisturbed: Path) -> None:
    facts, model = facts_of(undisturbed), json.loads((undisturbed / "model.json").read_text())
    assert (facts["encoder"], facts["network"]) == ("first-stage", "mlp")
    assert (facts["first"]["network"], facts["first"]["recipe"]["method"]) == ("cnn", "simclr")
    assert (model["kind"], model["encoder"]) == ("features", "first-stage")
    first = metrics(undisturbed / "first-stage")
    assert first[-1]["step"] == FIRST
    assert {"simclr", "total"} == first[-1]["loss"].keys()
    assert first[-1]["neighbour_accuracy"] > 0.8
    assert 0 < first[-1]["spread"] < 1.1
    report = (undisturbed / "report.html").read_text()
    assert "First stage: simclr, without labels" in report
    assert "Spread of the embeddings" in report
    assert "Main stage" in report


@pytest.mark.slow
def test_the_run_can_be_moved_and_used(undisturbed: Path, tmp_path: Path) -> None:
    """Its encoder lies within it, wherever it is."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(undisturbed, moved)
    done = fewlabel("evaluate", "elsewhere", "digits", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "500 images" in done.stdout
    assert in_process("report", moved, cwd=tmp_path).returncode == 0
    assert "First stage" in (moved / "report.html").read_text()
    encoded = in_process("train", "digits", "--labels-per-class", "2", "--encoder", moved, "--steps", "2", cwd=tmp_path)
    assert encoded.returncode == 0, encoded.stderr
    shutil.rmtree(moved / "first-stage")
    broken = in_process("evaluate", "elsewhere", "digits", cwd=tmp_path)
    assert (broken.returncode, "has lost its folder first-stage" in broken.stderr) == (2, True)
    assert fewlabel(*WORDS, moved, "--resume", cwd=tmp_path).returncode == 0  # which makes it again
    for name in ("model.safetensors", "model.json"):
        assert (moved / "first-stage" / name).read_bytes() == (undisturbed / "first-stage" / name).read_bytes()
    refused = in_process(*WORDS, moved, "--overwrite", "--encoder", moved / "first-stage", cwd=tmp_path)
    assert refused.returncode == 2


@pytest.mark.parametrize("part", ["first-stage", pytest.param(".", marks=pytest.mark.slow)])
def test_killed_in_either_stage_and_resumed_is_the_same_run(undisturbed: Path, tmp_path: Path, part: str) -> None:
    run = tmp_path / "run"
    killed(*WORDS, run, when=past_a_checkpoint(run / part, lines=8), cwd=tmp_path)
    saved = read_checkpoint(run / part / "last.ckpt")
    assert saved is not None
    assert saved[1]["step"] < FIRST or part == "."
    done = fewlabel(*WORDS, run, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_run(undisturbed, run)
    for name in ("first-stage/model.safetensors", "first-stage/model.json"):
        assert (run / name).read_bytes() == (undisturbed / name).read_bytes()
    again = in_process(*WORDS, run, "--resume", cwd=tmp_path)
    assert "already finished" in again.stdout
    other = in_process(*WORDS, run, "--resume", "--simclr.temperature", "0.7", cwd=tmp_path)
    assert (other.returncode, "other settings (settings)" in other.stderr) == (2, True)


@pytest.mark.slow
def test_repeated_and_tuned(undisturbed: Path, tmp_path: Path) -> None:
    done = in_process("repeat", undisturbed, "--out", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "first-stage/model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (undisturbed / name).read_bytes()
    done = in_process(*WORDS, "tuned", "--tune", "--no-floor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = json.loads((tmp_path / "tuned/model.json").read_text())
    assert (model["kind"], model["network"], model["encoder"]) == ("images", "cnn", "none")
    assert in_process("evaluate", "tuned", "digits", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_tuning_starts_from_the_weights_of_the_first_stage(undisturbed: Path, tmp_path: Path) -> None:
    """With a learning rate of next to nothing they stay."""
    run = train(
        Recipe(
            labels_per_class=2,
            pretrain="simclr",
            pretrain_steps=FIRST,
            pretrain_batch=64,
            network="cnn",
            steps=3,
            tune=True,
            learning_rate=1e-9,
            floor=False,
            threads=1,
            out=str(tmp_path / "run"),
        ),
        quiet=True,
    )
    first = load_model_network(run.directory / "first-stage")
    for name, value in run.network.encoder.state_dict().items():
        if "running" not in name and "tracked" not in name:
            assert np.allclose(value, first[f"encoder.{name}"], atol=1e-5)


def load_model_network(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.slow
def test_icl_in_both_stages_with_settings_of_its_own(tmp_path: Path) -> None:
    recipe = Recipe(
        labels_per_class=2,
        pretrain="icl",
        pretrain_steps=2,
        pretrain_batch=32,
        steps=2,
        network="mlp",
        settings={"icl.temperature": 0.5, "first-stage.icl.weight": 0.75},
        floor=False,
        out=str(tmp_path / "run"),
    )
    train(recipe, quiet=True)
    facts = facts_of(tmp_path / "run")
    assert facts["recipe"]["settings"]["icl.weight"] == 0.1
    assert facts["first"]["recipe"]["settings"]["icl.weight"] == 0.75
    assert facts["first"]["recipe"]["settings"]["icl.temperature"] == 0.5
    assert train(replace(recipe), resume=True, quiet=True).directory == tmp_path / "run"
    done = in_process("repeat", "run", "--out", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert facts_of(tmp_path / "again")["first"]["recipe"]["settings"] == facts["first"]["recipe"]["settings"]
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "run/model.safetensors").read_bytes()


@pytest.mark.slow
def test_minutes_are_divided_among_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the main stage and the floor takes 10 ms each, one of the first stage 100, encoding 2 s."""
    seconds = {True: Seconds(0.1, 0.0), False: Seconds(0.01, 0.0)}
    monkeypatch.setattr("fewlabel.training.length.seconds_of", lambda part, _: seconds[part.plan.is_first_stage])
    monkeypatch.setattr("fewlabel.training.length.encoding_seconds", lambda _: 2.0)
    recipe = Recipe(
        labels_per_class=2,
        pretrain="simclr",
        pretrain_batch=16,
        pretrain_share=0.75,
        network="mlp",
        evaluations=1,
        minutes=0.2,  # 12 s
    )

    def steps(**changes: Any) -> tuple[int, int]:
        run = tmp_path / str(len(list(tmp_path.iterdir())))
        train(replace(recipe, out=str(run), **changes), quiet=True)
        facts = facts_of(run)
        return facts["steps"], facts["first"]["steps"]

    assert steps() == (125, 75)  # a quarter of ten seconds for both, and the rest
    assert steps(pretrain_share=0.5) == (250, 50)
    assert steps(tune=True) == (150, 90)  # nothing is encoded
    monkeypatch.setattr("fewlabel.training.plan.STEPS", 25)
    assert steps() == (25, 95)  # what they need, where that is less


@pytest.mark.slow
def test_evaluations_are_part_of_the_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one takes as long as 20 steps of the first stage, few are left."""
    seconds = {True: Seconds(0.1, 2.0), False: Seconds(0.01, 0.0)}
    monkeypatch.setattr("fewlabel.training.length.seconds_of", lambda part, _: seconds[part.plan.is_first_stage])
    monkeypatch.setattr("fewlabel.training.length.encoding_seconds", lambda _: 0.0)
    recipe = Recipe(labels_per_class=2, pretrain="simclr", pretrain_batch=16, network="mlp", minutes=0.5, floor=False)
    train(replace(recipe, out=str(tmp_path / "run")), quiet=True)
    first = facts_of(tmp_path / "run")["first"]
    assert first["evaluations"] <= 3
    assert 0.1 * first["steps"] + 2.0 * first["evaluations"] <= 30


@pytest.mark.slow
def test_pretrain_for_minutes_and_resumed_without_a_directory(tmp_path: Path) -> None:
    fruit_folder(tmp_path / "photos")
    words = ("pretrain", "photos", "--size", "16", "--steps", "30", "--evaluations", "3")
    killed(*words, when=(tmp_path / "runs/photos-simclr-0/last.ckpt").exists, cwd=tmp_path)
    done = fewlabel(*words, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["photos-simclr-0"]
    done = fewlabel("pretrain", "digits", "--minutes", "0.03", "--batch", "32", "--out", "m", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "m/floor").exists()


def test_reported_and_repeated_by_itself(tmp_path: Path) -> None:
    done = in_process("pretrain", "digits", "--batch", "32", "--steps", "3", "--out", "my run", cwd=tmp_path)
    assert "fewlabel train digits --encoder 'my run'" in done.stdout
    before = (tmp_path / "my run/report.html").read_text()
    assert in_process("report", "my run", cwd=tmp_path).returncode == 0
    assert (tmp_path / "my run/report.html").read_text() == before
    assert in_process("repeat", "my run", "--out", "again", cwd=tmp_path).returncode == 0
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "my run/model.safetensors").read_bytes()


def test_few_pictures_and_few_labels(tmp_path: Path) -> None:
    labels = fruit_folder(tmp_path / "photos", each=2, labelled=1)
    words = ("--labels", labels, "--pretrain", "simclr", "--pretrain-steps", "2", "--steps", "2", "--out", "run")
    done = in_process("train", "photos", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "neighbours" not in done.stdout  # of no class there are two
    for path in list((tmp_path / "photos").iterdir())[1:]:
        path.unlink()
    done = in_process("pretrain", "photos", "--out", "one", cwd=tmp_path)
    assert (done.returncode, "needs two images at least" in done.stderr) == (2, True)
    assert not (tmp_path / "one/recipe.json").exists()


@pytest.mark.slow
def test_on_two_processes(undisturbed: Path, tmp_path: Path) -> None:
    """Each in a folder of its own, as on two machines: only the first writes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "fewlabel", *WORDS, "run"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0, done.stderr
    one, two = (metrics(run / "first-stage")[-1]["loss"]["total"] for run in (undisturbed, tmp_path / "run"))
    assert two == pytest.approx(one, rel=0.02)


@pytest.mark.slow
def test_a_grid(tmp_path: Path) -> None:
    recipe = Recipe(
        labels_per_class=2,
        pretrain="simclr",
        pretrain_steps=2,
        pretrain_batch=16,
        network="cnn",
        steps=2,
        floor=False,
        settings={"simclr.temperature": 0.5},
    )
    spelled = replace(recipe, settings=recipe.settings | {"icl.weight": 0.5, "icl.share": 0.125})
    results = run_grid([recipe, spelled], tmp_path)
    assert [result.error for result in results] == [None, None]
    runs = [tmp_path / "runs" / path.stem for path in (tmp_path / "results").iterdir()]
    of_main = [json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["seconds"] for run in runs]
    assert sum(result.seconds for result in results) > sum(of_main)  # both stages count
    assert len(list((tmp_path / "results").iterdir())) == 2


@pytest.mark.slow
def test_minutes_typed(tmp_path: Path) -> None:
    words = ("train", "digits", "--labels-per-class", "2", "--pretrain", "moco", "--minutes", "0.05", "--out", "run")
    done = fewlabel(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert facts_of(tmp_path / "run")["first"]["steps"] >= 1
    assert "Test accuracy" in done.stdout


# ---- by itself


@pytest.mark.parametrize("name", SELF_SUPERVISED)
def test_every_first_stage_from_a_command(name: str, tmp_path: Path) -> None:
    run = fewlabel if name == "barlow-twins" else in_process
    done = run("pretrain", "digits", "--method", name, "--batch", "32", "--steps", "3", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = json.loads((tmp_path / "run/model.json").read_text())
    assert (model["method"], model["classes"]) == (name, [])
    assert "Similar images" in (tmp_path / "run/report.html").read_text()
    words = ("--pretrain", name, "--pretrain-steps", "2", "--pretrain-batch", "32", "--steps", "2", "--no-floor")
    done = in_process("train", "digits", "--labels-per-class", "2", *words, "--out", "second", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_pictures_without_any_label(tmp_path: Path) -> None:
    """Pre-trained, looked at for suggestions, then classified on top; the guide's words."""
    labels = fruit_folder(tmp_path / "photos")
    test = class_folder(tmp_path / "test")
    words = ("pretrain", "photos", "--images", "2000", "--batch", "36", "--size", "16", "--out", "features")
    done = fewlabel(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fewlabel train photos --encoder features" in done.stdout
    assert "neighbours of the same class" not in done.stdout  # nobody knows them
    done = fewlabel("suggest", "photos", "--encoder", "features", "-n", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = ("train", "photos", "--labels", str(labels), "--test", str(test), "--encoder", "features", "--steps", "50")
    done = fewlabel(*words, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert load_model(tmp_path / "run").evaluate(test).accuracy > 0.8
    done = in_process("predict", "features", "photos", cwd=tmp_path)
    assert (done.returncode, "was trained without labels" in done.stderr) == (2, True)


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    words = ("pretrain", "digits", "--batch", "64", "--steps", "40", "--evaluations", "4", "--out")
    assert in_process(*words, "one", "--threads", "1", cwd=tmp_path).returncode == 0
    killed(*words, "two", "--threads", "1", when=(tmp_path / "two/last.ckpt").exists, cwd=tmp_path)
    done = fewlabel(*words, "two", "--threads", "1", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "one", tmp_path / "two")
    assert "already finished" in in_process(*words, "two", "--threads", "1", "--resume", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "digits", "--method", "simclr"), "write --pretrain simclr for a first stage"),
        (("train", "digits", "--pretrain", "fixmatch"), "unknown method of a first stage 'fixmatch'"),
        (("train", "digits", "--pretrain", "simclr", "--moco.queue", "9"), "Unknown option"),
        (("train", "digits", "--pretrain-images", "9"), "choose one with --pretrain"),
        (("pretrain", "digits", "--method", "icl-ssl"), "unknown method of a first stage"),
        (("pretrain", "nowhere"), "unknown data set or folder"),
        (("pretrain", "digits", "--images", "3"), "more than 3 images: increase --images, or reduce --batch"),
        (("pretrain",), "requires an argument"),
        (("train", "digits", "--pretrain", "simclr", "--pretrain-steps", "5", "--minutes", "1"), "give only one of"),
        (("train", "digits", "--pretrain-batch", "9"), "--pretrain-batch belongs to a first stage"),
        (("train", "digits", "--pretrain", "simclr", "--pretrain-share", "0.5"), "--pretrain-share needs --minutes"),
        (
            ("train", "digits", "--pretrain", "simclr", "--encoder-rate", "0.5", "--tune"),
            "cannot be used with --pretrain",
        ),
        (
            ("train", "digits", "--pretrain", "icl", "--icl.negatives", "other-class"),
            "which a first stage does not have",
        ),
        (("pretrain", "digits", "--method", "icl", "--icl.negatives", "other-class"), "needs predicted classes"),
        (("pretrain", "digits", "--network", "mlp", "--simclr.views", "small"), "takes images of one size"),
    ],
)
def test_mistakes(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = in_process(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_vectors_have_no_first_stage(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x_train=np.random.default_rng(0).normal(size=(40, 5)), y_train=np.arange(40) % 2)
    done = in_process("train", "rows.npz", "--pretrain", "simclr", cwd=tmp_path)
    assert (done.returncode, "a first stage is for images" in done.stderr) == (2, True)


def test_help_and_description(tmp_path: Path) -> None:
    done = in_process("pretrain", "--help", cwd=tmp_path)
    assert "--simclr.temperature" in done.stdout
    assert "--labels" not in done.stdout
    assert "--moco.queue" in in_process("pretrain", "--method", "moco", "--help", cwd=tmp_path).stdout
    assert "--pretrain simclr" in in_process("methods", "simclr", cwd=tmp_path).stdout
    both = in_process("train", "--pretrain", "moco", "--help", cwd=tmp_path).stdout
    assert "--moco.queue" in both and "--icl.weight" in both


def test_from_python(tmp_path: Path) -> None:
    from fewlabel import pretrain

    digits = load("digits")
    run = pretrain(Recipe(method="simclr", batch=32, steps=2, out=str(tmp_path / "run")), digits, quiet=True)
    assert run == tmp_path / "run"
    assert facts_of(run)["recipe"]["mu"] == 1
    with pytest.raises(UserError, match="unknown method of a first stage"):
        pretrain(Recipe(out=str(tmp_path / "other")), digits, quiet=True)
    for changes in ({"start_from": str(run)}, {"tune": True}, {"encoder": "lite0"}, {"pretrain": "simclr"}):
        with pytest.raises(UserError, match="cannot be used for training without labels"):
            pretrain(Recipe(method="simclr", out=str(tmp_path / "other"), **changes), digits, quiet=True)


def test_arrays_without_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "images.npz", x_train=load("digits").train.inputs[:40].numpy())
    done = in_process("pretrain", "images.npz", "--batch", "16", "--steps", "2", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = in_process("train", "images.npz", cwd=tmp_path)
    assert (done.returncode, "has no labelled images" in done.stderr) == (2, True)


def test_the_main_stage_alone_may_know_other_classes(tmp_path: Path) -> None:
    words = ("--pretrain", "icl", "--pretrain-steps", "2", "--pretrain-batch", "16", "--steps", "2", "--no-floor")
    only_main = ("--icl.negatives", "other-class", "--first-stage.icl.negatives", "all")
    done = in_process("train", "digits", "--labels-per-class", "2", *words, *only_main, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = facts_of(tmp_path / "run")
    assert facts["recipe"]["settings"]["icl.negatives"] == "other-class"
    assert facts["first"]["recipe"]["settings"]["icl.negatives"] == "all"
