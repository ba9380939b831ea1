"""Projectors: the small networks behind the features whose outputs contrastive and self-supervised terms compare."""

import itertools

from torch import nn


def make_projector(*widths: int, norm_last: bool = False) -> nn.Sequential:
    """Linear layers from width to width, with batch norm and ReLU between them, and a plain batch norm at the end."""
    layers: list[nn.Module] = []
    last = len(widths) - 2
    for place, (inside, outside) in enumerate(itertools.pairwise(widths)):
        layers.append(nn.Linear(inside, outside, bias=place == last and not norm_last))
        if place < last:
            layers += [nn.BatchNorm1d(outside), nn.ReLU()]
    if norm_last:
        layers.append(nn.BatchNorm1d(widths[-1], affine=False))
    return nn.Sequential(*layers)
