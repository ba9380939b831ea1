"""Images: one uint8 tensor with labels, class names and file names."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures of one size; a label of -1 means that nobody has said what the picture shows."""

    pixels: Tensor  # uint8 (N, C, H, W), in memory or memory-mapped
    labels: Tensor  # int64 (N,)
    classes: tuple[str, ...]
    names: Sequence[str]  # file names, or positions where a set has none
    skipped: dict[str, str] = field(default_factory=dict)  # unreadable file -> reason
    source: str = ""  # of pictures of a folder: changes when a file does

    def __post_init__(self) -> None:
        assert self.pixels.dtype == torch.uint8 and self.pixels.ndim == 4, "pixels are uint8 (N, C, H, W)"
        assert self.labels.dtype == torch.int64 and len(self.labels) == len(self.pixels) == len(self.names)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def known(self) -> int:
        """How many of them have a label."""
        return int((self.labels != UNLABELLED).sum())

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    @property
    def size(self) -> int:
        """The side of the pictures, which are square."""
        return self.pixels.shape[2]


@dataclass(frozen=True, eq=False)
class Dataset:
    """What `load` returns: images to train on and, where there are any, held-out ones to be judged by."""

    name: str
    train: Images
    test: Images | None
    flip: bool  # is the mirror image of a picture still the same thing? never for digits


def channels_first(array: np.ndarray) -> np.ndarray | None:
    """(N, C, H, W) of (N, H, W), (N, H, W, C) or (N, C, H, W); None where those are no squares of 1 or 3 channels."""
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in (1, 3) and array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    fits = array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[2] == array.shape[3]
    return array if fits else None


def numbered(part: str, count: int) -> list[str]:
    """Names for images that came without any: train/00000, train/00001, ..."""
    return [f"{part}/{i:05d}" for i in range(count)]
