"""ONNX: another program gets the same probabilities out of the same pictures."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

from fewlabel import Model, Recipe, load, train
from fewlabel.commands.main import main
from fewlabel.data import FeatureKind, ImageKind
from fewlabel.encoders import find_encoder
from fewlabel.evaluate import predict_probabilities
from fewlabel.export import export_onnx
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


@pytest.mark.slow
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


def test_no_file_is_replaced_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in (("photo.png", "must end in .onnx"), ("other.onnx", "already exists")):
        (tmp_path / name).write_bytes(b"mine")
        assert main(["export", str(tmp_path), "--onnx", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
        assert (tmp_path / name).read_bytes() == b"mine"


@pytest.mark.parametrize("takes_bytes", [True, False])
@pytest.mark.parametrize("opset", [13, 18])
def test_around_an_encoder_in_an_onnx_file(takes_bytes: bool, opset: int, tmp_path: Path) -> None:
    """Written by hand and of another version: its features are the means of the rows of each channel, times three."""
    kind = onnx.TensorProto.UINT8 if takes_bytes else onnx.TensorProto.FLOAT
    picture = helper.make_tensor_value_info("input", kind, ["N", 3, 8, 8])
    rows = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["N", 24])
    axes = numpy_helper.from_array(np.array([3]), "axes")
    mean = (
        helper.make_node("ReduceMean", ["floats", "axes"], ["mean"], keepdims=0)
        if opset >= 18
        else helper.make_node("ReduceMean", ["floats"], ["mean"], axes=[3], keepdims=0)
    )
    three = numpy_helper.from_array(np.array(3, np.float32), "three")
    nodes = [
        helper.make_node("Cast", ["input"], ["floats"], to=onnx.TensorProto.FLOAT),
        mean,
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Mul", ["flat", "three"], ["rows"]),
    ]
    graph = helper.make_graph(nodes, "encoder", [picture], [rows], [three, *([axes] if opset >= 18 else [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, tmp_path / "encoder.onnx")
    encoder = find_encoder(str(tmp_path / "encoder.onnx"))
    assert encoder.features == 24
    features = FeatureKind(24, encoder=encoder.name, digest=encoder.digest, given=encoder)
    network = make_classifier("mlp", (24,), 4, projector=False, seed=0).eval()
    export_onnx(network, features, {"licence of the encoder": "MIT"}, tmp_path / "model.onnx")
    pixels = torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["probabilities"], {"pixels": pixels.numpy()})
    np.testing.assert_allclose(found, predict_probabilities(network, encoder(pixels)).numpy(), atol=1e-5)
    props = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert props["licence of the encoder"] == "MIT"
