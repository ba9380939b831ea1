"""Model: whatever may be given to it, what it saves and loads, and models of version 0.1."""

import csv
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fewlabel import Images, Model, UserError, Vectors, load, load_model
from fewlabel.commands.main import main
from fewlabel.data import ImageKind, VectorKind
from fewlabel.networks import make_classifier
from tests.pictures import class_folder

OLD = Path(__file__).parent / "fixtures/version-0.1"


def make_model(channels: int = 3, size: int = 16) -> Model:
    network = make_classifier("cnn", (channels, size, size), 2, projector=True, seed=4).eval()
    network.mean.fill_(100)
    network.std.fill_(50)
    return Model(network, ImageKind(channels, size), ("a", "b"), "cnn", "fixmatch")


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Three of the model's own size, so that nothing is resized."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
    paths = [tmp_path / "photos" / f"{i}.png" for i in range(3)]
    paths[0].parent.mkdir()
    for path, picture in zip(paths, pixels, strict=True):
        Image.fromarray(picture).save(path)
    return paths


def test_whatever_holds_the_same_pictures(pictures: list[Path]) -> None:
    model = make_model()
    arrays = np.stack([np.asarray(Image.open(path)) for path in pictures])
    expected = model.network.probabilities(torch.from_numpy(arrays.transpose(0, 3, 1, 2).copy())).double().numpy()
    given: list[Any] = [
        pictures,
        [str(path) for path in pictures],
        [Image.open(path) for path in pictures],
        pictures[0].parent,
        str(pictures[0].parent),
        arrays,
        arrays.transpose(0, 3, 1, 2),
        torch.from_numpy(arrays),
        arrays / 255,
    ]
    for inputs in given:
        np.testing.assert_allclose(model.predict_proba(inputs), expected, atol=1e-6)
        assert model.predict(inputs).tolist() == [model.classes[k] for k in expected.argmax(1)]
    assert model.predict_proba(pictures[1]).shape == (1, 2)
    assert model.features(pictures).shape == (3, 128)
    labelled = model.label(pictures[0].parent)
    assert labelled.names == ["0.png", "1.png", "2.png"]
    np.testing.assert_allclose(labelled.probabilities, expected, atol=1e-6)


