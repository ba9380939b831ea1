"""Whole runs: repeatable, killed and resumed to the same bits, stopped, spoilt."""

import json
import math
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fewlabel import Recipe, Run, UserError, load, load_model, train
from fewlabel.commands.main import main
from fewlabel.data import Dataset, Images
from fewlabel.errors import Interrupted
from fewlabel.runs.checkpoint import read_checkpoint
from fewlabel.training import Trainer
from fewlabel.training.fit import due
from fewlabel.training.length import Seconds, fit_into
from tests.equal import assert_same_run, metrics
from tests.processes import ENVIRONMENT, fewlabel, killed, past_a_checkpoint, start, wait_for

STEPS = 48
WORDS = ("train", "digits", "--labels-per-class", "2", "--steps", str(STEPS), "--evaluations", "4", "--out")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    done = fewlabel(*WORDS, "run", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return place / "run"


@pytest.mark.parametrize("part", [".", pytest.param("floor", marks=pytest.mark.slow)])
def test_killed_and_resumed_is_the_same_run(undisturbed: Path, tmp_path: Path, part: str) -> None:
    run = tmp_path / "run"
    killed(*WORDS, run, when=past_a_checkpoint(run / part, lines=12), cwd=tmp_path)
    saved = read_checkpoint(run / part / "last.ckpt")
    assert saved is not None
    assert saved[1]["step"] < STEPS
    assert len(metrics(run / part)) * STEPS > saved[1]["step"] * 40  # there are lines to be dropped

    done = fewlabel(*WORDS, run, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_run(undisturbed, run)


def test_two_processes_do_not_train_in_one_directory(tmp_path: Path) -> None:
    process = start(*WORDS, "run", cwd=tmp_path)
    wait_for((tmp_path / "run/last.ckpt").exists, process)
    process.send_signal(signal.SIGSTOP)
    done = fewlabel(*WORDS, "run", "--overwrite", cwd=tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert done.stderr == "fewlabel: another process is training in run: wait for it, or choose another --out.\n"
    assert done.returncode == 2
    assert (tmp_path / "run/last.ckpt").exists()


def test_a_checkpoint_cut_off_half_way_falls_back_to_the_previous_one(undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed(*WORDS, run, when=(run / "previous.ckpt").exists, cwd=tmp_path)
    content = (run / "last.ckpt").read_bytes()
    (run / "last.ckpt").write_bytes(content[: len(content) // 2])
    done = fewlabel(*WORDS, run, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_run(undisturbed, run)


def test_ctrl_c_saves_says_how_to_resume_and_exits_with_130(undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "a run"
    process = start(*WORDS, run, cwd=tmp_path)
    wait_for(lambda: (run / "metrics.jsonl").exists() and bool((run / "metrics.jsonl").read_text()), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.rstrip().endswith(f"--out '{run}' --resume")
    saved = read_checkpoint(run / "last.ckpt")
    assert saved is not None
    assert 0 < saved[1]["step"] < STEPS
    assert fewlabel(*WORDS, run, "--resume", cwd=tmp_path).returncode == 0
    assert_same_run(undisturbed, run)


def test_the_report_and_model_of_the_run(undisturbed: Path) -> None:
    facts = json.loads((undisturbed / "recipe.json").read_text())
    assert facts["steps"] == STEPS
    assert facts["threads"] == 1
    assert set(facts["versions"]) == {"fewlabel", "torch", "python"}
    assert (undisturbed / "report.html").stat().st_size > 50_000
    assert json.loads((undisturbed / "model.json").read_text())["network"] == "wrn-10-1"
    assert (undisturbed / "labels.csv").read_text().count("\n") == 21
    assert (undisturbed / "predictions.csv").read_text().count("\n") == 1 + 1297 - 20
    assert len(metrics(undisturbed)) == 40
    assert sum("accuracy" in line for line in metrics(undisturbed)) == 4


# ---- the same in this process, smaller


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def tiny(out: Path, **changes: Any) -> Recipe:
    recipe = Recipe(
        data="digits", labels_per_class=2, network="cnn", batch=20, steps=12, evaluations=2, floor=False, out=str(out)
    )
    return replace(recipe, **changes)


def test_same_recipe_same_bits_other_seed_other_run(digits: Dataset, tmp_path: Path) -> None:
    runs = [train(tiny(tmp_path / str(i), seed=seed), digits, quiet=True).directory for i, seed in enumerate((1, 1, 2))]
    contents = [(run / "model.safetensors").read_bytes() for run in runs]
    assert contents[0] == contents[1]
    assert metrics(runs[0]) == metrics(runs[1])
    assert contents[0] != contents[2]


def test_a_run_can_be_repeated(digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, also where settings were left open then that would now be decided otherwise."""
    length = {"steps": None, "images": 5000, "network": None, "evaluations": None, "without": "rotate"}
    first = train(tiny(tmp_path / "a", settings={"icl.weight": 0.25}, **length), digits, quiet=True)
    monkeypatch.setattr("fewlabel.data.ImageKind.default_network", lambda *_: "mlp")
    assert main(["repeat", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b/model.safetensors").read_bytes() == (first.directory / "model.safetensors").read_bytes()
    assert metrics(tmp_path / "b") == metrics(first.directory)
    assert main(["repeat", str(tmp_path / "a"), "--out", str(tmp_path / "c"), "--seed", "1"]) == 0
    assert metrics(tmp_path / "c") != metrics(first.directory)


def test_another_thing_is_not_repeated(
    digits: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images that were given in Python, and not by the recipe's `data`, are not there; nor does a run lie anywhere."""
    train(tiny(tmp_path / "a"), replace(digits, test=None), quiet=True)
    assert main(["repeat", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 2
    assert "digits does not hold the data" in capsys.readouterr().err
    assert main(["repeat", str(tmp_path), "--out", str(tmp_path / "b")]) == 2
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["repeat", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 2
    assert "one process" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_without_predictions(digits: Dataset, tmp_path: Path) -> None:
    run = train(tiny(tmp_path / "a", predictions=False), digits, quiet=True)
    assert not (run.directory / "predictions.csv").exists()
    assert (run.directory / "report.html").exists()


def test_run(digits: Dataset, tmp_path: Path) -> None:
    run = train(tiny(tmp_path / "run", floor=True), digits, quiet=True)
    assert isinstance(run, Run)
    assert run.directory == tmp_path / "run"
    assert run.accuracy == run.history[-1]["accuracy"]  # the last evaluation, not the best
    assert run.floor is not None
    assert [line["step"] for line in run.history if "accuracy" in line] == [6, 12]


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Trainer.step

    def spoilt(self: Trainer, index: int) -> Any:
        result = whole(self, index)
        if index == 9:
            self.network.head.weight.data.fill_(float("nan"))
        return result

    monkeypatch.setattr(Trainer, "step", spoilt)
    with pytest.raises(UserError, match=r"became NaN or infinite by step 10; use a lower --learning-rate"):
        train(tiny(tmp_path / "run"), digits, quiet=True)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    kept = read_checkpoint(tmp_path / "run" / "last.ckpt")
    assert kept is not None
    assert kept[1]["step"] == 6
    assert all(tensor.isfinite().all() for tensor in kept[0].values())


def test_a_learning_rate_out_of_all_proportion(digits: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use a lower --learning-rate"):
        train(tiny(tmp_path / "run", learning_rate=1e14), digits, quiet=True)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision(digits: Dataset, tmp_path: Path, precision: str) -> None:
    run = train(tiny(tmp_path / "run", precision=precision, device="cpu"), digits, quiet=True)
    losses = [value for line in run.history for value in line["loss"].values()]
    assert all(math.isfinite(value) for value in losses)
    full = train(tiny(tmp_path / "full", device="cpu"), digits, quiet=True)
    assert run.history[0]["loss"] != full.history[0]["loss"]
    assert run.history[0]["loss"]["total"] == pytest.approx(full.history[0]["loss"]["total"], rel=0.02)


def test_minutes_fix_the_number_of_steps(digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a step takes 10 ms and an evaluation 40; a resumed run keeps the number, whatever is measured then."""
    monkeypatch.setattr("fewlabel.training.length.seconds_of", lambda *_: (0.01, 0.04))
    recipe = tiny(tmp_path / "run", steps=None, minutes=0.5 / 60)
    first = train(recipe, digits, quiet=True)
    facts = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (facts["steps"], facts["evaluations"]) == (42, 2)
    assert first.history[-1]["step"] == 42
    monkeypatch.setattr("fewlabel.training.length.seconds_of", lambda *_: (1.0, 1.0))
    again = train(recipe, digits, resume=True, quiet=True)
    assert again.history == first.history
    fixed = replace(recipe, minutes=None, steps=42, out=str(tmp_path / "b"))
    assert_same_weights(train(fixed, digits, quiet=True), first)


def test_minutes_measured(digits: Dataset, tmp_path: Path) -> None:
    """The real measurement: a run of a second has some steps, and the floor is part of it."""
    run = train(tiny(tmp_path / "run", steps=None, minutes=1 / 60, floor=True), digits, quiet=True)
    assert run.history[-1]["step"] > 5
    assert run.floor is not None


def test_images_fix_the_number_of_steps_whatever_the_passes(digits: Dataset, tmp_path: Path) -> None:
    """Mean Teacher looks at 8 labelled and 8 unlabelled images and asks its teacher about 8: 24 a step."""
    recipe = tiny(tmp_path / "run", method="mean-teacher", batch=8, mu=1, steps=None, images=500, evaluations=None)
    run = train(recipe, digits, quiet=True)
    facts = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert run.history[-1]["step"] == facts["steps"] == 500 // 24
    assert facts["evaluations"] == 1  # so few images do not call for the usual 20
    with pytest.raises(UserError, match="one step takes more than 23 images"):
        train(replace(recipe, images=23, out=str(tmp_path / "b")), digits, quiet=True)


def test_minutes_leave_room_for_training_and_too_few_are_refused(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fit_into(10.0, Seconds(0.01, 0.5), 20) == (800, 4)  # a fifth of the time
    assert fit_into(10.0, Seconds(0.01, 0.05), 20) == (900, 20)
    assert fit_into(10.0, Seconds(0.01, 0.0), 20) == (1000, 20)
    monkeypatch.setattr("fewlabel.training.length.seconds_of", lambda *_: (0.01, 0.04))
    with pytest.raises(UserError, match="increase --minutes"):
        train(tiny(tmp_path / "b", steps=None, minutes=0.01 / 60), digits, quiet=True)


def assert_same_weights(first: Run, second: Run) -> None:
    contents = [(run.directory / "model.safetensors").read_bytes() for run in (first, second)]
    assert contents[0] == contents[1]


def test_stopped_in_the_middle_of_a_line_of_metrics(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints between lines of metrics: sums that are half-way are saved, in their order."""
    recipe = tiny(tmp_path / "whole", steps=30, evaluations=1, settings={"fixmatch.threshold": 0.2})
    whole = train(recipe, digits, quiet=True)
    recipe = replace(recipe, out=str(tmp_path / "parts"))
    advance = Trainer.step

    def stop_at(last: int) -> None:
        def stopping(self: Trainer, index: int) -> Any:
            taken = advance(self, index)
            if index == last:
                signal.raise_signal(signal.SIGINT)
            return taken

        monkeypatch.setattr(Trainer, "step", stopping)

    for last in (3, 4, 13, 22):
        stop_at(last)
        with pytest.raises(Interrupted, match=f"stopped after step {last + 1} of 30"):
            train(recipe, digits, resume=True, quiet=True)
    stop_at(-1)
    parts = train(recipe, digits, resume=True, quiet=True)
    assert_same_weights(whole, parts)
    assert json.dumps(metrics(whole.directory)) == json.dumps(metrics(parts.directory))  # order of keys included


def test_saves_by_the_clock(digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    monkeypatch.setattr("fewlabel.runs.stages.SAVE_SECONDS", 0)
    monkeypatch.setattr("fewlabel.runs.stages.save_checkpoint", lambda _, state: saved.append(state[1]["step"]))
    train(tiny(tmp_path / "run"), digits, quiet=True)
    assert saved == list(range(1, 13))


def test_what_was_decided_at_the_start_stays(digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the run went on on another device, where another network would be taken by default."""
    recipe = tiny(tmp_path / "run", network=None)
    train(recipe, digits, quiet=True)
    (tmp_path / "run/report.html").unlink()  # not finished
    monkeypatch.setattr("fewlabel.data.ImageKind.default_network", lambda *_: "cnn")
    run = train(recipe, digits, resume=True, quiet=True)
    assert json.loads((run.directory / "model.json").read_text())["network"] == "wrn-10-1"


def test_changed_images_are_refused(digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run")
    train(recipe, digits, quiet=True)
    repainted = digits.train.pixels.clone()
    repainted[5] = 255 - repainted[5]
    with pytest.raises(UserError, match="data have changed"):
        train(recipe, replace(digits, train=replace(digits.train, inputs=repainted)), resume=True, quiet=True)


def test_settings_that_are_not_the_usual_ones_are_said(
    digits: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny(tmp_path / "run", settings={"fixmatch.align": 0.5}), digits)
    assert "icl-ssl with fixmatch.align 0.5, cnn on" in capsys.readouterr().out


def test_the_split_of_a_resumed_run_is_the_one_it_wrote(digits: Dataset, tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run")
    train(recipe, digits, quiet=True)
    before = (tmp_path / "run" / "labels.csv").read_text()
    train(recipe, digits, resume=True, quiet=True)
    assert (tmp_path / "run" / "labels.csv").read_text() == before
    names = [line.split(",") for line in before.splitlines()[1:]]
    positions = {name: i for i, name in enumerate(digits.train.names)}
    assert len(names) == 20
    assert all(digits.train.classes[digits.train.labels[positions[name]]] == label for name, label in names)


def test_without_a_test_set(digits: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tiny(tmp_path / "run"), replace(digits, test=None))
    assert run.accuracy is None
    out = capsys.readouterr().out
    assert "No test set was given" in out
    assert "Test accuracy" not in out
    assert (
        "Without a test set, the accuracy of the predictions is unknown."
        in (tmp_path / "run" / "report.html").read_text()
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch must be at least 2"),
        ({"steps": -1}, "steps must be at least 1"),
        ({"minutes": 1.0}, "give only one of --steps, --images and --minutes"),
        ({"network": "vgg"}, "unknown network 'vgg'"),
        ({"device": "quantum"}, "device 'quantum' cannot be used here"),
        ({"method": "fixmach"}, "did you mean fixmatch"),
        ({"settings": {"icl.wieght": 1}}, "did you mean icl.weight"),
        ({"labels_per_class": 1000}, "class '0' of digits has .* fewer than --labels-per-class 1000"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    digits: Dataset, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train(tiny(tmp_path / "run", **changes), digits, quiet=True)
    assert not (tmp_path / "run").exists()


def test_disk_full(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: the checkpoint does not fit, recipe.json does."""

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [sys.executable, "-m", "fewlabel", *WORDS, "run"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        preexec_fn=small_disk,
        timeout=120,
    )
    assert done.returncode == 2
    assert "could not save" in done.stderr
    assert "free some space, then run the command again (a training continues with --resume)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob(".*partial"))


@pytest.mark.parametrize(("steps", "times"), [(10, 3), (7, 7), (100, 20), (3, 10)])
def test_due(steps: int, times: int) -> None:
    happened = [index for index in range(steps) if due(index, steps, times)]
    assert len(happened) == min(steps, times)
    assert happened[-1] == steps - 1


def test_what_cannot_be_trained_replaces_nothing(digits: Dataset, tmp_path: Path) -> None:
    """Not even where that is found out after the data were loaded and a step was taken."""
    train(tiny(tmp_path / "run"), digits, quiet=True)
    before = (tmp_path / "run/model.safetensors").read_bytes()
    with pytest.raises(UserError, match="one step takes more than 1 images"):
        train(tiny(tmp_path / "run", steps=None, images=1), digits, overwrite=True, quiet=True)
    assert (tmp_path / "run/model.safetensors").read_bytes() == before


def test_a_finished_run_is_left_as_it_is_but_for_predictions_that_are_wanted_now(
    digits: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tiny(tmp_path / "run", predictions=False)
    first = train(recipe, digits, quiet=True)
    model = load_model(tmp_path / "run")
    model.network.temperature.fill_(3.0)
    model.save(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    again = train(replace(recipe, predictions=True), digits, resume=True)
    assert "is already finished" in capsys.readouterr().out
    assert (again.accuracy, again.history) == (first.accuracy, first.history)
    assert again.network.temperature == 3.0
    after = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert after.pop("predictions.csv").count(b"\n") == 1 + 1297 - 20
    assert after == before


def test_the_report_again_from_what_is_on_disk(digits: Dataset, tmp_path: Path) -> None:
    train(tiny(tmp_path / "run", floor=True), digits, quiet=True)
    page = (tmp_path / "run/report.html").read_text()
    (tmp_path / "run/report.html").unlink()
    (tmp_path / "run/predictions.csv").unlink()
    assert main(["report", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run/report.html").read_text() == page
    assert (tmp_path / "run/predictions.csv").exists()


def test_a_report_needs_a_trained_model_and_its_data(
    digits: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny(tmp_path / "run"), replace(digits, test=None), quiet=True)
    assert main(["report", str(tmp_path / "run")]) == 2
    assert "digits does not hold the data" in capsys.readouterr().err
    train(tiny(tmp_path / "other"), digits, quiet=True)
    (tmp_path / "other/model.json").unlink()
    assert main(["report", str(tmp_path / "other")]) == 2
    assert "no trained model" in capsys.readouterr().err


def test_coloured_test_images_for_a_model_of_grey_ones(digits: Dataset, tmp_path: Path) -> None:
    assert digits.test is not None
    test = digits.test
    coloured = Images(test.inputs.expand(-1, 3, -1, -1).contiguous(), test.labels, test.classes, test.names)
    plain = train(tiny(tmp_path / "plain"), digits, quiet=True)
    run = train(tiny(tmp_path / "run"), replace(digits, test=coloured), quiet=True)
    assert run.accuracy == plain.accuracy


def test_test_classes_must_be_those_of_training(digits: Dataset, tmp_path: Path) -> None:
    assert digits.test is not None
    reversed_classes = replace(digits.test, classes=digits.test.classes[::-1])
    with pytest.raises(UserError, match="other classes than the training examples"):
        train(tiny(tmp_path / "run"), replace(digits, test=reversed_classes), quiet=True)
