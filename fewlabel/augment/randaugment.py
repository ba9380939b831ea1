"""RandAugment on a whole batch, where every image draws its own operations and levels.

Cubuk et al., https://arxiv.org/abs/1909.13719, with the 14 operations and ranges FixMatch uses. Images are uint8
(N, C, H, W). Point operations give Pillow's own result to the bit. The geometric ones are matrices, so that two of
them in a row cost one resampling.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .colour import blend, brightness, contrast, saturation

LEVELS = 9  # a level v is drawn from 1 .. 9


# ---- point operations: images (n, C, H, W) and levels (n,) to images


def autocontrast(images: Tensor, level: Tensor) -> Tensor:
    """Stretch every channel to the full range."""
    lowest, highest = images.amin((2, 3), keepdim=True).double(), images.amax((2, 3), keepdim=True).double()
    scale = torch.full_like(highest, 255) / (highest - lowest)  # 255 / tensor would multiply by a rounded reciprocal
    stretched = (images * scale + -lowest * scale).floor().clamp(0, 255)
    return torch.where(highest > lowest, stretched, images.double()).to(torch.uint8)


def equalize(images: Tensor, level: Tensor) -> Tensor:
    """Flatten the histogram of every channel."""
    planes = images.flatten(0, 1).flatten(1).long()  # (n C, H W)
    offsets = 256 * torch.arange(len(planes), device=images.device)
    histogram = torch.bincount((planes + offsets[:, None]).flatten(), minlength=256 * len(planes)).view(-1, 256)
    brightest = histogram.gather(1, planes.amax(1, keepdim=True))
    step = (planes.shape[1] - brightest) // 255
    before = histogram.cumsum(1) - histogram
    table = ((step // 2 + before) // step.clamp(min=1)).clamp(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return table.gather(1, planes).view(images.shape).to(torch.uint8)


def posterize(images: Tensor, level: Tensor) -> Tensor:
    """Keep the 4 + int(0.4 v) highest bits."""
    dropped = 8 - (4 + (4 * level) // 10)
    return images & (256 - 2**dropped).to(torch.uint8).view(-1, 1, 1, 1)


def solarize(images: Tensor, level: Tensor) -> Tensor:
    """Invert the pixels at or above 256 - int(25.6 v)."""
    threshold = (256 - (256 * level) // 10).view(-1, 1, 1, 1)
    return torch.where(images < threshold, images, 255 - images)


def strength(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A change of colour by the factor 0.05 + 0.09 v."""
    return lambda images, level: operation(images, 0.05 + 0.09 * level.double())


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with a smoothed image, whose outermost pixels stay as they are."""
    kernel = torch.ones(3, 3, device=images.device)
    kernel[1, 1] = 5
    channels = images.shape[1]
    weights = kernel.expand(channels, 1, 3, 3)
    total = F.conv2d(images.float(), weights, groups=channels)
    smooth = images.float()
    smooth[:, :, 1:-1, 1:-1] = (total / 13 + 0.5).floor()
    return blend(smooth, images, factor)


# ---- geometric operations: signed levels (n,) and the side to matrices (n, 3, 3)
# A matrix maps the centre of an output pixel to a place in the input, origin top left, as in Pillow.


def matrix(rows: list[list[Tensor | float]], like: Tensor) -> Tensor:
    entries = [torch.as_tensor(entry, dtype=torch.float64).expand(len(like)) for row in rows for entry in row]
    return torch.stack(entries, 1).view(-1, 3, 3)


def rotate(level: Tensor, side: int) -> Tensor:
    """By 3 v degrees about the centre."""
    angle = torch.deg2rad(-3.0 * level)
    cos, sin, centre = angle.cos(), angle.sin(), side / 2
    across, down = centre - centre * cos - centre * sin, centre + centre * sin - centre * cos
    return matrix([[cos, sin, across], [-sin, cos, down], [0, 0, 1]], level)


def shear_x(level: Tensor, side: int) -> Tensor:
    return matrix([[1, 0.03 * level, 0], [0, 1, 0], [0, 0, 1]], level)


def shear_y(level: Tensor, side: int) -> Tensor:
    return matrix([[1, 0, 0], [0.03 * level, 1, 0], [0, 0, 1]], level)


def translate_x(level: Tensor, side: int) -> Tensor:
    return matrix([[1, 0, 0.03 * side * level], [0, 1, 0], [0, 0, 1]], level)


def translate_y(level: Tensor, side: int) -> Tensor:
    return matrix([[1, 0, 0], [0, 1, 0.03 * side * level], [0, 0, 1]], level)


def resample(images: Tensor, matrices: Tensor) -> Tensor:
    """Bilinear, black where the image ends."""
    count, _, height, width = images.shape
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    places = torch.stack([x, y, torch.ones_like(x)], -1).view(1, -1, 3).to(images.device)
    source = places @ matrices[:, :2].transpose(1, 2).float()  # (n, H W, 2)
    grid = source * torch.tensor([2 / width, 2 / height], device=images.device) - 1
    inside = (grid.abs() <= 1).all(-1).view(count, 1, height, width)
    grid = grid.view(count, height, width, 2)
    sampled = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return (sampled * inside + 1e-3).to(torch.uint8)  # truncates as Pillow does, but not 254.9999 to 254


POINT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
    "brightness": strength(brightness),
    "contrast": strength(contrast),
    "colour": strength(saturation),
    "sharpness": strength(sharpness),
}
GEOMETRIC: dict[str, Callable[[Tensor, int], Tensor]] = {
    "rotate": rotate,
    "shear-x": shear_x,
    "shear-y": shear_y,
    "translate-x": translate_x,
    "translate-y": translate_y,
}
OPERATIONS = ("identity", *POINT, *GEOMETRIC)


def randaugment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Two operations drawn for each image, each applied with probability 1/2, in the order in which they were drawn.

    Two geometric ones are multiplied into one matrix, so there is one resampling at most: after a point operation that
    was drawn first, before one that was drawn second.
    """
    shape = (len(images), 2)
    chosen = torch.randint(len(OPERATIONS), shape, generator=generator)
    level = torch.randint(1, LEVELS + 1, shape, generator=generator)
    sign = torch.randint(2, shape, generator=generator) * 2 - 1
    chosen = chosen * (torch.rand(shape, generator=generator) < 0.5)  # 0 is the identity

    images = apply_point(images.clone(), chosen[:, 0], level[:, 0])
    images = apply_geometric(images, chosen, level * sign)
    return apply_point(images, chosen[:, 1], level[:, 1])


def apply_point(images: Tensor, chosen: Tensor, level: Tensor) -> Tensor:
    """Each point operation on the rows that drew it, in place."""
    for position, operation in enumerate(POINT.values(), start=1):
        rows = (chosen == position).nonzero().flatten()
        if len(rows):
            levels = level[rows].to(images.device)
            rows = rows.to(images.device)
            images[rows] = operation(images[rows], levels)
    return images


def apply_geometric(images: Tensor, chosen: Tensor, signed_level: Tensor) -> Tensor:
    """One resampling, in place, of the rows that drew any geometric operation."""
    first = 1 + len(POINT)
    rows = (chosen >= first).any(1).nonzero().flatten()
    if not len(rows):
        return images
    total = torch.eye(3, dtype=torch.float64).repeat(len(rows), 1, 1)
    for slot in range(chosen.shape[1]):
        for position, operation in enumerate(GEOMETRIC.values(), start=first):
            here = chosen[rows, slot] == position
            if here.any():
                total[here] = total[here] @ operation(signed_level[rows[here], slot].double(), images.shape[-1])
    rows = rows.to(images.device)
    images[rows] = resample(images[rows], total.to(images.device, torch.float32))
    return images
