"""Changes of colour on a whole batch, in Pillow's own arithmetic. Images are uint8 (n, C, H, W); each has its factor.

A factor of 1 keeps the image, 0 gives the plain one, and more than 1 exaggerates. Where an image has one channel
only, there is no colour to change.
"""

import torch
from torch import Tensor


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    return blend(torch.zeros_like(images), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    return blend(mean_grey(images), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    return blend(grey(images), images, factor)


def hue(images: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue by `turn` (n,) of a whole round, in 255 steps; by way of Pillow's 8-bit HSV."""
    if images.shape[1] == 1:
        return images
    value, least = images.amax(1).double(), images.amin(1).double()
    spread = value - least
    red, green, blue = rounded((value[:, None] - images) / spread[:, None].clamp(min=1)).unbind(1)
    r, g, _ = (images == value[:, None]).unbind(1)
    place = rounded(torch.where(r, blue - green, torch.where(g, 2 + red - blue, 4 + green - red)))
    place = (rounded((place / 6 + 1) % 1) * 255).trunc()
    place = (place + (turn * 255).trunc().view(-1, 1, 1)) % 256
    colourful = rounded((rounded(spread / value.clamp(min=1)) * 255).trunc() / 255)
    sixth = place * 6 / 255
    part = rounded(sixth - sixth.floor())
    low, falling, rising = (
        (value * (1 - colourful * share) + 0.5).floor() for share in (torch.ones_like(part), part, 1 - part)
    )
    cases = [
        (value, rising, low),
        (falling, value, low),
        (low, value, rising),
        (low, falling, value),
        (rising, low, value),
        (value, low, falling),
    ]
    choice = (sixth.floor() % 6).long()[None]
    channels = [torch.stack(options).gather(0, choice)[0] for options in zip(*cases, strict=True)]
    turned = torch.stack(channels, 1).to(torch.uint8)
    return torch.where((spread == 0)[:, None], images, turned)


def rounded(values: Tensor) -> Tensor:
    """Round to single precision, in which Pillow stores its double-precision results."""
    return values.float().double()


def grey(images: Tensor) -> Tensor:
    """Luminance (n, 1, H, W) in Pillow's fixed-point arithmetic."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.int().unbind(1)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).to(torch.uint8)[:, None]


def mean_grey(images: Tensor) -> Tensor:
    """(n, 1, 1, 1): the mean luminance, a whole number."""
    return (grey(images).double().mean((1, 2, 3), keepdim=True) + 0.5).floor()


def blend(plain: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """Blend from `plain` (factor 0) to the image itself (factor 1) and beyond."""
    plain = plain.float()
    mixed = plain + factor.float().view(-1, 1, 1, 1) * (images.float() - plain)
    return mixed.clamp(0, 255).to(torch.uint8)