def test_what_cannot_be_read(pictures: list[Path]) -> None:
    model = make_model()
    (pictures[0].parent / "broken.png").write_bytes(b"no picture")
    for inputs in (pictures[0].parent, [pictures[0].parent / "broken.png"]):
        with pytest.raises(UserError, match=r"cannot read the picture .*broken.png"):
            model.predict(inputs)
    assert list(model.label(pictures[0].parent).skipped) == ["broken.png"]
    with pytest.raises(UserError, match="do not fit a model of images of 16x16"):
        model.predict(np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(UserError, match="square"):
        model.predict(np.zeros((2, 8, 9, 3), np.uint8))


def test_evaluate_and_calibrate(pictures: list[Path], tmp_path: Path) -> None:
    model = make_model()
    arrays = np.random.default_rng(1).integers(0, 256, (40, 16, 16, 3), np.uint8)
    names = model.predict(arrays)
    wrong = [("b" if name == "a" else "a") if i % 4 == 0 else name for i, name in enumerate(names)]
    found = model.evaluate(arrays, wrong)
    assert found.accuracy == 0.75
    assert found.confusion.sum() == found.count == 40
    assert found.interval[0] < 0.75 < found.interval[1]
    with pytest.raises(UserError, match="no class 'c'"):
        model.evaluate(arrays, ["c"] * 40)
    for path, name in zip(pictures, ("a", "b", "a"), strict=True):
        (tmp_path / "test" / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / "test" / name)
    assert model.evaluate(tmp_path / "test").count == 3
    fitted = model.calibrate(found)
    assert fitted.temperature == pytest.approx(model.network.temperature.item())
    assert model.evaluate(arrays, wrong).calibration_error < found.calibration_error


def test_calibrating_twice_is_calibrating_once() -> None:
    model = make_model()
    arrays = np.random.default_rng(1).integers(0, 256, (40, 16, 16, 3), np.uint8)
    names = [("b" if name == "a" else "a") if i % 4 == 0 else name for i, name in enumerate(model.predict(arrays))]
    found = model.evaluate(arrays, names)
    first, again = model.calibrate(found).temperature, model.calibrate(found).temperature
    assert first == again
    assert model.calibrate(model.evaluate(arrays, names)).temperature == pytest.approx(first, rel=1e-3)


def test_classes_in_another_order_are_the_same_classes() -> None:
    model = make_model()
    pixels = torch.randint(256, (20, 3, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    labels = torch.arange(20) % 2
    names = [str(n) for n in range(20)]
    one, other = Images(pixels, labels, ("a", "b"), names), Images(pixels, 1 - labels, ("b", "a"), names)
    assert model.evaluate(one).accuracy == model.evaluate(other).accuracy
    for classes in (("a", "c"), ("a", "b", "c")):
        with pytest.raises(UserError, match="differ from those of the model"):
            model.evaluate(Images(pixels, labels, classes, names))
    with pytest.raises(UserError, match="none of the examples has a label"):
        model.evaluate(Images(pixels, torch.full((20,), -1), ("a", "b"), names))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "there are no inputs"),
        (np.zeros((0, 16, 16, 3)), "there are no inputs"),
        (np.zeros((16, 16), np.uint8), "not a batch of images"),
        (None, "neither numbers nor pictures"),
        (["a.png", 3], "neither numbers nor pictures"),
        ("nofile.png", "cannot read the picture nofile.png"),
        (np.full((1, 16, 16, 3), np.nan), "NaN or infinity"),
        (np.full((1, 16, 16, 3), 300.0), "outside this range"),
    ],
)
def test_odd_inputs_are_one_sentence(inputs: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_model().predict(inputs)


def test_odd_labels_are_one_sentence() -> None:
    arrays = np.zeros((3, 16, 16, 3), np.uint8)
    with pytest.raises(UserError, match="give the class of each input"):
        make_model().evaluate(arrays)
    with pytest.raises(UserError, match="3 inputs and 2 labels"):
        make_model().evaluate(arrays, ["a", "b"])


@pytest.mark.parametrize("kind", [ImageKind(3, 16), ImageKind(1, 16, white=1), VectorKind(5, noise=0.5, dropout=0.1)])
def test_round_trip(tmp_path: Path, kind: ImageKind | VectorKind) -> None:
    name = kind.default_network(torch.device("cpu"))
    network = make_classifier(name, kind.shape, 2, projector=True, seed=4).eval()
    network.temperature.fill_(1.5)
    Model(network, kind, ("a", "b"), name, "icl-ssl").save(tmp_path)
    loaded = load_model(tmp_path, "cpu")
    assert (loaded.kind, loaded.classes, loaded.architecture, loaded.method) == (kind, ("a", "b"), name, "icl-ssl")
    inputs = torch.zeros(2, *kind.shape, dtype=kind.dtype)
    assert torch.equal(loaded.network.probabilities(inputs), network.probabilities(inputs))
    assert json.loads((tmp_path / "model.json").read_text())["format"] == 2


def test_floats_mean_what_they_meant_in_training(tmp_path: Path) -> None:
    """A dark picture of values from 0 to 255 may look like one of values from 0 to 1."""
    dark = np.full((1, 16, 16), 0.5)
    of_255, of_1 = (ImageKind(1, 16, white=white).read(dark) for white in (255, 1))
    assert of_255.unique().tolist() == [0]
    assert of_1.unique().tolist() == [128]


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


def test_loading_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_model().save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Explosive()))
    with pytest.raises(UserError, match="damaged"):
        load_model(tmp_path)
    torch.save(Explosive(), tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="damaged"):
        load_model(tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "damaged"),
        ({"network": "mlp"}, "damaged"),
        ({"size": None}, "damaged"),
        ({"kind": "sounds"}, "damaged"),
        ({"format": 3}, "newer version"),
        ({"method": None}, "damaged"),
        ({"size": 64}, "damaged"),
        ({"classes": [0, 1]}, "damaged"),
        ({"shape": [8, 8]}, "damaged"),
        ({"shape": []}, "damaged"),
        ({"classes": ["a", "a"]}, "damaged"),
        ({"encoder": 5}, "damaged"),
        ({"projector": float("nan")}, "damaged"),
        ({"size": float("nan")}, "damaged"),
        ({"network": "wrn-99994-99"}, "billion weights"),
        ({"network": "mlp", "shape": [3, 50_000, 50_000], "size": 50_000}, "damaged"),
        ([], "damaged"),
    ],
)
def test_a_model_that_does_not_fit_its_description(tmp_path: Path, change: Any, message: str) -> None:
    make_model().save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    facts = {k: v for k, v in (facts | change).items() if v is not None} if isinstance(change, dict) else change
    (tmp_path / "model.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=message):
        load_model(tmp_path)


def test_a_model_with_nan_weights_does_not_predict(tmp_path: Path) -> None:
    model = make_model()
    model.save(tmp_path)
    load_model(tmp_path)
    model.network.head.bias.data[0] = float("nan")
    model.save(tmp_path)
    with pytest.raises(UserError, match="contains NaN or infinity"):
        load_model(tmp_path)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no trained model"):
        load_model(tmp_path)


def test_vectors_for_a_model_of_images() -> None:
    rows = Vectors(torch.zeros(2, 5), torch.zeros(2, dtype=torch.int64), ("a", "b"), ("1", "2"))
    with pytest.raises(UserError, match="the examples are rows of 5 numbers, but the model needs images of 16x16"):
        make_model().evaluate(rows)


# ---- runs that version 0.1 wrote


def test_a_model_of_version_0_1_predicts_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits, whose accuracy is in its metrics, and a calibrated model of pictures."""
    last = json.loads((OLD / "digits-icl-ssl/metrics.jsonl").read_text().splitlines()[-1])
    assert load_model(OLD / "digits-icl-ssl").evaluate("digits").accuracy == pytest.approx(last["accuracy"])
    digits = load("digits").train
    with (OLD / "digits-icl-ssl/predictions.csv").open(newline="") as file:
        saved = {row["file"]: row["label"] for row in csv.DictReader(file)}
    predicted = dict(zip(digits.names, load_model(OLD / "digits-icl-ssl").predict(digits), strict=True))
    assert sum(predicted[name] == label for name, label in saved.items()) >= len(saved) - 1  # rounding elsewhere

    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    more, output = class_folder(tmp_path / "more"), tmp_path / "now.csv"
    assert main(["predict", str(OLD / "photos-mean-teacher"), str(more), "-o", str(output)]) == 0
    with (
        output.open(newline="", encoding="utf-8-sig") as now,
        (OLD / "photos-mean-teacher-predictions.csv").open(newline="") as then,
    ):
        for new, old in zip(csv.DictReader(now), csv.DictReader(then), strict=True):
            assert (new["file"], new["label"]) == (old["file"], old["label"])
            assert float(new["confidence"]) == pytest.approx(float(old["confidence"]), abs=0.002)
    assert main(["evaluate", str(OLD / "photos-mean-teacher"), str(more)]) == 0


@pytest.mark.parametrize("name", ["digits-icl-ssl", "digits-unfinished"])
def test_a_run_of_version_0_1_is_neither_resumed_nor_repeated(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / name
    shutil.copytree(OLD / name, run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    words = ["train", "digits", "--labels-per-class", "2", "--network", "mlp", "--batch", "16", "--out", str(run)]
    commands = [[*words, "--resume"], ["repeat", str(run), "--out", str(tmp_path / "again")], ["report", str(run)]]
    for command in commands:
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "was written by fewlabel 0.1.0" in error
        assert "train again with `fewlabel train`" in error
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
