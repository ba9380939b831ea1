"""Pictures with more than 8 bits, against files that Pillow writes from arrays of numpy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fewlabel import FewLabelClassifier, UserError, load, load_model
from fewlabel.commands.main import main
from fewlabel.decode import decode
from fewlabel.model import Model
from fewlabel.networks import make_classifier
from fewlabel.value_range import ValueRange, look_at_headers, measure, parse_range

SIDE = 16


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))


def save(path: Path, array: np.ndarray, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)
    return path


@pytest.fixture
def microscope(tmp_path: Path) -> Path:
    """12-bit values in 16-bit files, from 100 to 4095."""
    draw = np.random.default_rng(0)
    for number in range(8):
        values = draw.integers(200, 3900, (SIDE, SIDE)).astype(np.uint16)
        values[0, 0], values[0, 1] = 100, 4095
        save(tmp_path / f"cells/{'ab'[number % 2]}/{number}.{'tif' if number < 4 else 'png'}", values)
    return tmp_path / "cells"


def test_twelve_bits_are_not_black(microscope: Path) -> None:
    found = load(microscope)
    values = np.asarray(Image.open(microscope / found.train.names[0]), float)
    expected = np.floor((values - 100) * 255 / 3995 + 0.5).astype(np.uint8)
    got = load(microscope, size=SIDE).train.inputs[0]
    assert np.array_equal(got.numpy(), np.stack([expected] * 3))
    assert found.train.kind.value_range == ValueRange(100, 4095)
    assert (
        "Pictures with more than 8 bits: 8. Values from 100 to 4095 become black to white "
        "(measured; --range LOW,HIGH sets another range)." in found.notes
    )


def test_the_range_is_measured_once_and_again_when_a_picture_changes(
    microscope: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(microscope).train.source
    with monkeypatch.context() as patch:
        patch.setattr("fewlabel.data.folder.measure", lambda *_: pytest.fail("measured again"))
        assert load(microscope).train.source == first
    save(microscope / "a/0.tif", np.full((SIDE, SIDE), 9000, np.uint16))
    assert load(microscope).train.kind.value_range == ValueRange(100, 9000)


def test_a_given_range_wins(microscope: Path) -> None:
    found = load(microscope, size=SIDE, value_range=ValueRange(0, 65535))
    assert found.train.inputs.max() == 16  # 4095 of 65535
    assert found.train.kind.value_range == ValueRange(0, 65535)


def test_the_range_is_part_of_the_model(microscope: Path, tmp_path: Path) -> None:
    """A folder of one dark picture is scaled as the training pictures were."""
    kind = load(microscope, size=SIDE).train.kind
    network = make_classifier("mlp", kind.shape, 2, projector=False, seed=0)
    Model(network, kind, ("a", "b"), "mlp", "supervised").save(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["value_range"] == [100, 4095]
    model = load_model(tmp_path)
    assert model.kind == kind
    dark = save(tmp_path / "dark/a/0.tif", np.full((SIDE, SIDE), 110, np.uint16))
    pixels = torch.full((1, 3, SIDE, SIDE), 1, dtype=torch.uint8)  # 10 of 3995 of 255, rounded
    expected = model.predict_proba(pixels)
    for given in (dark.parent, [dark], [Image.open(dark)]):
        np.testing.assert_allclose(model.predict_proba(given), expected, atol=1e-6)  # one alone, or among others
    (dark.parent.parent / "b").mkdir()
    np.testing.assert_allclose(model.evaluate(dark.parent.parent).probabilities, expected, atol=1e-6)


@pytest.mark.parametrize("encoder", [None, "lite0"])
@pytest.mark.parametrize("opened", [False, True])
def test_the_estimator_measures_it_too(microscope: Path, tmp_path: Path, encoder: str | None, opened: bool) -> None:
    """Files and PIL images are scaled by the range of those it was fitted to, as 8-bit copies made by hand would be."""
    paths = sorted(microscope.rglob("*.*"))
    copies = []
    for path in paths:
        values = np.asarray(Image.open(path), float)
        scaled = np.floor((values - 100) * 255 / 3995 + 0.5).astype(np.uint8)
        copies.append(save(tmp_path / f"copies/{path.stem}.png", scaled))
    labels = ["a", "b", "", "", "a", "b", "", ""]
    given = [Image.open(path) if opened else path for path in paths]

    def fitted() -> FewLabelClassifier:
        return FewLabelClassifier(encoder=encoder, size=SIDE, steps=2, batch=2, network="mlp", random_state=0)

    deep, plain = fitted().fit(given, labels), fitted().fit(copies, labels)
    assert deep.model_.kind.value_range == deep.range_ == ValueRange(100, 4095)
    np.testing.assert_allclose(deep.predict_proba(given), plain.predict_proba(copies), atol=1e-6)
    np.testing.assert_allclose(deep.predict_proba(given[:1]), plain.predict_proba(copies[:1]), atol=1e-6)
    assert (
        plain.range_ is None
        and FewLabelClassifier(network="mlp", steps=1).fit(np.zeros((4, 8, 8), np.uint8), [0, 1, -1, -1]).range_ is None
    )


def test_an_estimator_that_goes_on_keeps_the_range(microscope: Path, tmp_path: Path) -> None:
    """Its weights know pictures of this range."""
    paths = sorted(microscope.rglob("*.*"))
    brighter = []
    for path in paths:
        brighter.append(save(tmp_path / f"brighter/{path.stem}.png", np.asarray(Image.open(path)) * np.uint16(4)))
    model = FewLabelClassifier(network="mlp", size=SIDE, steps=2, batch=2, warm_start=True, random_state=0)
    labels = ["a", "b", "", "", "a", "b", "", ""]
    assert model.fit(paths, labels).range_ == model.fit(brighter, labels).range_ == ValueRange(100, 4095)


@pytest.mark.parametrize("text", ["", "5", "1,2,3", "4095,0", "1,1", "a,b", "nan,1", "0,inf"])
def test_a_range_that_is_none(text: str) -> None:
    with pytest.raises(UserError, match="--range must be two numbers"):
        parse_range(text)


def test_floats(tmp_path: Path) -> None:
    values = np.linspace(-1.5, 2.5, SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
    save(tmp_path / "x/a.tif", values)
    measured = measure([tmp_path / "x/a.tif"])
    assert measured == ValueRange(-1.5, 2.5)
    expected = np.floor((values.astype(float) + 1.5) * 63.75 + 0.5)
    assert np.array_equal(decode(tmp_path / "x/a.tif", SIDE, measured)[0], expected)


def test_nan_makes_a_picture_unreadable_and_is_counted(tmp_path: Path) -> None:
    for number, value in enumerate((np.nan, np.inf, 3.0)):
        values = np.ones((SIDE, SIDE), np.float32)
        values[3, 3] = value
        save(tmp_path / f"x/{number}.tif", values)
    found = load(tmp_path / "x").train
    assert found.names == ["2.tif"]
    assert found.skipped == dict.fromkeys(("0.tif", "1.tif"), "it contains NaN or infinite values")
    assert found.kind.value_range == ValueRange(1, 3)


def test_one_value_only(tmp_path: Path) -> None:
    save(tmp_path / "x/a.tif", np.full((SIDE, SIDE), 700, np.uint16))
    found = load(tmp_path / "x").train
    assert found.kind.value_range == ValueRange(700, 701)
    assert found.inputs.max() == 0


def test_eight_bits_are_as_they_were(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    save(tmp_path / "x/a.png", pixels)
    save(tmp_path / "x/b.tif", pixels)
    found = load(tmp_path / "x", size=SIDE)
    assert found.train.kind.value_range is None
    assert "value_range" not in found.train.kind.to_dict()
    assert found.notes == ()
    assert np.array_equal(found.train.inputs[0].numpy(), pixels.transpose(2, 0, 1))
    given = load(tmp_path / "x", size=SIDE, value_range=ValueRange(0, 10)).train
    assert torch.equal(given.inputs, found.train.inputs)  # a range concerns deeper ones only


def test_several_pages_and_sixteen_bit_colour_are_told(tmp_path: Path) -> None:
    pages = [Image.fromarray(np.full((SIDE, SIDE), value, np.uint8)) for value in (10, 200)]
    (tmp_path / "x").mkdir()
    pages[0].save(tmp_path / "x/stack.tif", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "x/one.tif")
    header = b"\x89PNG\r\n\x1a\n" + bytes(8) + (SIDE).to_bytes(4, "big") * 2 + bytes([16, 2]) + bytes(20)
    (tmp_path / "x/colour.png").write_bytes(header)  # 16 bits, RGB; the rest is missing
    found = look_at_headers(tmp_path / "x", ["colour.png", "one.tif", "stack.tif"])
    assert (found.deep, found.cut, found.several) == ([], ["colour.png"], ["stack.tif"])
    (tmp_path / "x/colour.png").unlink()
    dataset = load(tmp_path / "x", size=SIDE)
    assert "Files with several pages: 1. The first page of each is used." in dataset.notes
    assert dataset.train.inputs.unique().tolist() == [10]


def test_from_the_command_line(microscope: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    words = ["--encoder", "none", "--network", "mlp", "--steps", "2", "--no-floor", "--out", run]
    assert main(["train", str(microscope), *words, "--range", "0,4095"]) == 0
    assert "Values from 0 to 4095 become black to white (from --range" in capsys.readouterr().out.replace("\n", " ")
    assert load_model(run).kind.value_range == ValueRange(0, 4095)
    assert main(["predict", run, str(microscope), "-o", str(tmp_path / "p.csv")]) == 0
    (microscope / "a").rename(microscope / "unlabelled")
    suggest = ["suggest", str(microscope), "-n", "2", "-o", str(tmp_path / "s.csv")]
    assert main([*suggest, "--run", run]) == 0
    assert main([*suggest, "--range", "0"]) == 2
    assert main([*suggest, "--run", run, "--range", "0,1"]) == 2
    assert main(["train", "digits", "--range", "0,1", "--out", str(tmp_path / "no")]) == 2
