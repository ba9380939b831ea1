import numpy as np
import pytest
import torch
from torch import Tensor

from fewlabel.augment import CHANGES, VIEWS, strong
from fewlabel.augment.small import small_side
from fewlabel.augment.strong import GREY, cutout
from fewlabel.augment.weak import weak
from tests.augment.test_randaugment import photographs
from tests.drawing import draws


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
    seen = {possible[view[0].numpy().tobytes()] for view in weak(images, draws(images))}
    assert len(seen) == 18


def test_no_flip() -> None:
    images = numbered(200, 8)
    views = weak(images, draws(images), ["horizontal-flip"])
    assert (views[:, 0, 3, 4].int() - views[:, 0, 3, 3].int() == 1).all()


def test_flip_is_fair() -> None:
    images = numbered(2000, 8)
    views = weak(images, draws(images))
    mirrored = (views[:, 0, 3, 4].int() < views[:, 0, 3, 3].int()).double().mean().item()
    assert mirrored == pytest.approx(0.5, abs=0.05)


def test_cutout_hides_a_square_of_half_the_side_clipped_at_the_border() -> None:
    images = torch.zeros(500, 3, 32, 32, dtype=torch.uint8)
    views = cutout(images, draws(images))
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
    first, again, other = (VIEWS[kind](images, draws(images, seed)) for seed in (7, 7, 8))
    assert first.dtype == torch.uint8
    side = small_side(shape[-1]) if kind == "small" else shape[-1]
    assert first.shape == (*images.shape[:2], side, side)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_strong_view_begins_with_the_weak_one() -> None:
    images = photographs(50, 3, 16)
    others = [change for change in CHANGES if change not in ("horizontal-flip", "shift")]
    assert torch.equal(strong(images, draws(images), others), weak(images, draws(images)))
    assert not torch.equal(weak(images, draws(images)), images)


def test_the_cutout_comes_last() -> None:
    """No operation bends, moves or paints the grey square."""
    images = torch.full((300, 1, 32, 32), 200, dtype=torch.uint8)
    hidden = strong(images, draws(images))[:, 0] == GREY
    heights, widths = hidden.any(2).sum(1), hidden.any(1).sum(1)
    assert (hidden.sum((1, 2)) == heights * widths).float().mean() > 0.9  # else there is grey by chance
    assert min(heights.min(), widths.min()) >= 8


@pytest.mark.parametrize("kind", VIEWS)
def test_without_any_change_a_view_is_the_picture_itself(kind: str) -> None:
    images = photographs(50, 3, 16)
    assert torch.equal(VIEWS[kind](images, draws(images), CHANGES), images)


def test_what_is_left_out_changes_no_other_draw() -> None:
    images = photographs(200, 3, 16)
    whole, less = (strong(images, draws(images), without) for without in ((), ["solarize"]))
    same = (whole == less).flatten(1).all(1)
    assert 0.85 < same.float().mean() < 1  # two draws of 14, each made with probability 1/2


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_can_be_left_out(name: str) -> None:
    """With all others left out too, only that one is left to be seen; no view turns a picture upside down."""
    images = photographs(200, 3, 16)
    others = [change for change in CHANGES if change != name]
    changed = [not torch.equal(view(images, draws(images), others), images) for view in VIEWS.values()]
    assert any(changed) == (name != "vertical-flip")
