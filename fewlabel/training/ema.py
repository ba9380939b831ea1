"""An exponential moving average of a module's weights."""

import copy

import torch
from torch import Tensor, nn


class EMA:
    """Keeps `module`, a copy whose parameters follow a source module slowly; buffers are copied as they are.

    The decay of the first updates is smaller, min(decay, (1 + n) / (10 + n)), so that a short run is not
    evaluated with weights that are mostly its random start.
    """

    def __init__(self, source: nn.Module, decay: float) -> None:
        self.decay = decay
        self.module = copy.deepcopy(source).eval().requires_grad_(False)
        self._parameters: list[Tensor] = list(self.module.parameters())
        self._sources: list[Tensor] = list(source.parameters())
        self._buffers = list(self.module.buffers())
        self._source_buffers = list(source.buffers())

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Move towards the source; `updates` is how many updates there were before this one."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(self._parameters, self._sources, 1 - decay)
        torch._foreach_copy_(self._buffers, self._source_buffers)
