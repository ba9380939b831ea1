"""A trained model for other programs: ONNX, with the preprocessing inside."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .errors import UserError
from .files import write_atomically
from .networks import Classifier


class Exported(nn.Module):
    """From uint8 pictures (N, C, H, W) to class probabilities (N, classes)."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = network.eval()

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network.probabilities(pixels)


def export_onnx(network: Classifier, model: dict[str, Any], path: Path) -> None:
    """Write the graph; the names of the classes are in its metadata under "classes", as JSON."""
    try:
        import onnx
        import onnxscript  # noqa: F401  # which torch needs for it
    except ImportError as error:
        raise UserError("ONNX is not installed: pip install 'fewlabel[export]'.") from error
    example = torch.zeros(2, model["channels"], model["size"], model["size"], dtype=torch.uint8)
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(
        logging.ERROR
    )  # no torchvision: no matter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter about itself
        program = torch.onnx.export(
            Exported(network.cpu()),
            (example,),
            input_names=["pixels"],
            output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("pictures")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, {"classes": json.dumps(model["classes"]), "method": model["method"]})
    onnx.checker.check_model(graph)
    write_atomically(path, graph.SerializeToString())
