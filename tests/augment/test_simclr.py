"""SimCLR's view: crops and colours against Pillow, and what each image draws for itself."""

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from fewlabel.augment.colour import brightness, contrast, hue, saturation
from fewlabel.augment.simclr import crop_and_resize, draw_boxes, jitter, simclr
from tests.augment.test_colour import PILLOW, Operation
from tests.augment.test_randaugment import from_pillow, photographs, to_pillow
from tests.drawing import draws

MOST: dict[Operation, float] = {brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}
NAMES = {operation.__name__: operation for operation in MOST}


def spied(monkeypatch: pytest.MonkeyPatch, changed: Callable[[str, Tensor, Tensor], Tensor]) -> None:
    """Let `changed` take the place of the four changes of colour; it is told their name, the images and amounts."""

    def stand_in(name: str) -> Operation:
        return lambda images, amounts: changed(name, images, amounts)

    module = jitter.__globals__
    replaced = {operation: stand_in(operation.__name__) for operation in MOST}
    jitters = {name: (replaced[operation], most) for name, (operation, most) in module["JITTER"].items()}
    monkeypatch.setitem(module, "JITTER", jitters)
    monkeypatch.setitem(module, "hue", replaced[hue])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [8, 28, 32])
@pytest.mark.parametrize("mirror", [False, True])
def test_crops_agree_with_pillow(side: int, channels: int, mirror: bool) -> None:
    """At most one level apart: Pillow rounds after each of the two directions, and its weights are in fixed point."""
    images = photographs(60, channels, side)
    boxes = draw_boxes(side, side, draws(images))
    boxes[0] = torch.tensor([0, 0, side, side])
    boxes[1] = torch.tensor([side - 1, side - 2, 1, 2])
    mirrored = torch.arange(60) % 3 > 0 if mirror else torch.zeros(60, dtype=torch.bool)
    expected = []
    for picture, box, turned in zip(images, boxes.int().tolist(), mirrored.tolist(), strict=True):
        top, left, high, wide = box
        crop = to_pillow(picture).crop((left, top, left + wide, top + high))
        crop = crop.resize((side, side), Image.Resampling.BILINEAR)
        expected.append(from_pillow(ImageOps.mirror(crop) if turned else crop))
    found = crop_and_resize(images, boxes, mirrored)
    assert found.dtype == torch.uint8
    assert (found.int() - torch.stack(expected).int()).abs().max() <= 1
    assert torch.equal(found[0], images[0])


@pytest.mark.parametrize("side", [8, 28, 32])
def test_boxes(side: int) -> None:
    """In the image, of at least a fifth of its area and of sides at most 4 : 3, but for the rounding of each side."""
    boxes = draw_boxes(side, side, draws(torch.empty(5000)))
    top, left, high, wide = boxes.unbind(1)
    assert torch.equal(boxes, boxes.round())
    assert (boxes >= 0).all() and (boxes[:, 2:] >= 1).all()
    assert (top + high <= side).all() and (left + wide <= side).all()
    assert (top == 0).any() and (left == 0).any()
    assert (top + high == side).any() and (left + wide == side).any()
    assert (high > wide).any() and (wide > high).any()
    assert ((high + 0.5) * (wide + 0.5) >= 0.2 * side**2).all()
    assert (torch.maximum(high, wide) - 0.5 <= 4 / 3 * (torch.minimum(high, wide) + 0.5)).all()
    assert (high * wide).max() > 0.9 * side**2
    assert (high * wide).min() < 0.25 * side**2


def test_every_image_has_a_box_of_its_own() -> None:
    boxes = draw_boxes(32, 32, draws(torch.empty(200)))
    assert len({tuple(box) for box in boxes.tolist()}) > 190


def test_every_image_has_its_own_order_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All four once, in all 24 orders, for 80% of the images; the changes write down their order in each image."""
    spied(monkeypatch, lambda name, images, _: 10 * images + list(NAMES).index(name) + 1)
    blank = torch.zeros(6000, 1, 1, 1, dtype=torch.long)
    orders = jitter(blank, draws(blank)).flatten().tolist()
    changed = [str(order) for order in orders if order]
    assert all(sorted(order) == ["1", "2", "3", "4"] for order in changed)
    assert len(changed) / len(orders) == pytest.approx(0.8, abs=0.02)
    assert len(set(changed)) == 24
    assert min(changed.count(order) for order in set(changed)) > 120  # of 200


def test_every_image_has_its_own_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts: dict[str, list[float]] = {name: [] for name in NAMES}

    def changed(name: str, images: Tensor, drawn: Tensor) -> Tensor:
        amounts[name] += drawn.tolist()
        return images

    spied(monkeypatch, changed)
    blank = torch.zeros(2000, 3, 2, 2, dtype=torch.uint8)
    jitter(blank, draws(blank))
    for operation, most in MOST.items():
        drawn = amounts[operation.__name__]
        middle = 0.0 if operation is hue else 1.0
        assert len(set(drawn)) > 0.99 * len(drawn) > 1500
        assert middle - most <= min(drawn) < middle - 0.98 * most
        assert middle + 0.98 * most < max(drawn) <= middle + most + 1e-6


def test_jitter_equals_pillow_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, float]] = []

    def changed(name: str, images: Tensor, amounts: Tensor) -> Tensor:
        steps.append((name, amounts.item()))
        return NAMES[name](images, amounts)

    spied(monkeypatch, changed)
    for seed, image in enumerate(photographs(12, 3)):
        steps.clear()
        found = jitter(image[None], draws(image[None], seed))
        expected = to_pillow(image)
        for name, amount in steps:
            expected = PILLOW[NAMES[name]](expected, amount)
        assert len(steps) in (0, 4)
        assert torch.equal(found[0], from_pillow(expected))


def test_a_fifth_of_the_views_is_grey() -> None:
    images = torch.tensor([200, 100, 30], dtype=torch.uint8).view(1, 3, 1, 1).repeat(3000, 1, 4, 4)
    views = simclr(images, draws(images))
    share = (views == views[:, :1]).flatten(1).all(1).double().mean().item()
    assert share == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("flip", [False, True])
def test_mirrored_only_where_allowed(flip: bool) -> None:
    """Images that grow brighter to the right do so in every view, whatever its crop and colours."""
    images = torch.linspace(60, 160, 32).to(torch.uint8).repeat(400, 1, 32, 1)
    views = simclr(images, draws(images), () if flip else ["horizontal-flip"]).int()
    mirrored = (views[..., 0] > views[..., -1]).flatten(1).all(1)
    assert ((views[..., 0] < views[..., -1]).flatten(1).all(1) | mirrored).all()
    assert mirrored.double().mean().item() == (pytest.approx(0.5, abs=0.08) if flip else 0)


@pytest.mark.parametrize("channels", [1, 3])
def test_same_seed_same_bits_and_every_image_its_own(channels: int) -> None:
    images = photographs(1, channels).repeat(64, 1, 1, 1)
    before = images.clone()
    first, again, other = (simclr(images, draws(images, seed)) for seed in (7, 7, 8))
    assert first.shape == images.shape and first.dtype == torch.uint8
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({view.numpy().tobytes() for view in first}) == 64
    assert torch.equal(images, before)
