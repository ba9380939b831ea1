"""What the benchmarks share: images of noise, and timing several sides in turn."""

import time
from collections.abc import Callable, Mapping

import torch

from fewlabel.data import Dataset, Images
from fewlabel.data.examples import numbered


def noise_images(count: int, channels: int, size: int) -> Dataset:
    """Ten classes, no test part."""
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, channels, size, size), generator=draw).to(torch.uint8)
    labels = torch.arange(count) % 10
    return Dataset("noise", Images(pixels, labels, tuple("0123456789"), numbered("train", count)), None, flip=True)


def images_for(network: str) -> Dataset:
    """Like MNIST for `cnn`, like CIFAR for other networks."""
    return noise_images(10_000, 1, 28) if network == "cnn" else noise_images(10_000, 3, 32)


def in_turn(sides: Mapping[str, Callable[[], object]], repeats: int, steps: int) -> dict[str, list[float]]:
    """Seconds a call, `repeats` of them for each side, every one the mean of `steps` calls; all sides in turn."""
    for work in sides.values():
        work()  # the first call allocates
    times: dict[str, list[float]] = {name: [0.0] * repeats for name in sides}
    for repeat in range(repeats):
        for _ in range(steps):
            for name, work in sides.items():
                began = time.perf_counter()
                work()
                times[name][repeat] += (time.perf_counter() - began) / steps
    return times
