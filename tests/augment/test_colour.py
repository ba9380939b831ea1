"""Every change of colour against Pillow on the same image and factor."""

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from fewlabel.augment.colour import brightness, contrast, grey, hue, saturation
from tests.augment.test_randaugment import from_pillow, photographs, to_pillow

Operation = Callable[[Tensor, Tensor], Tensor]
PILLOW: dict[Operation, Callable[[Image.Image, float], Image.Image]] = {
    brightness: lambda image, x: ImageEnhance.Brightness(image).enhance(x),
    contrast: lambda image, x: ImageEnhance.Contrast(image).enhance(x),
    saturation: lambda image, x: ImageEnhance.Color(image).enhance(x),
    hue: lambda image, x: turned(image, x),
}
FACTORS = [0.0, 0.37, 0.6, 0.999, 1.0, 1.001, 1.17, 1.4, 2.5]
TURNS = [-0.5, -0.1, -0.037, -0.001, 0.0, 0.004, 0.05, 0.1, 0.5]


def turned(image: Image.Image, turn: float) -> Image.Image:
    """Added to the hue in 255 steps, beyond which it begins anew."""
    hue, saturation, value = image.convert("HSV").split()
    return Image.merge("HSV", (hue.point(lambda h: (h + int(turn * 255)) % 256), saturation, value)).convert("RGB")


def pictures(channels: int) -> Tensor:
    images = photographs(4 * len(FACTORS), channels)
    images[0] = 77  # one colour only
    images[1] = (torch.arange(32 * 32) % 2 * 255).view(32, 32).to(torch.uint8)
    return images


def by_pillow(operation: Operation, images: Tensor, amounts: list[float]) -> Tensor:
    pairs = zip(images, amounts, strict=True)
    return torch.stack([from_pillow(PILLOW[operation](to_pillow(image), amount)) for image, amount in pairs])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("operation", [brightness, contrast, saturation])
def test_enhancements_equal_pillow_to_the_bit(operation: Operation, channels: int) -> None:
    """Each image by a factor of its own."""
    images, factors = pictures(channels), 4 * FACTORS
    found = operation(images, torch.tensor(factors))
    assert torch.equal(found, by_pillow(operation, images, factors))
    same = torch.tensor(factors) == 1
    assert torch.equal(found[same], images[same])


def test_grey_equals_pillow_to_the_bit() -> None:
    images = pictures(3)
    assert torch.equal(grey(images), torch.stack([from_pillow(to_pillow(x).convert("L")) for x in images]))


def test_hue_of_photographs_equals_pillow_to_the_bit() -> None:
    images, turns = pictures(3), 4 * TURNS
    assert torch.equal(hue(images, torch.tensor(turns)), by_pillow(hue, images, turns))


def test_hue_of_all_colours_equals_pillow_to_the_bit() -> None:
    """Every fifth level of each channel: 52^3 colours."""
    levels = torch.arange(0, 256, 5, dtype=torch.uint8)
    colours = torch.cartesian_prod(levels, levels, levels).T.reshape(3, 52, 52 * 52).expand(len(TURNS), -1, -1, -1)
    assert torch.equal(hue(colours, torch.tensor(TURNS)), by_pillow(hue, colours, TURNS))


@pytest.mark.parametrize("operation", [saturation, hue])
def test_one_channel_has_no_colour_to_change(operation: Operation) -> None:
    images = pictures(1)
    assert torch.equal(operation(images, torch.linspace(-0.1, 1.4, len(images))), images)
    assert torch.equal(grey(images), images)


def test_grey_pixels_have_no_hue_to_turn() -> None:
    images = pictures(1).expand(-1, 3, -1, -1)
    assert torch.equal(hue(images, torch.linspace(-0.5, 0.5, len(images))), images)
