"""Runs on frozen encoders, as they are typed: train, predict, evaluate, export, report, repeat, resume, cache."""

import csv
import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fewlabel import FewLabelClassifier, Recipe, load_model, train
from fewlabel.commands.main import main
from fewlabel.decode import decode
from fewlabel.encoders import ENCODERS
from tests.encoders.test_onnx import write
from tests.pictures import COLOURS, class_folder, fruit_folder
from tests.processes import ENVIRONMENT, Command, fewlabel, in_process, start, wait_for

installed = pytest.mark.skipif(not ENCODERS["lite0"].installed, reason="the weights of fewlabel[photos] are not there")
QUICK = ("--steps", "40", "--threads", "1")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with photos/, labels.csv, a test folder and an encoder in an ONNX file."""
    for environment in (monkeypatch.setenv, lambda k, v: monkeypatch.setitem(ENVIRONMENT, k, v)):
        environment("FEWLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    fruit_folder(tmp_path / "photos")
    (tmp_path / "photos/broken.jpg").write_bytes(b"no picture")
    class_folder(tmp_path / "test")
    write(tmp_path / "encoder.onnx")
    return tmp_path


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def done(*words: str | Path, cwd: Path, run: Command = in_process) -> str:
    """What a command that succeeds prints."""
    result = run(*words, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


typed = partial(done, run=fewlabel)


@installed
@pytest.mark.slow
def test_photos_from_labels_to_predictions(place: Path) -> None:
    """One command with the default encoder, then everything that one does with a model."""
    told = typed("train", "photos", "--labels", "labels.csv", "--test", "test", "--out", "run", *QUICK, cwd=place)
    assert "Encoder: lite0 (pre-trained on ImageNet, frozen). To train from scratch: --encoder none." in told
    assert "36 training images as 1280 features of lite0, 6 labelled" in told
    assert "1 images could not be read" in told
    facts = json.loads((place / "run/recipe.json").read_text())
    assert facts["encoder"] == "lite0" and facts["recipe"]["encoder"] is None
    model = json.loads((place / "run/model.json").read_text())
    assert model["kind"] == "features" and model["encoder"] == "lite0" and len(model["digest"]) == 64
    assert "data:image/png" in (place / "run/report.html").read_text()
    assert len(read_csv(place / "run/predictions.csv")) == 30 + 1  # and the broken one

    told = typed("predict", "run", "photos", "-o", "all.csv", cwd=place)
    assert "36 images labelled, 1 could not be read: all.csv" in told
    found = {row["file"]: row["label"] for row in read_csv(place / "all.csv")}
    right = [found[name] == list(COLOURS)[int(name.split("-")[1][0])] for name in found if "-" in name]
    assert np.mean(right) > 0.7
    assert "Accuracy:" in typed("evaluate", "run", "test", cwd=place)
    typed("predict", "run", "photos/00-0.jpg", "-o", "one.csv", cwd=place)
    assert len(read_csv(place / "one.csv")) == 1
    (place / "run/report.html").unlink()
    typed("report", "run", cwd=place)
    assert (place / "run/report.html").exists()
    assert "is already finished" in typed(
        "train", "photos", "--labels", "labels.csv", "--test", "test", "--out", "run", *QUICK, "--resume", cwd=place
    )
    typed("repeat", "run", "--out", "again", cwd=place)
    assert (place / "again/model.safetensors").read_bytes() == (place / "run/model.safetensors").read_bytes()

    told = typed("export", "run", "--onnx", "model.onnx", cwd=place)
    assert "model.onnx: pixels uint8 (N, 3, 224, 224) to probabilities (N, 3)" in told
    properties = check_export(place, "run", "model.onnx")
    assert properties["encoder"] == "lite0" and properties["licence of the encoder"] == "Apache 2.0"


def check_export(place: Path, run: str, name: str) -> dict[str, str]:
    """Another runtime gives the same probabilities from the pixels themselves."""
    import onnx
    import onnxruntime

    files = sorted((place / "photos").glob("*-*"))[:5]
    session = onnxruntime.InferenceSession(place / name, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    assert (entry.name, entry.type) == ("pixels", "tensor(uint8)")
    pixels = np.stack([decode(file, entry.shape[2]) for file in files])
    (probabilities,) = session.run(["probabilities"], {"pixels": pixels})
    np.testing.assert_allclose(probabilities, load_model(place / run).predict_proba(files), atol=1e-4)
    return {entry.key: entry.value for entry in onnx.load(place / name).metadata_props}


def test_an_encoder_in_a_file_and_one_of_a_run(place: Path) -> None:
    words = ("--labels", "labels.csv", *QUICK)
    done("train", "photos", *words, "--encoder", "encoder.onnx", "--out", "first", cwd=place)
    done("train", "photos", *words, "--encoder", "none", "--size", "16", "--out", "scratch", cwd=place)
    told = done("train", "photos", *words, "--encoder", "scratch", "--out", "second", cwd=place)
    assert f"36 training images as 128 features of {place / 'scratch'}, 6 labelled" in told
    for run in ("first", "second"):
        assert "36 images labelled" in done("predict", run, "photos", cwd=place)
        (place / "predictions.csv").unlink()
    scratch, second = load_model(place / "scratch"), load_model(place / "second")
    files = sorted((place / "photos").glob("*-*"))[:3]
    np.testing.assert_allclose(second.kind.read(files), scratch.features(files), atol=1e-5)
    for name in ("first", "second"):
        done("export", name, "--onnx", f"{name}.onnx", cwd=place)
        check_export(place, name, f"{name}.onnx")

    write(place / "encoder.onnx", mean="[0, 0, 0]")
    result = fewlabel("predict", "first", "photos", cwd=place)
    assert result.returncode == 2
    assert "has other weights than in training" in result.stderr
    assert not (place / "predictions.csv").exists()


def test_pictures_are_encoded_once(place: Path) -> None:
    words = ("train", "photos", "--labels", "labels.csv", "--encoder", "encoder.onnx", *QUICK)
    done(*words, "--out", "first", cwd=place)
    told = done("cache", cwd=place)
    assert str(place / "cache") in told
    (store,) = (place / "cache/features").iterdir()
    assert (store / "digests").stat().st_size == 36 * 32
    assert (place / "cache/features").stat().st_mode & 0o777 == 0o700
    before = (store / "features.f32").read_bytes()
    shutil.copy(place / "photos/00-0.jpg", place / "photos/copy.jpg")
    Image.new("RGB", (20, 20), "red").save(place / "photos/new.png")
    done(*words, "--out", "second", cwd=place)
    assert (store / "digests").stat().st_size == 37 * 32  # the copy costs nothing
    assert (store / "features.f32").read_bytes()[: len(before)] == before
    assert "MB removed from" in done("cache", "clear", cwd=place)
    assert not (place / "cache/features").exists()
    assert fewlabel("cache", "empty", cwd=place).returncode == 2


@installed
@pytest.mark.slow
def test_encoding_stopped_by_ctrl_c_continues(place: Path) -> None:
    """What is encoded is kept, and the run is the same as one that was never stopped."""
    for n in range(600):
        Image.fromarray(np.random.default_rng(n).integers(0, 255, (16, 16, 3), np.uint8)).save(
            place / f"photos/more{n}.png"
        )
    words = ("train", "photos", "--labels", "labels.csv", *QUICK)
    process = start(*words, "--out", "run", cwd=place)

    def begun() -> bool:
        return any(file.stat().st_size for file in (place / "cache").glob("features/*/digests"))

    wait_for(begun, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the processes that help hear it too
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "pictures are kept: run the same command to continue." in errors
    assert "Traceback" not in errors
    (digests,) = (place / "cache").glob("features/*/digests")
    kept = digests.read_bytes()
    assert 0 < len(kept) < 636 * 32
    done(*words, "--out", "run", cwd=place)
    assert digests.read_bytes()[: len(kept)] == kept
    shutil.rmtree(place / "cache")
    done(*words, "--out", "whole", cwd=place)
    assert (place / "run/model.safetensors").read_bytes() == (place / "whole/model.safetensors").read_bytes()


@installed
@pytest.mark.parametrize("words", [("--network", "cnn"), ("--size", "16"), ("--no-flip",), ("--without", "rotate")])
def test_settings_of_training_from_scratch_imply_no_encoder(place: Path, words: tuple[str, ...]) -> None:
    told = done("train", "photos", "--labels", "labels.csv", *words, "--steps", "2", "--out", "run", cwd=place)
    flag = words[0].replace("--no-", "--")
    assert f"No encoder is used, because {flag} is for training from scratch." in told
    assert json.loads((place / "run/recipe.json").read_text())["encoder"] == "none"


def test_without_the_extra_one_line_says_what_it_would_bring(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fewlabel.encoders.listed.is_installed", lambda _: False)
    assert main(["train", "photos", "--labels", "labels.csv", "--steps", "2", "--out", "run"]) == 0
    assert "a pre-trained encoder is far better: pip install 'fewlabel[photos]'" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.chdir(place)
    assert main(["train", "photos", "--labels", "labels.csv", "--steps", "2", "--out", "run", "--resume"]) == 0
    assert json.loads((place / "run/recipe.json").read_text())["encoder"] == "none"  # whatever is installed now


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("photos", "--encoder", "lite9"), "unknown encoder 'lite9': did you mean lite"),
        (("photos", "--encoder", "encoder.onnx", "--size", "32"), "--size is for training from scratch"),
        (("photos", "--encoder", "encoder.onnx", "--network", "cnn"), "--network is for training from scratch"),
        (("photos", "--encoder", "encoder.onnx", "--without", "rotate"), "have no effect on a frozen encoder"),
        (("photos", "--encoder", "none", "--tune"), "--tune trains an encoder too: give one with --encoder"),
        (("rows.npz", "--encoder", "encoder.onnx"), "--encoder is for pictures, not for rows of 5 numbers"),
        (("photos", "--encoder", "photos"), "unknown encoder"),
        (("photos", "--encoder", "encoder.onnx", "--method", "remixmatch"), "remixmatch works on images only"),
    ],
)
def test_what_cannot_work(
    place: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(place / "rows.npz", x_train=np.eye(5), y_train=np.array([0, 1, 0, 1, -1]))
    labels = () if "rows.npz" in words else ("--labels", "labels.csv")
    assert main(["train", *words, *labels, "--out", "run"]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "run/recipe.json").exists()


def test_a_named_set_of_images(place: Path) -> None:
    """Stays from scratch unless asked; then its images are encoded, grey ones too."""
    words = ("train", "digits", "--labels-per-class", "2", *QUICK)
    assert "images of 8x8" in done(*words, "--out", "scratch", cwd=place)
    assert "features of" in done(*words, "--encoder", "encoder.onnx", "--out", "encoded", cwd=place)
    assert "Accuracy:" in done("evaluate", "encoded", "digits", cwd=place)


@installed
@pytest.mark.slow
def test_tuned(place: Path) -> None:
    """A few steps: the encoder moves less than the head, its norms not at all, and everything works after it."""
    words = ("--labels", "labels.csv", "--steps", "2", "--batch", "2", "--threads", "1", "--no-floor")
    told = done("train", "photos", *words, "--encoder", "lite0", "--tune", "--out", "run", cwd=place)
    assert "tuned encoder" in told
    model = load_model(place / "run")
    original = ENCODERS["lite0"]
    assert model.encoder == "lite0" and model.kind.shape == (3, original.size, original.size)
    from fewlabel.encoders import find_encoder

    pretrained = {f"encoder.0.module.{k}": v for k, v in find_encoder("lite0").module.state_dict().items()}
    tuned = model.network.state_dict()
    same = {k: torch.equal(v, tuned[k]) for k, v in pretrained.items() if k in tuned}
    assert all(unchanged for name, unchanged in same.items() if "running" in name)
    assert not any(unchanged for name, unchanged in same.items() if name.endswith("_conv.weight"))
    done("predict", "run", "photos", cwd=place)
    done("export", "run", "--onnx", "model.onnx", cwd=place)
    check_export(place, "run", "model.onnx")


def test_in_python(place: Path) -> None:
    """Recipe, a data set of one's own, the estimator by name and by module give one way to say it."""
    run = train(
        Recipe(data=str(place / "photos"), labels="labels.csv", encoder="encoder.onnx", steps=40, out="run"), quiet=True
    )
    assert run.model.encoder == str(place / "encoder.onnx")
    files = sorted((place / "photos").glob("*-*"))
    kinds = [list(COLOURS)[int(file.name.split("-")[1][0])] for file in files]
    y = [kind if file.name < "02" else "" for file, kind in zip(files, kinds, strict=True)]
    fitted = FewLabelClassifier(encoder="encoder.onnx", steps=100, random_state=0).fit(files, y)
    assert (fitted.transduction_ == np.array(kinds)).mean() > 0.8
    with Image.open(files[0]) as picture:
        assert fitted.predict(picture) == fitted.predict(files[:1])
    pixels = np.stack([decode(file, 16) for file in files])
    arrays = FewLabelClassifier(encoder="encoder.onnx", steps=100, random_state=0).fit(pixels, y)
    np.testing.assert_array_equal(arrays.predict(pixels), fitted.predict(files))
    with pytest.raises(ValueError, match="is for pictures, not for rows of numbers"):
        FewLabelClassifier(encoder="encoder.onnx").fit(np.eye(36), y)
    fitted.model_.save(place)
    assert (load_model(place).predict(files) == fitted.predict(files)).all()


