"""ONNX: another program gets the same probabilities out of the same pictures."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from fewlabel import Model, Recipe, load, train
from fewlabel.commands.main import main
from fewlabel.data import ImageKind
from fewlabel.evaluate import predict_probabilities
from fewlabel.networks import make_classifier


@pytest.mark.parametrize(("name", "channels", "size"), [("cnn", 3, 32), ("wrn-10-1", 1, 8), ("mlp", 3, 16)])
def test_every_network(name: str, channels: int, size: int, tmp_path: Path) -> None:
    mean, std = torch.full((channels,), 100.0), torch.full((channels,), 50.0)
    network = make_classifier(name, (channels, size, size), 4, projector=True, seed=0, mean=mean, std=std).eval()
    network.temperature.fill_(1.7)
    model = Model(network, ImageKind(channels, size), ("a", "b", "c", "d"), name, "icl-ssl")
    model.export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    draw = torch.Generator().manual_seed(0)
    for count in (1, 7):
        pixels = torch.randint(256, (count, channels, size, size), generator=draw).to(torch.uint8)
        (found,) = session.run(["probabilities"], {"pixels": pixels.numpy()})
        assert np.abs(found - predict_probabilities(network, pixels).numpy()).max() < 1e-4
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(model.classes)


def test_of_a_run_on_real_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Recipe(labels_per_class=5, network="cnn", steps=30, batch=16, floor=False, out=str(tmp_path / "run"))
    run = train(recipe, quiet=True)
    assert main(["export", str(tmp_path / "run"), "--onnx", str(tmp_path / "model.onnx")]) == 0
    assert "pixels uint8 (N, 1, 8, 8) to probabilities (N, 10)" in capsys.readouterr().out
    test = load("digits").test
    assert test is not None
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, {"pixels": test.pixels.numpy()})
    assert np.abs(found - predict_probabilities(run.network, test.pixels).numpy()).max() < 1e-4
    assert (found.argmax(1) == test.labels.numpy()).mean() == pytest.approx(run.accuracy)


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path)]) == 2
    assert "no trained model" in capsys.readouterr().err
