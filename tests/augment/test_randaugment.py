"""Every operation against Pillow on the same image and level."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from fewlabel.augment.randaugment import (
    GEOMETRIC,
    LEVELS,
    OPERATIONS,
    POINT,
    TABLES,
    apply_geometric,
    apply_point,
    randaugment,
)
from tests.drawing import draws

AFFINE, BILINEAR = Image.Transform.AFFINE, Image.Resampling.BILINEAR


def factor(v: int) -> float:
    return 0.05 + 0.09 * v


PILLOW_POINT: dict[str, Callable[[Image.Image, int], Image.Image]] = {
    "autocontrast": lambda image, v: ImageOps.autocontrast(image),
    "equalize": lambda image, v: ImageOps.equalize(image),
    "posterize": lambda image, v: ImageOps.posterize(image, 4 + int(0.4 * v)),
    "solarize": lambda image, v: ImageOps.solarize(image, 256 - int(25.6 * v)),
    "brightness": lambda image, v: ImageEnhance.Brightness(image).enhance(factor(v)),
    "contrast": lambda image, v: ImageEnhance.Contrast(image).enhance(factor(v)),
    "colour": lambda image, v: ImageEnhance.Color(image).enhance(factor(v)),
    "sharpness": lambda image, v: ImageEnhance.Sharpness(image).enhance(factor(v)),
}


def affine(image: Image.Image, *six: float) -> Image.Image:
    return image.transform(image.size, AFFINE, six, BILINEAR)


PILLOW_GEOMETRIC: dict[str, Callable[[Image.Image, int], Image.Image]] = {
    "rotate": lambda image, v: image.rotate(3 * v, BILINEAR),
    "shear-x": lambda image, v: affine(image, 1, 0.03 * v, 0, 0, 1, 0),
    "shear-y": lambda image, v: affine(image, 1, 0, 0, 0.03 * v, 1, 0),
    "translate-x": lambda image, v: affine(image, 1, 0, 0.03 * v * image.width, 0, 1, 0),
    "translate-y": lambda image, v: affine(image, 1, 0, 0, 0, 1, 0.03 * v * image.height),
}


def photographs(count: int, channels: int, side: int = 32) -> Tensor:
    """Smooth pictures with noise: like photographs, and of uneven range."""
    draw = np.random.default_rng(0)
    coarse = draw.integers(0, 256, (count, 6, 6, channels), np.uint8)
    pictures = []
    for i, small in enumerate(coarse):
        big = Image.fromarray(small[..., 0] if channels == 1 else small).resize((side, side), Image.Resampling.BICUBIC)
        array = np.asarray(big, np.float64).reshape(side, side, channels) * (0.3 + 0.7 * draw.random())
        array += draw.normal(0, 6, array.shape) + 40 * (i % 3)
        pictures.append(array.clip(0, 255).astype(np.uint8).transpose(2, 0, 1))
    return torch.from_numpy(np.stack(pictures))


def to_pillow(pixels: Tensor) -> Image.Image:
    array = pixels.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def from_pillow(image: Image.Image) -> Tensor:
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))


def test_the_fourteen() -> None:
    assert len(OPERATIONS) == 14
    assert {*TABLES, *POINT} == set(PILLOW_POINT)
    assert set(GEOMETRIC) == set(PILLOW_GEOMETRIC)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", [*TABLES, *POINT])
def test_point_operations_equal_pillow_to_the_bit(name: str, channels: int) -> None:
    images = photographs(3 * LEVELS, channels)
    images[0] = 77  # one colour only: no range to stretch, one bar in the histogram
    images[1] = (torch.arange(32 * 32) % 2 * 255).view(32, 32).to(torch.uint8)
    level = torch.arange(len(images)) % LEVELS + 1
    expected = [from_pillow(PILLOW_POINT[name](to_pillow(x), int(v))) for x, v in zip(images, level, strict=True)]
    chosen = torch.full_like(level, OPERATIONS.index(name))
    assert torch.equal(apply_point(images, chosen, level), torch.stack(expected))


@pytest.mark.parametrize("side", [28, 32])
@pytest.mark.parametrize("name", GEOMETRIC)
def test_geometric_operations_agree_with_pillow(name: str, side: int) -> None:
    """Within one grey level on all pixels but those whose source falls on the very edge of the image (< 0.1%)."""
    images = photographs(4 * LEVELS, 3, side)
    level = torch.arange(len(images)) % LEVELS + 1
    level = level * (torch.arange(len(images)) // LEVELS % 2 * 2 - 1)
    ours = apply_geometric(images, torch.full((len(images), 1), OPERATIONS.index(name)), level[:, None])
    expected = torch.stack(
        [from_pillow(PILLOW_GEOMETRIC[name](to_pillow(x), int(v))) for x, v in zip(images, level, strict=True)]
    )
    difference = (ours.int() - expected.int()).abs()
    assert (difference > 1).double().mean() < 1e-3
    assert (difference == 1).double().mean() < 0.02


def test_two_geometric_operations_are_one_resampling() -> None:
    """Turning by 9 degrees and back gives the image itself; two resamplings would blur it."""
    images = photographs(4, 3)
    turn = OPERATIONS.index("rotate")
    chosen = torch.full((4, 2), turn)
    level = torch.tensor([[3, -3]] * 4)
    assert torch.equal(apply_geometric(images, chosen, level), images)


def test_order_of_two_geometric_operations() -> None:
    """Shift, then turn: the corner pixel of the shifted image must end where Pillow puts it in that order."""
    images = torch.zeros(1, 1, 32, 32, dtype=torch.uint8)
    images[0, 0, 12:20, 20:24] = 255
    chosen = torch.tensor([[OPERATIONS.index("translate-x"), OPERATIONS.index("rotate")]])
    level = torch.tensor([[8, 9]])
    ours = apply_geometric(images, chosen, level)
    expected = PILLOW_GEOMETRIC["rotate"](PILLOW_GEOMETRIC["translate-x"](to_pillow(images[0]), 8), 9)
    other_order = PILLOW_GEOMETRIC["translate-x"](PILLOW_GEOMETRIC["rotate"](to_pillow(images[0]), 9), 8)

    def distance(image: Image.Image) -> float:
        return float((ours[0].double() - from_pillow(image).double()).abs().mean())

    assert distance(expected) < 0.2 * distance(other_order)


def test_point_then_geometric_and_geometric_then_point_keep_their_order() -> None:
    """A plain image has no contrast to stretch, unless a shift has brought in black before."""
    images = torch.full((2, 1, 16, 16), 200, dtype=torch.uint8)
    stretch, shift = OPERATIONS.index("autocontrast"), OPERATIONS.index("translate-x")
    chosen = torch.tensor([[stretch, shift], [shift, stretch]])
    level = torch.full((2, 2), 9)
    images = apply_point(images, chosen[:, 0], level[:, 0])
    images = apply_geometric(images, chosen, level)
    images = apply_point(images, chosen[:, 1], level[:, 1])
    assert images[:, 0, 8, 2].tolist() == [200, 254]  # 255 but for the rounding that Pillow has too
    assert images[:, 0, 8, -1].tolist() == [0, 0]


def test_every_image_draws_its_own_operations() -> None:
    images = photographs(1, 3).repeat(64, 1, 1, 1)
    views = randaugment(images, draws(images))
    assert len({view.numpy().tobytes() for view in views}) > 30


def test_share_of_untouched_images() -> None:
    """Each slot does nothing with probability 1/2 + 1/2 * 1/14, so both do nothing for 28.7% of the images."""
    images = photographs(1, 3).repeat(4000, 1, 1, 1)
    views = randaugment(images, draws(images, 1))
    untouched = (views == images).flatten(1).all(1).double().mean().item()
    assert untouched == pytest.approx((0.5 + 0.5 / 14) ** 2, abs=0.03)


def test_the_input_is_left_alone() -> None:
    images = photographs(32, 3)
    before = images.clone()
    randaugment(images, draws(images, 2))
    assert torch.equal(images, before)


def test_every_operation_level_and_sign_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 14 operations two for each image, each done in half of the cases; levels 1 to 9; signs for geometric ones."""
    drawn: list[tuple[Tensor, Tensor]] = []

    def point(images: Tensor, chosen: Tensor, level: Tensor) -> Tensor:
        drawn.append((chosen, level))
        return images

    def geometric(images: Tensor, chosen: Tensor, level: Tensor) -> Tensor:
        drawn.append((chosen, level))
        return images

    monkeypatch.setattr("fewlabel.augment.randaugment.apply_point", point)
    monkeypatch.setattr("fewlabel.augment.randaugment.apply_geometric", geometric)
    images = torch.zeros(9000, 1, 8, 8, dtype=torch.uint8)
    randaugment(images, draws(images))
    (first, first_level), (both, signed), (second, second_level) = drawn
    assert torch.equal(torch.stack([first, second], 1), both)
    assert torch.equal(torch.stack([first_level, second_level], 1), signed.abs())
    for slot in (0, 1):
        operations = both[:, slot].bincount(minlength=len(OPERATIONS)) / len(images)
        assert operations[0].item() == pytest.approx(0.5 + 0.5 / 14, abs=0.03)
        assert operations[1:].tolist() == pytest.approx([0.5 / 14] * 13, abs=0.01)
        levels = signed[:, slot].abs().bincount(minlength=10) / len(images)
        assert levels.tolist() == pytest.approx([0] + [1 / 9] * 9, abs=0.02)
        assert (signed[:, slot] > 0).float().mean().item() == pytest.approx(0.5, abs=0.03)
    agree = (both[:, 0] == both[:, 1]) & (both[:, 0] > 0)
    assert agree.float().mean().item() == pytest.approx(0.25 / 14, abs=0.01)  # the two are independent
