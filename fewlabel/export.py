"""Export a trained model to ONNX, preprocessing included."""

import copy
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data import Kind
from .encoders import OnnxModule, PixelEncoder
from .errors import UserError
from .files import write_atomically
from .networks import Classifier


class Exported(nn.Module):
    """Maps raw inputs (such as uint8 images) to class probabilities (N, classes)."""

    def __init__(self, before: nn.Module, network: Classifier) -> None:
        super().__init__()
        self.before, self.network = before.eval(), network.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.network.probabilities(self.before(inputs))


def export_onnx(network: Classifier, kind: Kind, metadata: dict[str, str], path: Path) -> None:
    """Write the graph with some metadata."""
    try:
        import onnx
        import onnxscript  # noqa: F401  # which torch needs for it
    except ImportError as error:
        raise UserError("ONNX is not installed: pip install 'fewlabel[export]'.") from error
    before, shape, dtype = kind.exported()
    example, network = torch.zeros(2, *shape, dtype=dtype), copy.deepcopy(network).cpu()
    if isinstance(before, PixelEncoder) and isinstance(before.module, OnnxModule):
        graph = around(before, before.module, network, example, kind.input_name)
    else:
        graph = to_graph(Exported(before, network), example, kind.input_name, "probabilities")
    onnx.helper.set_model_props(graph, metadata)
    onnx.checker.check_model(graph)
    write_atomically(path, graph.SerializeToString())


def to_graph(module: nn.Module, example: Tensor, input_name: str, output_name: str) -> Any:
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    logger.setLevel(logging.ERROR)  # it warns that torchvision is missing, which is not needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter about itself
        program = torch.onnx.export(
            module,
            (example,),
            input_names=[input_name],
            output_names=[output_name],
            dynamic_shapes=({0: torch.export.Dim("examples")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


class Normalised(nn.Module):
    """Pixels as an encoder in an ONNX file takes them."""

    def __init__(self, encoder: PixelEncoder, takes_bytes: bool) -> None:
        super().__init__()
        self.encoder, self.takes_bytes = encoder, takes_bytes

    def forward(self, pixels: Tensor) -> Tensor:
        images = self.encoder.normalised(pixels)
        return images.round().to(torch.uint8) if self.takes_bytes else images


class Head(nn.Module):
    """Features to class probabilities."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = network.eval()

    def forward(self, features: Tensor) -> Tensor:
        return self.network.probabilities(features.flatten(1))


def around(before: PixelEncoder, encoder: OnnxModule, network: Classifier, example: Tensor, input_name: str) -> Any:
    """The graph of an encoder that came in an ONNX file, with its preprocessing before it and the head behind it."""
    import onnx
    from onnx import compose, version_converter

    features = encoder(before.normalised(example))
    first = to_graph(Normalised(before, encoder.takes_bytes), example, input_name, "images")
    last = to_graph(Head(network), torch.zeros_like(features), "features", "probabilities")
    middle = onnx.load_model_from_string(encoder.content)
    wanted = max(entry.version for entry in first.opset_import if not entry.domain)
    try:
        middle = version_converter.convert_version(middle, wanted)
        for graph in (first, middle, last):
            graph.ir_version = max(first.ir_version, middle.ir_version)
        first = compose.add_prefix(first, "before/", rename_inputs=False)
        middle = compose.add_prefix(middle, "encoder/")
        last = compose.add_prefix(last, "head/", rename_outputs=False)
        inside, outside = middle.graph.input[0].name, middle.graph.output[0].name
        joined = compose.merge_models(first, middle, [("before/images", inside)], outputs=[outside])
        return compose.merge_models(joined, last, [(outside, "head/features")])
    except Exception as error:  # of another version, or with operators of its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"the encoder's graph cannot be joined with the head ({reason}): deploy both files.") from error
