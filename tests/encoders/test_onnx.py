"""Encoders in ONNX files, which onnx's own helpers write."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from fewlabel import UserError
from fewlabel.encoders import find_encoder

WEIGHTS = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, -1]], np.float32) / 2


def write(
    path: Path,
    shape: tuple[Any, ...] = ("n", 3, 16, 16),
    kind: int = TensorProto.FLOAT,
    output: str = "features",
    external: bool = False,
    **metadata: str,
) -> None:
    """The mean of each channel times a matrix; or, as other outputs, the mean of the whole batch, or NaN."""
    initialisers = [numpy_helper.from_array(WEIGHTS, "weights")]
    nodes = [
        helper.make_node("Cast", ["pixels"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], ["features"]),
        helper.make_node("ReduceMean", ["features"], ["whole"], axes=[0, 1], keepdims=0),
        helper.make_node("Sub", ["features", "features"], ["zero"]),
        helper.make_node("Div", ["zero", "zero"], ["nan"]),
    ]
    if output == "floats":
        nodes = nodes[:1]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("pixels", kind, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        initialisers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata)
    if external:
        onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    else:
        onnx.save_model(model, path)


def pixels() -> torch.Tensor:
    return torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("kind", "metadata", "mean", "std"),
    [
        (TensorProto.FLOAT, {}, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        (TensorProto.FLOAT, {"mean": "[0.5, 0.5, 0.5]", "std": "[0.1, 0.2, 0.3]"}, (0.5,) * 3, (0.1, 0.2, 0.3)),
        (TensorProto.UINT8, {}, (0.0,) * 3, (1 / 255,) * 3),
    ],
    ids=["imagenet", "metadata", "uint8"],
)
def test_features(tmp_path: Path, kind: int, metadata: dict[str, str], mean: Any, std: Any) -> None:
    write(tmp_path / "encoder.onnx", ("n", 3, 16, 16), kind, "features", False, **metadata)
    encoder = find_encoder(str(tmp_path / "encoder.onnx"))
    images = (pixels().double().numpy() / 255 - np.array(mean)[:, None, None]) / np.array(std)[:, None, None]
    np.testing.assert_allclose(encoder(pixels()), images.mean((2, 3)) @ WEIGHTS, rtol=1e-4, atol=1e-4)
    assert (encoder.size, encoder.features) == (16, 4)
    again = pickle.loads(pickle.dumps(encoder))
    assert torch.equal(again(pixels()), encoder(pixels()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": ("n", 16), "output": "floats"}, r"the input of .*encoder.onnx is not a batch of pictures"),
        ({"shape": ("n", 1, 16, 16), "output": "floats"}, "is not a batch of pictures"),
        ({"shape": ("n", 3, "height", "width")}, "is not a batch of pictures"),
        ({"kind": TensorProto.INT64}, "is not a batch of pictures"),
        ({"shape": (1, 3, 16, 16)}, "takes exactly 1 pictures at a time: export it with a dynamic batch dimension"),
        ({"output": "whole"}, "gives an output without a row for each picture"),
        ({"external": True}, "keeps its weights in other files, which is not supported: save it as one file"),
        ({"mean": "grey"}, "mean and std in the metadata of .* must each be a list of three numbers"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write(tmp_path / "encoder.onnx", **changes)
    with pytest.raises(UserError, match=message):
        find_encoder(str(tmp_path / "encoder.onnx"))


def test_nan(tmp_path: Path) -> None:
    write(tmp_path / "encoder.onnx", output="nan")
    encoder = find_encoder(str(tmp_path / "encoder.onnx"))
    with pytest.raises(UserError, match="gives NaN or infinity"):
        encoder(pixels())


def test_not_an_onnx_file(tmp_path: Path) -> None:
    (tmp_path / "encoder.onnx").write_bytes(b"no graph")
    with pytest.raises(UserError, match=r"encoder.onnx is not an ONNX file|cannot open"):
        find_encoder(str(tmp_path / "encoder.onnx"))
    with pytest.raises(UserError, match=r"cannot read the encoder .*none.onnx"):
        find_encoder(str(tmp_path / "none.onnx"))
