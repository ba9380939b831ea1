"""Views of vectors: mild noise and lost columns, both optional, since no change of a table's row is safe by nature."""

import torch
from torch import Tensor


def vector_view(vectors: Tensor, kind: str, generator: torch.Generator, noise: float, dropout: float) -> Tensor:
    """A view of standardised vectors. Weak ones have half of the noise; strong ones all of it, and lose columns."""
    noise = noise / 2 if kind == "weak" else noise
    if noise:
        vectors = vectors + noise * torch.randn(vectors.shape, generator=generator).to(vectors.device)
    if dropout and kind != "weak":
        lost = torch.rand(vectors.shape, generator=generator) < dropout
        vectors = vectors.masked_fill(lost.to(vectors.device), 0.0)
    return vectors
