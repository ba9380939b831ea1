"""RandAugment on a whole batch, where every image draws its own operations and levels.

Cubuk et al., https://arxiv.org/abs/1909.13719, with the 14 operations and ranges FixMatch uses. Images are uint8
(N, C, H, W). Point operations give Pillow's own result to the bit; most of them are a table of 256 values for each
channel, so that all images of a batch are looked up at once. The geometric ones are matrices, so that two of them in a
row cost one resampling.
"""

from collections.abc import Callable, Collection

import torch
import torch.nn.functional as F
from torch import Tensor

from ..randomness import Draws
from .colour import blend, mean_grey, saturation

LEVELS = 9  # a level v is drawn from 1 .. 9
CHUNK = 128  # images that are resampled at once: what they need on the way fits into a processor's cache


# ---- operations that are tables: images (n, C, H, W) and levels (n,) to tables (n, C or 1, 256)


def autocontrast(images: Tensor, level: Tensor) -> Tensor:
    """Stretch every channel to the full range."""
    planes, value = images.flatten(2), values(images).double()
    lowest, highest = planes.amin(2, keepdim=True).double(), planes.amax(2, keepdim=True).double()
    scale = torch.full_like(highest, 255) / (highest - lowest)  # 255 / tensor would multiply by a rounded reciprocal
    stretched = (value * scale + -lowest * scale).floor().clamp(0, 255)
    return torch.where(highest > lowest, stretched, value)


