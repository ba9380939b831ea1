"""State of methods between steps, kept in buffers, so it is saved and resumed with the run."""

import torch
from torch import Tensor, nn

from ..losses import align


class Recent(nn.Module):
    """The last `length` rows that were pushed; the oldest are overwritten."""

    rows: Tensor
    pushed: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(length, width))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, rows: Tensor) -> None:
        places = (self.pushed + torch.arange(len(rows), device=rows.device)) % len(self.rows)
        self.rows[places] = rows.to(self.rows.dtype)
        self.pushed += len(rows)

    @property
    def full(self) -> Tensor:
        return self.pushed >= len(self.rows)

    def mean(self) -> Tensor:
        """The stored rows; those not yet filled are zeros."""
        return self.rows.sum(0) / self.pushed.clamp(max=len(self.rows))


class Alignment(nn.Module):
    """Distribution alignment: predictions divided by their mean over the last batches, this one included.

    With `earlier` this one does not count, and the batches before the first are uniform.
    """

    def __init__(self, classes: int, batches: int, earlier: bool = False) -> None:
        super().__init__()
        self.means, self.earlier = Recent(batches, classes), earlier
        if earlier:
            self.means.push(torch.full((batches, classes), 1 / classes))

    def forward(self, probabilities: Tensor, target: Tensor | None = None) -> Tensor:
        before = self.means.mean()
        self.means.push(probabilities.mean(0, keepdim=True))
        return align(probabilities, before if self.earlier else self.means.mean(), target)
