"""Images: square pictures of one or three channels, as one uint8 tensor."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..augment import VIEWS
from ..augment.colour import grey
from ..decode import decode_each
from ..encoders import Encoder
from ..value_range import ValueRange
from .arrays import as_array, as_pictures, as_pixels, brightest
from .examples import Examples, Original
from .kind import Kind, Making
from .labels import LabelFiles

SMALL = 32  # side of grey images that can be compared pixel by pixel


@dataclass(frozen=True)
class ImageKind(Kind):
    """uint8 (N, channels, size, size)."""

    channels: int
    size: int  # side in pixels
    white: int | None = None  # the largest value of the floats that the images were made of, where they were floats
    value_range: ValueRange | None = None  # of files with more than 8 bits

    name = "images"
    family = "images"
    noun = "images"
    image_views = True
    input_name = "pixels"
    dtype = torch.uint8

    @property
    def shape(self) -> tuple[int, ...]:
        return self.channels, self.size, self.size

    def describe(self) -> str:
        return f"{'grey ' if self.channels == 1 else ''}images of {self.size}x{self.size}"

    def default_network(self, device: torch.device, pretrained: bool = False) -> str:
        """The paper's network where there is an accelerator, else one that a CPU trains in minutes.

        A run with a first stage looks at so many images that a wider one pays (docs/first-stage.md).
        """
        if device.type != "cpu":
            return "wrn-28-2"
        return "wrn-10-1" if self.size <= 12 else "cnn-2" if pretrained else "cnn"

    def statistics(self, inputs: Tensor, most: int = 10_000) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel, from at most `most` evenly spaced images."""
        sample = inputs[:: -(-len(inputs) // most)]
        counts = torch.zeros(inputs.shape[1], 256, dtype=torch.float64)  # of each value: exact, and small
        for part in sample.split(256):
            for channel in range(len(counts)):
                counts[channel] += part[:, channel].flatten().bincount(minlength=256)
        share, value = counts / counts.sum(1, keepdim=True), torch.arange(256, dtype=torch.float64)
        mean = share @ value
        std = (share @ value.square() - mean.square()).clamp(min=0).sqrt()
        return mean.float().view(-1, 1, 1), std.clamp(min=1).float().view(-1, 1, 1)

    def view(self, rows: Tensor, name: str, make: Making) -> Tensor:
        view = VIEWS[name](rows, make.draws, make.without)
        return make.scale(make.gather(view))  # gathered as uint8: a quarter of the bytes

    def read(self, inputs: Any) -> Tensor:
        """Picture files, PIL images or arrays."""
        if pictures := as_pictures(inputs):
            pixels = torch.from_numpy(decode_each(pictures, self.size, self.value_range))
        else:
            array = as_array(inputs)
            pixels = as_pixels(array, self.white if array.dtype.kind == "f" and self.white else brightest(array))
        return self.adapt(pixels)

    def accepts(self, other: Kind) -> bool:
        return self.shape == other.shape or (self.channels == 1 and other.shape == (3, self.size, self.size))

    def adapt(self, inputs: Tensor) -> Tensor:
        """Coloured pictures are made grey for a model of grey ones."""
        return super().adapt(grey(inputs) if self.channels == 1 else inputs)

    def stream(self, path: Path, chunk: int, title: str = "") -> Iterator[Examples]:
        """Of a folder of pictures, or of one picture."""
        from .folder import read_unlabelled

        return read_unlabelled(path, self.size, chunk, title, self.value_range)

    def load_test(self, folder: Path, classes: Sequence[str], labels: LabelFiles) -> Examples:
        """One subfolder per class, or loose pictures with a label file."""
        from .folder import read_labelled

        return read_labelled(folder, classes, self.size, labels, value_range=self.value_range)

    def comparable_rows(self, inputs: Tensor) -> Tensor | None:
        """Small grey images such as digits, unchanged."""
        small = self.channels == 1 and self.size <= SMALL
        return inputs.flatten(1).float() if small else None

    def encoded(self, examples: Examples, encoder: Encoder, views: int = 0, flip: bool = True) -> Examples:
        from .features import encode_images

        return encode_images(encoder, examples, views, flip)

    def show(self, row: Tensor) -> bytes:
        return png(row.numpy())


class Images(Examples):
    """Examples of images: `pixels` are uint8 (N, C, H, W), square, and `labels` int64, -1 for unlabelled."""

    def __init__(
        self,
        pixels: Tensor | None = None,
        labels: Tensor | None = None,
        classes: tuple[str, ...] = (),
        names: Sequence[str] = (),
        skipped: dict[str, str] | None = None,
        source: str = "",
        *,
        inputs: Tensor | None = None,
        kind: Kind | None = None,
        original: Original | None = None,
        views: Mapping[str, Sequence[Tensor]] | None = None,
    ) -> None:
        """The last four are what dataclasses.replace gives."""
        if pixels is not None:
            assert pixels.ndim == 4 and pixels.shape[2] == pixels.shape[3], "pixels are (N, C, H, W), square"
            inputs, kind = pixels, kind or ImageKind(*pixels.shape[1:3])
        assert inputs is not None and labels is not None and kind is not None
        super().__init__(inputs, labels, tuple(classes), names, kind, skipped or {}, source, original, views or {})


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of pixels (C, H, W)."""
    buffer = io.BytesIO()
    Image.fromarray(shown_array(pixels)).save(buffer, "png")
    return buffer.getvalue()


def as_picture(pixels: Tensor) -> np.ndarray:
    """(H, W) or (H, W, 3) of (C, H, W), as drawing libraries want it."""
    return shown_array(pixels.to(torch.uint8).numpy())


def shown_array(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
