"""The view of SimCLR, which CoMatch contrasts with the strong one: Chen et al., https://arxiv.org/abs/2002.05709"""

import math
from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor

from ..randomness import Draws
from .colour import brightness, contrast, grey, hue, saturation

SMALLEST = 0.2  # share of the image's area that a crop keeps at least
RATIO = 4 / 3  # of the sides of a crop, at most
JITTER = {"brightness": (brightness, 0.4), "contrast": (contrast, 0.4), "colour": (saturation, 0.4), "hue": (hue, 0.1)}


def simclr(images: Tensor, draws: Draws, without: Collection[str] = ()) -> Tensor:
    """A crop of any size, mirrored or not, with other colours (p 0.8) or without any (p 0.2). uint8 in, uint8 out.

    `without` may name crop, horizontal-flip, brightness, contrast, colour, hue and grey.
    """
    height, width = images.shape[-2:]
    boxes = draw_boxes(height, width, draws)
    if "crop" in without:
        boxes = torch.tensor([[0.0, 0.0, height, width]]).expand(len(images), 4)
    mirrored = (draws.uniform() < 0.5) & ("horizontal-flip" not in without)
    images = crop_and_resize(images, boxes, mirrored)
    images = jitter(images, draws, without)
    grey_rows = ((draws.uniform() < 0.2) & ("grey" not in without)).to(images.device)
    return torch.where(grey_rows.view(-1, 1, 1, 1), grey(images), images)


def draw_boxes(height: int, width: int, draws: Draws) -> Tensor:
    """(n, 4): top, left, height and width, in whole pixels; a side that would not fit is cut to the image's."""
    area = height * width * (SMALLEST + (1 - SMALLEST) * draws.uniform())
    ratio = torch.exp(math.log(RATIO) * (2 * draws.uniform() - 1))
    high = (area / ratio).sqrt().round().clamp(1, height)
    wide = (area * ratio).sqrt().round().clamp(1, width)
    top = (draws.uniform() * (height - high + 1)).floor()
    left = (draws.uniform() * (width - wide + 1)).floor()
    return torch.stack([top, left, high, wide], 1)


def crop_and_resize(images: Tensor, boxes: Tensor, mirrored: Tensor) -> Tensor:
    """The boxes, stretched to the size of the image (bilinear) and mirrored where asked for."""
    return stretched(images, boxes, mirrored, *images.shape[-2:]).round().to(torch.uint8)


def stretched(images: Tensor, boxes: Tensor, mirrored: Tensor, height: int, width: int) -> Tensor:
    """The boxes, stretched or shrunk to that size, as floats."""
    top, left, high, wide = boxes.to(images.device).unbind(1)
    y = places(top, high, images.shape[-2], height)
    x = places(left, wide, images.shape[-1], width)
    x = torch.where(mirrored.to(images.device)[:, None], x.flip(1), x)
    grid = torch.stack([x[:, None, :].expand(-1, y.shape[1], -1), y[:, :, None].expand(-1, -1, x.shape[1])], -1)
    return F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)


def places(start: Tensor, length: Tensor, side: int, count: int) -> Tensor:
    """(n, count): where along a side of the image to look, on grid_sample's scale of -1 to 1; never out of the box."""
    start, length = start[:, None], length[:, None]
    place = start + (torch.arange(count, device=start.device) + 0.5) * length / count
    return torch.clamp(place, start + 0.5, start + length - 0.5) * 2 / side - 1


def jitter(images: Tensor, draws: Draws, without: Collection[str] = ()) -> Tensor:
    """Apply all four changes of colour with probability 0.8, in an order and by factors drawn for each image."""
    order = draws.uniform(len(JITTER)).argsort(1)
    chosen = draws.uniform() < 0.8
    change = 2 * draws.uniform(len(JITTER)) - 1
    images = images.clone()
    for turn in range(len(JITTER)):
        for which, (name, (operation, most)) in enumerate(JITTER.items()):
            rows = (chosen & (order[:, turn] == which)).nonzero().flatten()
            if len(rows) and name not in without:
                amount = (most * change[rows, which] + (operation is not hue)).to(images.device)
                rows = rows.to(images.device)
                images[rows] = operation(images[rows], amount)
    return images
