"""The weak view: a random flip where that is harmless, and a shift by up to an eighth of the side."""

from collections.abc import Collection

import torch
from torch import Tensor

from ..randomness import Draws


def weak(images: Tensor, draws: Draws, without: Collection[str] = ()) -> Tensor:
    """Flip with probability 1/2, then crop at random after reflect-padding by 1/8. uint8 in, uint8 out.

    `without` names operations to leave out, here and in all views: "horizontal-flip" and "shift" of the weak one.
    """
    height, width = images.shape[2:]
    mirrored = draws.uniform() < 0.5
    down, right = (shifts(side // 8, draws) * ("shift" not in without) for side in (height, width))
    rows = reflect(torch.arange(height) + down[:, None], height)
    columns = reflect(torch.arange(width) + right[:, None], width)
    if "horizontal-flip" not in without:
        columns = torch.where(mirrored[:, None], width - 1 - columns, columns)
    return take(images, rows.to(images.device), columns.to(images.device))


def shifts(most: int, draws: Draws) -> Tensor:
    """Whole pixels between -most and most, one for each image."""
    return draws.integers(-most, most + 1)


def reflect(position: Tensor, side: int) -> Tensor:
    """Positions outside 0 .. side - 1 mirrored at the edge pixel, as reflect-padding does."""
    position = position.abs()
    return torch.where(position >= side, 2 * (side - 1) - position, position)


def take(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels of image n at rows[n] (N, H) x columns[n] (N, W)."""
    count, channels, height, width = images.shape
    position = rows[:, :, None] * width + columns[:, None, :]  # (N, H, W)
    position = position.view(count, 1, height * width).expand(count, channels, height * width)
    return images.reshape(count, channels, -1).gather(2, position).view(images.shape)
