"""A small view for first stages on CPUs: SimCLR's crop at three quarters of the size, with its colours in one step.

All changes of colour are products with one matrix for each image, so a view takes a fifth of the time of SimCLR's: hue
is a turn of the colour plane of YIQ instead of HSV, and what exceeds white or black is cut off once, at the end.
"""

import math
from collections.abc import Collection

import torch
from torch import Tensor

from ..randomness import Draws
from .simclr import JITTER, draw_boxes, stretched

LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue
YIQ = torch.tensor([LUMINANCE, (0.596, -0.274, -0.322), (0.211, -0.523, 0.312)], dtype=torch.float64)


def small_side(side: int) -> int:
    """Three quarters, rounded to a multiple of 8."""
    return max(8, round(0.75 * side / 8) * 8)


def small(images: Tensor, draws: Draws, without: Collection[str] = ()) -> Tensor:
    """A crop of any size, mirrored or not, with other colours (p 0.8) or without any (p 0.2), at a smaller size.

    `without` may name what that of `simclr` may. uint8 in, uint8 out.
    """
    height, width = images.shape[-2:]
    boxes = draw_boxes(height, width, draws)
    if "crop" in without:
        boxes = torch.tensor([[0.0, 0.0, height, width]]).expand(len(images), 4)
    mirrored = (draws.uniform() < 0.5) & ("horizontal-flip" not in without)
    crops = stretched(images, boxes, mirrored, small_side(height), small_side(width))
    chosen = draws.uniform() < 0.8
    change = chosen[:, None] * (2 * draws.uniform(len(JITTER)) - 1)
    amounts = {
        name: (most * change[:, place] * (name not in without)).to(images.device)
        for place, (name, (_, most)) in enumerate(JITTER.items())
    }
    grey = ((draws.uniform() < 0.2) & ("grey" not in without)).to(images.device)
    return recoloured(crops, amounts, grey).round().to(torch.uint8)


def recoloured(images: Tensor, amounts: dict[str, Tensor], grey: Tensor) -> Tensor:
    """Images (n, C, H, W) of floats with another hue, saturation, contrast and brightness, in that order.

    `amounts` (n,) are 0 where nothing changes; the hue turns by that share of a whole round.
    """
    bright, contrast = 1 + amounts["brightness"], 1 + amounts["contrast"]
    if images.shape[1] == 1:
        luminance = images.new_ones(1)
        matrix = (bright * contrast).view(-1, 1, 1)
    else:
        luminance = images.new_tensor(LUMINANCE)
        saturation = torch.where(grey, 0.0, 1 + amounts["colour"]).view(-1, 1, 1)
        plain = luminance.expand(3, 3)  # every channel becomes the luminance
        mixed = plain + saturation * (torch.eye(3, device=images.device) - plain)
        matrix = (bright * contrast).view(-1, 1, 1) * (mixed @ turned(amounts["hue"]))
    mean = images.mean((2, 3)) @ luminance  # the luminance of a whole image, which hue and saturation leave alone
    shift = bright * (1 - contrast) * mean
    changed = matrix @ images.flatten(2) + shift.view(-1, 1, 1)
    return changed.clamp(0, 255).view(images.shape)


def turned(shares: Tensor) -> Tensor:
    """(n, 3, 3): matrices that turn the hue of red, green and blue by so much of a whole round."""
    angle = 2 * math.pi * shares.double()
    to_yiq = YIQ.to(shares.device)
    turn = torch.zeros(len(shares), 3, 3, dtype=torch.float64, device=shares.device)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
    turn[:, 2, 1] = angle.sin()
    turn[:, 1, 2] = -angle.sin()
    return (to_yiq.inverse() @ turn @ to_yiq).to(shares.dtype)
