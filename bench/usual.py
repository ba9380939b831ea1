"""The usual way, for comparison: every image augmented by itself with Pillow, and three forward passes for ICL.

What many implementations of FixMatch and the code of ICL-SSL's authors do, written anew: a DataLoader whose workers
turn each image into a weak and a strong view, and a step that runs the network on [x; weak 1; strong 1], on [x; weak 2;
strong 2] and on [x; mixed weak; mixed strong]: 3 (B + 2 mu B) images, where x is computed three times for one use.

    python -m bench.usual                        cnn on 28x28x1
    python -m bench.usual --network wrn-28-2     on 32x32x3

prints how many times as fast our step is: in ICL's default reading, which looks at B + 3 mu B images, and in the
authors' reading, which looks at what the usual way does, B + 6 mu B images, in one pass.
"""

import argparse
import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.timing import images_for, in_turn
from fewlabel import Recipe
from fewlabel.losses import cross_entropy, interpolate, interpolation_contrast, masked_cross_entropy
from fewlabel.networks import Classifier
from fewlabel.training import Trainer, make_plan

Picture = Image.Image
BILINEAR, AFFINE = Image.Resampling.BILINEAR, Image.Transform.AFFINE


def affine(picture: Picture, *six: float) -> Picture:
    return picture.transform(picture.size, AFFINE, six, BILINEAR)


def sign() -> int:
    return random.choice((-1, 1))


OPERATIONS: dict[str, Callable[[Picture, int], Picture]] = {
    "identity": lambda picture, v: picture,
    "autocontrast": lambda picture, v: ImageOps.autocontrast(picture),
    "equalize": lambda picture, v: ImageOps.equalize(picture),
    "posterize": lambda picture, v: ImageOps.posterize(picture, 4 + int(0.4 * v)),
    "solarize": lambda picture, v: ImageOps.solarize(picture, 256 - int(25.6 * v)),
    "brightness": lambda picture, v: ImageEnhance.Brightness(picture).enhance(0.05 + 0.09 * v),
    "contrast": lambda picture, v: ImageEnhance.Contrast(picture).enhance(0.05 + 0.09 * v),
    "colour": lambda picture, v: ImageEnhance.Color(picture).enhance(0.05 + 0.09 * v),
    "sharpness": lambda picture, v: ImageEnhance.Sharpness(picture).enhance(0.05 + 0.09 * v),
    "rotate": lambda picture, v: picture.rotate(3 * v * sign(), BILINEAR),
    "shear-x": lambda picture, v: affine(picture, 1, 0.03 * v * sign(), 0, 0, 1, 0),
    "shear-y": lambda picture, v: affine(picture, 1, 0, 0, 0.03 * v * sign(), 1, 0),
    "translate-x": lambda picture, v: affine(picture, 1, 0, 0.03 * v * sign() * picture.width, 0, 1, 0),
    "translate-y": lambda picture, v: affine(picture, 1, 0, 0, 0, 1, 0.03 * v * sign() * picture.height),
}


def weak(picture: Picture) -> Picture:
    """Mirrored or not, then a crop of the reflect-padded picture."""
    if random.random() < 0.5:
        picture = ImageOps.mirror(picture)
    pad = picture.width // 8
    edges = [(pad, pad), (pad, pad)] + [(0, 0)] * (picture.mode == "RGB")
    padded = np.pad(np.asarray(picture), edges, mode="reflect")
    left, top = random.randint(0, 2 * pad), random.randint(0, 2 * pad)
    return Image.fromarray(padded).crop((left, top, left + picture.width, top + picture.height))


def strong(picture: Picture) -> Picture:
    """The weak view, two of the 14 operations, each with probability 1/2, and a grey square."""
    picture = weak(picture)
    for name in random.choices(list(OPERATIONS), k=2):
        if random.random() < 0.5:
            picture = OPERATIONS[name](picture, random.randint(1, 9))
    half = picture.width // 2
    left, top = (random.randrange(picture.width) - half // 2 for _ in range(2))
    picture = picture.copy()
    picture.paste(127 if picture.mode == "L" else (127, 127, 127), (left, top, left + half, top + half))
    return picture


class Views(Dataset[tuple[Tensor, Tensor]]):
    """A weak and a strong view of an image, made when it is asked for, as normalised tensors."""

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, position: int) -> tuple[Tensor, Tensor]:
        pixels = self.pixels[position]
        picture = Image.fromarray((pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).numpy())
        return to_tensor(weak(picture)), to_tensor(strong(picture))


