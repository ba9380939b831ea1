"""An exponential moving average of a module's weights."""

import copy

import torch
from torch import Tensor, nn


class EMA:
    """Keeps `module`, a copy whose parameters follow a source module slowly; buffers are copied as they are.

    Buffers that are not saved never change, so both modules share them: a first guess has a row for each example.

    The decay of the first updates is smaller, min(decay, (1 + n) / (10 + n)), so that a short run is not
    evaluated with weights that are mostly its random start.
    """

    def __init__(self, source: nn.Module, decay: float) -> None:
        self.decay = decay
        saved = source.state_dict(keep_vars=True).keys()
        constant = {id(buffer): buffer for name, buffer in source.named_buffers() if name not in saved}
        self.module = copy.deepcopy(source, dict(constant)).eval().requires_grad_(False)
        self._parameters: list[Tensor] = list(self.module.parameters())
        self._sources: list[Tensor] = list(source.parameters())
        self._buffers = [buffer for buffer in self.module.buffers() if id(buffer) not in constant]
        self._source_buffers = [buffer for buffer in source.buffers() if id(buffer) not in constant]

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Move towards the source; `updates` is how many updates there were before this one."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(self._parameters, self._sources, 1 - decay)
        torch._foreach_copy_(self._buffers, self._source_buffers)
