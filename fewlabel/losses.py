"""The losses, as pure functions of tensors."""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """L_x: mean cross-entropy between logits (N, classes) and class indices (N,) or probabilities (N, classes)."""
    return F.cross_entropy(logits, labels)


def masked_cross_entropy(logits: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
    """Cross-entropy of the kept rows, divided by the number of ALL rows: a dropped row counts as 0.

    `labels` are class indices or probabilities; `kept` (N,) may also be weights between 0 and 1.
    """
    return (F.cross_entropy(logits, labels, reduction="none") * kept).mean()


def squared_error(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows and classes."""
    return (probabilities - targets).square().mean()


def divergence(logits: Tensor, target_logits: Tensor) -> Tensor:
    """KL(softmax(target_logits), softmax(logits)), mean over the rows."""
    return F.kl_div(logits.log_softmax(1), target_logits.log_softmax(1), reduction="batchmean", log_target=True)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax(logits), mean over the rows."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


def interpolation_contrast(
    mixed_embeddings: Tensor,
    embeddings_of_mixed: Tensor,
    embeddings: Tensor,
    temperature: float,
    negatives: Tensor | None = None,
    anchors: Tensor | None = None,
) -> Tensor:
    """L_c of ICL-SSL: the mix of two embeddings must equal the embedding of the mix.

    For row i, with mix_z = `mixed_embeddings`, z_mix = `embeddings_of_mixed` and z = `embeddings`, each (N, D),

        -(mix_z_i . z_mix_i) / T  +  log sum_{k != i} exp(z_i . z_k / T),

    averaged over the rows. The positive is not in the denominator, so the loss may be negative.
    `negatives` (N, N, bool) says which k may push row i away; default all. A row without any keeps its positive only.
    Where only some rows were mixed, `anchors` (M,) says which; then mix_z and z_mix are (M, D).
    """
    positive = (mixed_embeddings * embeddings_of_mixed).sum(1) / temperature
    allowed = ~torch.eye(len(embeddings), dtype=torch.bool, device=embeddings.device)
    if negatives is not None:
        allowed = allowed & negatives
    rows = embeddings
    if anchors is not None:
        rows, allowed = embeddings[anchors], allowed[anchors]
    similarity = rows @ embeddings.T / temperature
    # A large negative number instead of -inf: a row with no negative at all would turn its gradient into NaN.
    similarity = similarity.masked_fill(~allowed, torch.finfo(similarity.dtype).min / 2)
    push = torch.logsumexp(similarity, 1).masked_fill(~allowed.any(1), 0.0)
    return (push - positive).mean()


def pair_contrast(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The loss of SimCLR (NT-Xent) of unit embeddings (N, D) of two views.

    Of all 2 N - 1 other embeddings each must find that of the other view of its image: the cross-entropy of its
    similarities, divided by the temperature, averaged over the 2 N rows.
    """
    rows = torch.cat([first, second])
    similarity = rows @ rows.T / temperature
    similarity.fill_diagonal_(-torch.inf)
    partner = torch.arange(len(rows), device=rows.device).roll(len(first))
    return F.cross_entropy(similarity, partner)


def queue_contrast(queries: Tensor, keys: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """The loss of MoCo: of its own key and all keys of the queue (M, D) each query must find its own."""
    own = (queries * keys).sum(1, keepdim=True)
    similarity = torch.cat([own, queries @ queue.T], 1) / temperature
    return F.cross_entropy(similarity, torch.zeros(len(queries), dtype=torch.long, device=queries.device))


def redundancy(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """The loss of Barlow Twins of embeddings (N, D) of two views: their cross-correlation must be the identity.

    Divided by D, so that the learning rate need not follow the width.
    """
    first, second = (F.batch_norm(rows, None, None, training=True) for rows in (first, second))
    squares = (first.T @ second / len(first) - torch.eye(first.shape[1]).to(first)).square()
    diagonal = squares.diagonal().sum()
    return (diagonal + weight * (squares.sum() - diagonal)) / first.shape[1]


def unlikeness(rows: Tensor, targets: Tensor) -> Tensor:
    """The negative cosine of the angle between rows and targets, averaged."""
    return -F.cosine_similarity(rows, targets).mean()


def align(probabilities: Tensor, mean_prediction: Tensor, target: Tensor | None = None) -> Tensor:
    """Distribution alignment: divide by the mean of the predictions, multiply by `target`, re-normalise.

    `target` is the distribution of classes to align to, by default uniform.
    """
    aligned = probabilities / mean_prediction.clamp(min=1e-12)  # where a class was never thought possible
    return to_probabilities(aligned if target is None else aligned * target)


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """p^(1/T), re-normalised: below T = 1 the likely classes become likelier."""
    return (probabilities.log() / temperature).softmax(-1)


def to_probabilities(rows: Tensor) -> Tensor:
    """Non-negative rows divided by their sums."""
    return rows / rows.sum(-1, keepdim=True)


def interpolate(first: Tensor, second: Tensor, mix: Tensor) -> Tensor:
    """mix * first + (1 - mix) * second, with one `mix` for each row."""
    mix = mix.view(-1, *[1] * (first.ndim - 1))
    return mix * first + (1 - mix) * second
