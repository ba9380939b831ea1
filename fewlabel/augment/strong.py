"""The strong view: the weak view, then RandAugment, then a cutout."""

from collections.abc import Collection

import torch
from torch import Tensor

from ..randomness import Draws
from .randaugment import randaugment
from .weak import weak

GREY = 127


def strong(images: Tensor, draws: Draws, without: Collection[str] = ()) -> Tensor:
    """uint8 in, uint8 out; `without` names operations to leave out."""
    images = randaugment(weak(images, draws, without), draws, without)
    return images if "cutout" in without else cutout(images, draws)


def cutout(images: Tensor, draws: Draws) -> Tensor:
    """A grey square of half the side about a random pixel; what sticks out of the image is lost."""
    height, width = images.shape[2:]
    hidden_rows = span(height, draws).to(images.device)
    hidden_columns = span(width, draws).to(images.device)
    hidden = (hidden_rows[:, None, :, None] & hidden_columns[:, None, None, :]).to(torch.uint8)
    return images * (1 - hidden) + GREY * hidden


def span(side: int, draws: Draws) -> Tensor:
    """(n, side): which rows (or columns) a square of half the side covers."""
    start = draws.integers(0, side, 1) - side // 4
    position = torch.arange(side)
    return (position >= start) & (position < start + side // 2)