def to_tensor(picture: Picture) -> Tensor:
    array = np.atleast_3d(np.asarray(picture))
    return torch.from_numpy(array.transpose(2, 0, 1).astype(np.float32) / 255).sub_(0.5).div_(0.25)


def batches(pixels: Tensor, size: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For ever."""
    while True:
        yield from DataLoader(Views(pixels), size, shuffle=True, num_workers=workers, drop_last=True)


def three_pass_step(
    network: Classifier,
    optimiser: torch.optim.Optimizer,
    average: Any,
    pixels: Tensor,
    batch: int,
    mu: int,
    workers: int,
) -> Callable[[], None]:
    """A step of ICL-SSL in the authors' reading, the usual way. `average` is the EMA of the weights."""
    labelled = batches(pixels, batch, workers)
    first, second = (batches(pixels, mu * batch, workers) for _ in range(2))
    labels = torch.arange(batch) % network.head.out_features
    sizes = [batch, mu * batch, mu * batch]
    beta = torch.distributions.Beta(0.75, 0.75)
    done = 0

    def step() -> None:
        nonlocal done
        x, _ = next(labelled)
        (weak1, strong1), (weak2, strong2) = next(first), next(second)
        share = beta.sample()
        share = torch.maximum(share, 1 - share).expand(mu * batch)
        mixed_weak, mixed_strong = interpolate(weak1, weak2, share), interpolate(strong1, strong2, share)
        one, two, three = (
            network(torch.cat([x, *views]))
            for views in ((weak1, strong1), (weak2, strong2), (mixed_weak, mixed_strong))
        )
        logits, logits_weak, logits_strong = one.logits.split(sizes)
        confidence, guess = logits_weak.detach().softmax(1).max(1)
        loss = cross_entropy(logits, labels)
        loss = loss + masked_cross_entropy(logits_strong, guess, confidence >= 0.95)
        z1, z2, z3 = (output.embedding.split(sizes) for output in (one, two, three))
        mixed = torch.cat([interpolate(z1[1], z2[1], share), interpolate(z1[2], z2[2], share)])
        loss = loss + 0.5 * interpolation_contrast(mixed, torch.cat(z3[1:]), torch.cat([z1[1], z2[2]]), 1.0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        average.update(done)
        done += 1

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mu", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="of each DataLoader")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="a repeat")
    options = parser.parse_args()
    dataset = images_for(options.network)
    recipe = Recipe(network=options.network, batch=options.batch, mu=options.mu, labels_per_class=4, steps=10_000)

    def training(method: str, **settings: str) -> Trainer:
        chosen = replace(recipe, method=method, settings=settings)
        return Trainer(make_plan(chosen, dataset), dataset)

    def advance(ours: Trainer) -> Callable[[], object]:
        index = itertools.count()
        return lambda: ours.step(next(index))

    base = training("icl-ssl")
    usual = three_pass_step(
        base.network, base.optimiser, base.ema, dataset.train.pixels, options.batch, options.mu, options.workers
    )
    sides: dict[str, Callable[[], object]] = {
        "the usual way": usual,
        "fixmatch": advance(training("fixmatch")),
        "icl-ssl": advance(training("icl-ssl")),
        "icl-ssl, authors' reading": advance(training("icl-ssl", **{"icl.reading": "authors"})),
    }
    times = in_turn(sides, options.repeats, options.steps)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.network}, batch {options.batch}")
    for name, seconds in times.items():
        ratios = [usual / own for usual, own in zip(times["the usual way"], seconds, strict=True)]
        print(
            f"  {name:26} {1000 * statistics.median(seconds):8.1f} ms a step, "
            f"{statistics.median(ratios):.2f} times as fast as the usual way"
        )
    ratio = statistics.median(a / b for a, b in zip(times["icl-ssl"], times["fixmatch"], strict=True))
    print(f"  icl-ssl takes {ratio:.2f} times as long as fixmatch")


if __name__ == "__main__":
    main()
