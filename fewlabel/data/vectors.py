"""Vectors: rows of a table, embeddings, signals; whatever is no picture."""

from dataclasses import dataclass

import torch

from .images import Images


@dataclass(frozen=True, eq=False)
class Vectors(Images):
    """Rows of numbers where Images has pictures: `pixels` are float32 (N, D), columns on scales of their own.

    No view of a row is known to be safe, so there are none unless `noise` or `dropout` ask for them.
    """

    noise: float = 0.0  # of strong views, in standard deviations, as columns are scaled; half as much of weak ones
    dropout: float = 0.0  # share of columns that strong views lose: they get their mean instead

    def __post_init__(self) -> None:
        assert self.pixels.dtype == torch.float32 and self.pixels.ndim == 2, "vectors are float32 (N, D)"
        assert self.labels.dtype == torch.int64 and len(self.labels) == len(self.pixels) == len(self.names)

    @property
    def size(self) -> int:
        """They have no side."""
        return 0
