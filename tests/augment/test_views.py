import numpy as np
import pytest
import torch
from torch import Tensor

from fewlabel.augment import VIEWS
from fewlabel.augment.strong import GREY, cutout
from fewlabel.augment.weak import weak


def numbered(count: int, side: int) -> Tensor:
    """Images in which every pixel has another value (side <= 16)."""
    return torch.arange(side * side, dtype=torch.uint8).view(1, 1, side, side).repeat(count, 1, 1, 1)


def test_weak_is_a_crop_of_the_reflect_padded_image_or_of_its_mirror() -> None:
    """All 2 x 3 x 3 possible views of an 8x8 image occur, made here by numpy's own padding, and no other."""
    images = numbered(600, 8)
    picture = images[0, 0].numpy()
    possible = {}
    for mirrored in (False, True):
        padded = np.pad(picture, 1, mode="reflect")
        for y in range(3):
            for x in range(3):
                crop = padded[y : y + 8, x : x + 8]
                possible[(crop[:, ::-1] if mirrored else crop).tobytes()] = (mirrored, y, x)
    seen = {possible[view[0].numpy().tobytes()] for view in weak(images, torch.Generator().manual_seed(0), flip=True)}
    assert len(seen) == 18


def test_no_flip() -> None:
    images = numbered(200, 8)
    views = weak(images, torch.Generator().manual_seed(0), flip=False)
    assert (views[:, 0, 3, 4].int() - views[:, 0, 3, 3].int() == 1).all()


def test_flip_is_fair() -> None:
    images = numbered(2000, 8)
    views = weak(images, torch.Generator().manual_seed(0), flip=True)
    mirrored = (views[:, 0, 3, 4].int() < views[:, 0, 3, 3].int()).double().mean().item()
    assert mirrored == pytest.approx(0.5, abs=0.05)


def test_cutout_hides_a_square_of_half_the_side_clipped_at_the_border() -> None:
    images = torch.zeros(500, 3, 32, 32, dtype=torch.uint8)
    views = cutout(images, torch.Generator().manual_seed(0))
    hidden = views == GREY
    assert ((views == 0) | hidden).all()
    assert (hidden[:, 0] == hidden[:, 2]).all()
    heights, widths = hidden[:, 0].any(2).sum(1), hidden[:, 0].any(1).sum(1)
    assert (hidden[:, 0].sum((1, 2)) == heights * widths).all()  # a full rectangle
    assert heights.max() == widths.max() == 16
    assert heights.min() == widths.min() == 8  # centred on the first row: half of it sticks out


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("shape", [(5, 1, 8, 8), (5, 3, 32, 32), (5, 1, 28, 28)])
def test_same_generator_same_view(kind: str, shape: tuple[int, ...]) -> None:
    images = torch.randint(256, shape, generator=torch.Generator().manual_seed(3)).to(torch.uint8)
    first, again, other = (VIEWS[kind](images, torch.Generator().manual_seed(seed), True) for seed in (7, 7, 8))
    assert first.dtype == torch.uint8
    assert first.shape == images.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
