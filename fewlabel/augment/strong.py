"""The strong view: the weak view, then RandAugment, then a cutout."""

from collections.abc import Collection

import torch
from torch import Tensor

from .randaugment import randaugment
from .weak import weak

GREY = 127


def strong(images: Tensor, generator: torch.Generator, without: Collection[str] = ()) -> Tensor:
    """uint8 in, uint8 out; `without` names operations to leave out."""
    images = randaugment(weak(images, generator, without), generator, without)
    return images if "cutout" in without else cutout(images, generator)


def cutout(images: Tensor, generator: torch.Generator) -> Tensor:
    """A grey square of half the side about a random pixel; what sticks out of the image is lost."""
    count, _, height, width = images.shape
    hidden_rows = span(count, height, generator).to(images.device)
    hidden_columns = span(count, width, generator).to(images.device)
    hidden = (hidden_rows[:, None, :, None] & hidden_columns[:, None, None, :]).to(torch.uint8)
    return images * (1 - hidden) + GREY * hidden


def span(count: int, side: int, generator: torch.Generator) -> Tensor:
    """(count, side): which rows (or columns) a square of half the side covers."""
    start = torch.randint(side, (count, 1), generator=generator) - side // 4
    position = torch.arange(side)
    return (position >= start) & (position < start + side // 2)
