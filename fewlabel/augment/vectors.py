"""Views of vectors: mild noise and lost columns, both optional, since no change of a table's row is safe by nature."""

from torch import Tensor

from ..randomness import Draws


def vector_view(vectors: Tensor, kind: str, draws: Draws, noise: float, dropout: float) -> Tensor:
    """A view of standardised vectors. Weak ones have half of the noise; strong ones all of it, and lose columns."""
    noise = noise / 2 if kind == "weak" else noise
    if noise:
        vectors = vectors + noise * draws.normal(vectors.shape[1]).to(vectors.device)
    if dropout and kind != "weak":
        lost = draws.uniform(vectors.shape[1]) < dropout
        vectors = vectors.masked_fill(lost.to(vectors.device), 0.0)
    return vectors
