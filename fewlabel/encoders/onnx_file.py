"""Encoders in ONNX files, run by onnxruntime."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import UserError
from .encoder import Colour, Encoder

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INSTALL = "pip install 'fewlabel[export]'"


class OnnxModule(nn.Module):
    """Runs a graph; its input is float pixels, or uint8 where the graph takes those."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content
        self._session: Any = None

    @property
    def session(self) -> Any:
        if self._session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = 3
            self._session = onnxruntime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])
        return self._session

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}  # a session cannot be pickled or copied

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnnxModule":
        return OnnxModule(self.content)

    @property
    def takes_bytes(self) -> bool:
        return self.session.get_inputs()[0].type == "tensor(uint8)"

    def forward(self, images: Tensor) -> Tensor:
        array: np.ndarray = np.ascontiguousarray(images.cpu().numpy())
        if self.takes_bytes:
            array = array.astype(np.uint8)
        return torch.from_numpy(self.session.run(None, {self.session.get_inputs()[0].name: array})[0])


def load_onnx(path: Path) -> Encoder:
    """A graph whose one input is a batch of RGB pictures (N, 3, H, H) and whose first output is the features.

    An input of uint8 gets pixels as they are. One of floats is normalised by `mean` and `std` in the file's metadata
    (JSON lists on the scale 0 to 1), or else by those of ImageNet.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UserError(f"the encoder {path} needs onnx and onnxruntime: {INSTALL}.") from error
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the encoder {path} ({error.strerror}).") from error
    try:
        graph = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's own errors
        raise UserError(f"{path} is not an ONNX file.") from error
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors_of(graph.graph)):
        raise UserError(f"{path} keeps its weights in other files, which is not supported: save it as one file.")
    module = OnnxModule(content)
    try:
        inputs = module.session.get_inputs()
    except Exception as error:  # onnxruntime has errors of its own
        raise UserError(f"onnxruntime cannot open {path} ({str(error).splitlines()[0]}).") from error
    size, takes_bytes = picture_input(path, inputs)
    metadata = {entry.key: entry.value for entry in graph.metadata_props}
    mean, std = statistics_of(path, metadata, takes_bytes)
    digest = hashlib.sha256(content).hexdigest()
    encoder = Encoder(str(path), module, size, mean, std, 0, digest, metadata.get("licence", "unknown"))
    blank = encoder.normalise(torch.zeros(2, 3, size, size, dtype=torch.uint8))
    try:
        features = module(blank)
    except Exception as error:
        raise UserError(f"{path} cannot encode a batch of two pictures ({str(error).splitlines()[0]}).") from error
    if features.ndim < 2 or len(features) != 2:
        raise UserError(f"{path} gives an output without a row for each picture of the batch.")
    return replace(encoder, features=features.flatten(1).shape[1])


def tensors_of(graph: Any) -> list[Any]:
    """All weights of a graph, also those of the graphs and constants within its nodes."""
    found = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            found += [attribute.t, *attribute.tensors]
            for inner in (attribute.g, *attribute.graphs):
                found += tensors_of(inner)
    return found


def picture_input(path: Path, inputs: Any) -> tuple[int, bool]:
    """The side of the pictures that a graph takes, and whether it takes uint8."""
    shape: list[Any] = inputs[0].shape if len(inputs) == 1 else []
    kinds = ("tensor(float)", "tensor(uint8)")
    fits = len(shape) == 4 and shape[1] == 3 and isinstance(shape[2], int) and shape[2] == shape[3]
    if not fits or inputs[0].type not in kinds:
        raise UserError(
            f"the input of {path} is not a batch of pictures: it must be one tensor (N, 3, H, H) of float or uint8."
        )
    if shape[0] not in (None, "") and not isinstance(shape[0], str) and shape[0] != 2:
        raise UserError(
            f"{path} takes exactly {shape[0]} pictures at a time: export it with a dynamic batch dimension."
        )
    return int(shape[2]), inputs[0].type == kinds[1]


def statistics_of(path: Path, metadata: dict[str, str], takes_bytes: bool) -> tuple[Colour, Colour]:
    """On the scale of pixels."""
    if takes_bytes:
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    try:
        mean, std = (
            np.broadcast_to(json.loads(metadata[key]) if key in metadata else usual, 3) * 255.0
            for key, usual in (("mean", IMAGENET_MEAN), ("std", IMAGENET_STD))
        )
    except (ValueError, TypeError) as error:
        raise UserError(f"mean and std in the metadata of {path} must each be a list of three numbers.") from error
    return tuple(mean.tolist()), tuple(std.tolist())
