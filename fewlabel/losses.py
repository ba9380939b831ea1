"""The losses, as pure functions of tensors."""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """L_x: mean cross-entropy between class indices (N,) and logits (N, classes)."""
    return F.cross_entropy(logits, labels)


def masked_cross_entropy(logits: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
    """Cross-entropy of the kept rows, divided by the number of ALL rows: a dropped row counts as 0."""
    return (F.cross_entropy(logits, labels, reduction="none") * kept).mean()


def interpolation_contrast(
    mixed_embeddings: Tensor,
    embeddings_of_mixed: Tensor,
    embeddings: Tensor,
    temperature: float,
    negatives: Tensor | None = None,
) -> Tensor:
    """L_c of ICL-SSL: the mix of two embeddings must equal the embedding of the mix.

    For row i, with mix_z = `mixed_embeddings`, z_mix = `embeddings_of_mixed` and z = `embeddings`, each (N, D),

        -(mix_z_i . z_mix_i) / T  +  log sum_{k != i} exp(z_i . z_k / T),

    averaged over the rows. The positive is not in the denominator, so the loss may be negative.
    `negatives` (N, N, bool) says which k may push row i away; default all. A row without any keeps its positive only.
    """
    positive = (mixed_embeddings * embeddings_of_mixed).sum(1) / temperature
    allowed = ~torch.eye(len(embeddings), dtype=torch.bool, device=embeddings.device)
    if negatives is not None:
        allowed = allowed & negatives
    # A large negative number instead of -inf: a row with no negative at all would turn its gradient into NaN.
    similarity = (embeddings @ embeddings.T / temperature).masked_fill(~allowed, -1e9)
    push = torch.logsumexp(similarity, 1).masked_fill(~allowed.any(1), 0.0)
    return (push - positive).mean()


def align(probabilities: Tensor, mean_prediction: Tensor) -> Tensor:
    """Distribution alignment to uniform: divide by the running mean of the predictions and re-normalise."""
    aligned = probabilities / mean_prediction
    return aligned / aligned.sum(1, keepdim=True)