@pytest.mark.slow
def test_views_are_encoded_too(place: Path) -> None:
    """Views have features of their own, which training draws from; predictions are of plain pictures."""
    words = ("train", "photos", "--labels", "labels.csv", "--encoder", "encoder.onnx", *QUICK)
    done(*words, "--encoder-views", "2", "--out", "views", cwd=place)
    done(*words, "--encoder-views", "2", "--out", "again", cwd=place)
    done(*words, "--out", "plain", cwd=place)
    views, again, plain = ((place / run / "model.safetensors").read_bytes() for run in ("views", "again", "plain"))
    assert views == again != plain
    stores = list((place / "cache/features").iterdir())
    assert len(stores) == 1 + 2 * 2
    assert {(store / "digests").stat().st_size for store in stores} == {36 * 32}
    assert len({(store / "features.f32").read_bytes() for store in stores}) == 5
    done("predict", "views", "photos", cwd=place)
    done("report", "views", cwd=place)
    result = fewlabel(*words[:4], "--encoder", "none", "--encoder-views", "2", "--out", "no", cwd=place)
    assert result.returncode == 2 and "--encoder-views is for a frozen encoder" in result.stderr


def test_rows_of_views_are_drawn_for_each_example(place: Path) -> None:
    from fewlabel import load
    from fewlabel.randomness import Draws

    data = load(place / "photos", labels=place / "labels.csv", encoder=str(place / "encoder.onnx"), encoder_views=3)
    index = torch.arange(30)
    drawn = Draws(torch.Generator().manual_seed(0), 30)
    which = Draws(torch.Generator().manual_seed(0), 30).integers(0, 3)
    rows = data.train.rows_of_view("weak", index, drawn)
    for row, position, number in zip(rows, index, which, strict=True):
        assert torch.equal(row, data.train.views["weak"][number][position])
    assert set(which.tolist()) == {0, 1, 2}
    strong = Draws(torch.Generator().manual_seed(1), 30)
    other = data.train.rows_of_view("simclr", index, Draws(torch.Generator().manual_seed(1), 30))
    assert torch.equal(other, data.train.rows_of_view("strong", index, strong))