def equalize(images: Tensor, level: Tensor) -> Tensor:
    """Flatten the histogram of every channel."""
    planes = images.flatten(0, 1).flatten(1).long()  # (n C, H W)
    offsets = 256 * torch.arange(len(planes), device=images.device)
    histogram = torch.bincount((planes + offsets[:, None]).flatten(), minlength=256 * len(planes)).view(-1, 256)
    brightest = histogram.gather(1, planes.amax(1, keepdim=True))
    step = (planes.shape[1] - brightest) // 255
    before = histogram.cumsum(1) - histogram
    table = ((step // 2 + before) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, table, values(images)).view(*images.shape[:2], 256)


def posterize(images: Tensor, level: Tensor) -> Tensor:
    """Keep the 4 + int(0.4 v) highest bits."""
    dropped = 8 - (4 + (4 * level) // 10)
    return values(images) & (256 - 2**dropped).view(-1, 1, 1)


def solarize(images: Tensor, level: Tensor) -> Tensor:
    """Invert the pixels at or above 256 - int(25.6 v)."""
    threshold = (256 - (256 * level) // 10).view(-1, 1, 1)
    return torch.where(values(images) < threshold, values(images), 255 - values(images))


def brightness(images: Tensor, level: Tensor) -> Tensor:
    black = torch.zeros(1, 1, 1, 1, device=images.device)
    return blend(black, values(images).view(1, 1, 1, 256), strength(level)).flatten(2)


def contrast(images: Tensor, level: Tensor) -> Tensor:
    return blend(mean_grey(images), values(images).view(1, 1, 1, 256), strength(level)).flatten(2)


def values(images: Tensor) -> Tensor:
    """All that a pixel can be."""
    return torch.arange(256, device=images.device)


def strength(level: Tensor) -> Tensor:
    """The factor of a blending operation: 0.05 + 0.09 v."""
    return 0.05 + 0.09 * level.double()


# ---- other point operations: images (n, C, H, W) and levels (n,) to images


def colour(images: Tensor, level: Tensor) -> Tensor:
    return saturation(images, strength(level))


def sharpness(images: Tensor, level: Tensor) -> Tensor:
    """Blend with a smoothed image, whose outermost pixels stay as they are."""
    wide = images.short()
    lines = wide[:, :, :-2] + wide[:, :, 1:-1] + wide[:, :, 2:]
    total = lines[..., :-2] + lines[..., 1:-1] + lines[..., 2:] + 4 * wide[:, :, 1:-1, 1:-1]
    smooth = images.float()
    smooth[:, :, 1:-1, 1:-1] = (total.float() / 13 + 0.5).floor()
    return blend(smooth, images, strength(level))


# ---- geometric operations: matrices that map the centre of an output pixel to a place in the input, origin top left


def matrices(chosen: Tensor, level: Tensor, side: int) -> Tensor:
    """(n, 3, 3) of operations by number and their signed levels, both (n,); the identity for what is not geometric."""

    def amount(name: str, each: float) -> Tensor:
        return each * torch.where(chosen == OPERATIONS.index(name), level, 0).double()

    angle = torch.deg2rad(amount("rotate", -3.0))  # about the centre
    cos, sin, centre = angle.cos(), angle.sin(), side / 2
    across = centre - centre * cos - centre * sin + amount("translate-x", 0.03 * side)
    down = centre + centre * sin - centre * cos + amount("translate-y", 0.03 * side)
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    entries = [cos, sin + amount("shear-x", 0.03), across, amount("shear-y", 0.03) - sin, cos, down, zero, zero, one]
    return torch.stack(entries, 1).view(-1, 3, 3)


def resample(images: Tensor, matrices: Tensor) -> Tensor:
    """Bilinear, black where the image ends."""
    height, width = images.shape[2:]
    rows = matrices.float()[:, :2, :, None, None]  # what x, y and 1 contribute to both coordinates
    x = torch.arange(width, device=images.device) + 0.5
    y = torch.arange(height, device=images.device)[:, None] + 0.5
    source_x, source_y = (rows[:, i, 0] * x + (rows[:, i, 1] * y + rows[:, i, 2]) for i in range(2))
    grid = torch.stack([source_x * (2 / width) - 1, source_y * (2 / height) - 1], -1)
    inside = (source_x >= 0) & (source_x <= width) & (source_y >= 0) & (source_y <= height)
    sampled = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return (sampled + 1e-3).to(torch.uint8) * inside[:, None]  # truncates as Pillow does, but not 254.9999 to 254


TABLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
    "brightness": brightness,
    "contrast": contrast,
}
POINT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"colour": colour, "sharpness": sharpness}
GEOMETRIC = ("rotate", "shear-x", "shear-y", "translate-x", "translate-y")
OPERATIONS = ("identity", *TABLES, *POINT, *GEOMETRIC)


def randaugment(images: Tensor, draws: Draws, without: Collection[str] = ()) -> Tensor:
    """Two operations drawn for each image, each applied with probability 1/2, in the order in which they were drawn.

    Where one of `without` is drawn, nothing is done.

    Two geometric ones are multiplied into one matrix, so there is one resampling at most: after a point operation that
    was drawn first, before one that was drawn second.
    """
    chosen = draws.integers(0, len(OPERATIONS), 2)
    level = draws.integers(1, LEVELS + 1, 2)
    sign = draws.integers(0, 2, 2) * 2 - 1
    chosen = chosen * (draws.uniform(2) < 0.5)  # 0 is the identity
    allowed = torch.tensor([name not in without for name in OPERATIONS])
    chosen = chosen * allowed[chosen]

    images = apply_point(images, chosen[:, 0], level[:, 0])
    images = apply_geometric(images, chosen, level * sign)
    return apply_point(images, chosen[:, 1], level[:, 1])


def apply_point(images: Tensor, chosen: Tensor, level: Tensor) -> Tensor:
    """Each point operation on the images that drew it."""
    images, level, back = grouped(images, level, chosen)
    ends = chosen.bincount(minlength=len(OPERATIONS)).cumsum(0).tolist()
    group = {name: slice(*ends[i - 1 : i + 1]) for i, name in enumerate(OPERATIONS) if i and ends[i - 1] < ends[i]}
    tables = [
        operation(images[group[name]], level[group[name]]).to(torch.uint8).expand(-1, images.shape[1], -1)
        for name, operation in TABLES.items()
        if name in group
    ]
    if tables:
        looked_up = images[ends[0] : ends[len(TABLES)]]
        looked_up.copy_(torch.cat(tables).gather(2, looked_up.flatten(2).long()).view_as(looked_up))
    for name, operation in POINT.items():
        if name in group:
            images[group[name]] = operation(images[group[name]], level[group[name]])
    return images.index_select(0, back)


def apply_geometric(images: Tensor, chosen: Tensor, signed_level: Tensor) -> Tensor:
    """One resampling of the images that drew any geometric operation."""
    moved = (chosen >= OPERATIONS.index(GEOMETRIC[0])).any(1)
    still = len(moved) - int(moved.sum())
    if still == len(moved):
        return images
    total = torch.eye(3, dtype=torch.float64)
    for slot in range(chosen.shape[1]):
        total = total @ matrices(chosen[:, slot], signed_level[:, slot], images.shape[-1])
    images, total, back = grouped(images, total, moved)
    for part, matrix in zip(images[still:].split(CHUNK), total[still:].split(CHUNK), strict=True):
        part.copy_(resample(part, matrix))
    return images.index_select(0, back)


def grouped(images: Tensor, amounts: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Images and amounts, on their device, with those of a group side by side, and the order that puts them back.

    So each operation works on a slice: writing into scattered rows would cost more than most operations do.
    """
    order = group.argsort(stable=True)
    amounts, back, rows = (tensor.to(images.device) for tensor in (amounts[order], order.argsort(), order))
    return images.index_select(0, rows), amounts, back
