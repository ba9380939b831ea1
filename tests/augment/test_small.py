"""The small view: crops and single changes of colour against Pillow, all together against loops in float64."""

import colorsys
import math

import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from fewlabel.augment.colour import brightness, contrast, saturation
from fewlabel.augment.simclr import draw_boxes, stretched
from fewlabel.augment.small import recoloured, small, small_side
from tests.augment.test_colour import PILLOW
from tests.augment.test_randaugment import from_pillow, photographs, to_pillow
from tests.drawing import draws

NAMES = ("brightness", "contrast", "colour", "hue")
FACTORS = torch.tensor([0.6, 0.85, 1.0, 1.2, 1.4])


def amounts_of(count: int, **given: Tensor) -> dict[str, Tensor]:
    return {name: given.get(name, torch.zeros(count)) for name in NAMES}


@pytest.mark.parametrize(("side", "expected"), [(8, 8), (16, 16), (28, 24), (32, 24), (64, 48), (96, 72)])
def test_three_quarters_of_the_side(side: int, expected: int) -> None:
    assert small_side(side) == expected
    images = photographs(3, 3, side)
    view = small(images, draws(images))
    assert (tuple(view.shape), view.dtype) == ((3, 3, expected, expected), torch.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_crops_agree_with_pillow(channels: int) -> None:
    """Within the box; at its edge Pillow looks at pixels outside of it, as it is given the whole picture."""
    images = photographs(40, channels, 32)
    boxes = draw_boxes(32, 32, draws(images))
    mirrored = torch.arange(40) % 2 > 0
    found = stretched(images, boxes, mirrored, 24, 24)
    for picture, box, turned, view in zip(images, boxes.tolist(), mirrored.tolist(), found, strict=True):
        top, left, high, wide = box
        extent = (left, top, left + wide, top + high)
        made = to_pillow(picture).transform((24, 24), Image.Transform.EXTENT, extent, Image.Resampling.BILINEAR)
        expected = from_pillow(ImageOps.mirror(made) if turned else made)
        inside = (slice(None), slice(2, -2), slice(2, -2))
        assert (view[inside] - expected[inside].float()).abs().max() <= 1.01


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "operation"), [("brightness", brightness), ("contrast", contrast)])
def test_single_changes_agree_with_pillow(name: str, operation: object, channels: int) -> None:
    """To a level and a half: Pillow works with whole numbers."""
    images = photographs(len(FACTORS), channels, 16)
    found = recoloured(images.float(), amounts_of(len(images), **{name: FACTORS - 1}), torch.zeros(len(images)).bool())
    for picture, factor, view in zip(images, FACTORS.tolist(), found, strict=True):
        expected = from_pillow(PILLOW[operation](to_pillow(picture), factor))  # type: ignore[index]
        assert (view - expected.float()).abs().max() <= 1.5


def test_saturation_and_grey_agree_with_pillow() -> None:
    images, none = photographs(len(FACTORS), 3, 16), torch.zeros(len(FACTORS)).bool()
    found = recoloured(images.float(), amounts_of(len(images), colour=FACTORS - 1), none)
    for picture, factor, view in zip(images, FACTORS.tolist(), found, strict=True):
        assert (view - from_pillow(PILLOW[saturation](to_pillow(picture), factor)).float()).abs().max() <= 1.5
    grey = recoloured(images.float(), amounts_of(len(images), colour=FACTORS - 1), ~none)
    for picture, view in zip(images, grey, strict=True):
        assert (view - from_pillow(to_pillow(picture).convert("L")).float()).abs().max() <= 1


def test_all_together_against_loops() -> None:
    images = photographs(6, 3, 4)
    draw = torch.Generator().manual_seed(2)
    amounts = {name: 0.8 * torch.rand(6, generator=draw) - 0.4 for name in NAMES}
    grey = torch.tensor([False, True, False, False, True, False])
    found = recoloured(images.float(), amounts, grey)
    for n, picture in enumerate(images.double()):
        b, c, s, h = (amounts[name][n].item() for name in NAMES)
        s = -1.0 if grey[n] else s
        pixels = [tuple(picture[:, y, x].tolist()) for y in range(4) for x in range(4)]
        mean = sum(luminance(*pixel) for pixel in pixels) / len(pixels)
        for place, pixel in enumerate(pixels):
            turned = turn(pixel, h)
            light = luminance(*turned)
            for channel in range(3):
                value = light + (1 + s) * (turned[channel] - light)
                value = mean + (1 + c) * (value - mean)
                value = min(255.0, max(0.0, (1 + b) * value))
                assert found[n, channel, place // 4, place % 4].item() == pytest.approx(value, abs=1e-2)


def luminance(red: float, green: float, blue: float) -> float:
    return 0.299 * red + 0.587 * green + 0.114 * blue


def turn(pixel: tuple[float, ...], share: float) -> list[float]:
    """By way of YIQ, whose third row is chosen so that the first two tell the rest."""
    r, g, b = pixel
    y, i, q = luminance(r, g, b), 0.596 * r - 0.274 * g - 0.322 * b, 0.211 * r - 0.523 * g + 0.312 * b
    angle = 2 * math.pi * share
    i, q = i * math.cos(angle) - q * math.sin(angle), i * math.sin(angle) + q * math.cos(angle)
    # Cramer's rule for the three equations
    rows = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))

    def determinant(m: tuple[tuple[float, ...], ...]) -> float:
        (a, b, c), (d, e, f), (g, h, k) = m
        return a * (e * k - f * h) - b * (d * k - f * g) + c * (d * h - e * g)

    whole = determinant(rows)
    return [
        determinant(
            tuple((*row[:column], value, *row[column + 1 :]) for row, value in zip(rows, (y, i, q), strict=True))
        )
        / whole
        for column in range(3)
    ]


def test_a_whole_turn_is_none_and_a_third_moves_red_to_blue() -> None:
    red = torch.tensor([200.0, 60.0, 60.0]).view(1, 3, 1, 1)
    same = recoloured(red, amounts_of(1, hue=torch.tensor([1.0])), torch.tensor([False]))
    assert torch.allclose(same, red, atol=0.1)
    third = recoloured(red, amounts_of(1, hue=torch.tensor([1 / 3])), torch.tensor([False])).flatten().tolist()
    hue, _, _ = colorsys.rgb_to_hsv(*(value / 255 for value in third))
    assert abs(hue - 2 / 3) < 0.12  # in the plane of I and Q a turn to the left goes from red to blue


def test_changes_can_be_left_out() -> None:
    images = photographs(200, 3, 16)
    everything = ("crop", "horizontal-flip", "brightness", "contrast", "colour", "hue", "grey")
    assert torch.equal(small(images, draws(images), everything), images)
    for name in everything:
        others = [other for other in everything if other != name]
        assert not torch.equal(small(images, draws(images), others), images)
    grey = small(images, draws(images), [name for name in everything if name != "grey"])
    share = (grey[:, 0] == grey[:, 1]).flatten(1).all(1).float().mean().item()
    assert 0.1 < share < 0.3
