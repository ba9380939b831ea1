"""The network of a finished run as an encoder."""

import copy
import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from ..augment.colour import grey
from ..errors import UserError
from ..networks import Classifier
from ..networks.saved import load_network, read_description
from ..run_files import WEIGHTS
from ..value_range import ValueRange, as_range
from .encoder import Encoder


class RunFeatures(nn.Module):
    """f(x) of pixels from 0 to 255."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = network.eval()

    def forward(self, pixels: Tensor) -> Tensor:
        if len(self.network.mean) == 1:
            pixels = grey(pixels.to(torch.uint8))
        return self.network.encoder(self.network.normalise(pixels))


def load_run_encoder(name: str, run: Path) -> Encoder:
    """The network of a run that trained on pictures, or of its first stage."""
    facts = read_description(run)
    kind = facts.get("kind", "images")
    if kind != "images":
        within = Path(str(facts.get("encoder")))
        if within.is_absolute() and within.is_relative_to(run.resolve()):
            return load_run_encoder(name, within)
        raise UserError(f"the run {run} was trained on {kind}, so its network cannot encode pictures.")
    facts, network = load_network(run)
    digest = hashlib.sha256((run / WEIGHTS).read_bytes()).hexdigest()
    return run_encoder(name, network, facts["size"], digest, as_range(facts.get("value_range")))


def run_encoder(
    name: str, network: Classifier, size: int, digest: str, value_range: ValueRange | None = None
) -> Encoder:
    module = RunFeatures(copy.deepcopy(network).requires_grad_(False))
    black, white = (0.0,) * 3, (1.0,) * 3
    return Encoder(name, module, size, black, white, network.features, digest, "your own", None, value_range)
