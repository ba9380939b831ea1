"""A trained model for other programs: ONNX, with the preprocessing inside."""

import copy
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from .data import Kind
from .errors import UserError
from .files import write_atomically
from .networks import Classifier


class Exported(nn.Module):
    """From inputs as they are (uint8 images, say) to class probabilities (N, classes)."""

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
    example = torch.zeros(2, *shape, dtype=dtype)
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    logger.setLevel(logging.ERROR)  # it warns that torchvision is missing, which is not needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter about itself
        program = torch.onnx.export(
            Exported(before, copy.deepcopy(network).cpu()),
            (example,),
            input_names=[kind.input_name],
            output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("examples")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, metadata)
    onnx.checker.check_model(graph)
    write_atomically(path, graph.SerializeToString())
