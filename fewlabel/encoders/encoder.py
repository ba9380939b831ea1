"""Encoder: a pre-trained network that turns pictures into features."""

import copy
import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..augment import VIEWS
from ..decode import FORMAT as DECODER
from ..errors import UserError
from ..randomness import Draws, generator
from ..value_range import ValueRange
from .efficientnet_lite import EfficientNetLite

Colour = tuple[float, ...]  # of each channel
NO_FLIP = ("horizontal-flip",)
MODULE = "a module"  # instead of a name, where a Python user gives a module


class View(NamedTuple):
    """The n-th weak or strong view of a picture, which depends on the picture alone."""

    kind: str
    number: int
    flip: bool = True  # may it be mirrored?

    def of(self, picture: Tensor) -> Tensor:
        """The view of uint8 pixels (1, 3, H, W)."""
        source = generator(zlib.crc32(picture.numpy().tobytes()), self.number, self.kind)
        return VIEWS[self.kind](picture, Draws(source, 1), () if self.flip else NO_FLIP)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A network with its preprocessing."""

    name: str  # as given: lite0, timm/NAME, ...
    module: nn.Module  # normalised pictures (N, 3, size, size) to features (N, features)
    size: int | None  # side of the pictures it takes; None where it takes any
    mean: Colour  # of pixels, on the scale 0 to 255
    std: Colour
    features: int | None  # None where it is not known yet
    digest: str  # of the weights
    licence: str = "unknown"
    view: View | None = None  # that it is shown instead of the picture
    value_range: ValueRange | None = None  # of pictures with more than 8 bits

    @property
    def by_name(self) -> bool:
        """Whether another process can find it by name."""
        return self.name != MODULE

    @property
    def exportable(self) -> bool:
        """Whether its preprocessing is known."""
        return self.size is not None

    def store_key(self, backend: str) -> str:
        """A key that changes whenever its features would."""
        key = f"{DECODER} {self.size} {self.mean} {self.std} {self.digest} {backend} float32"
        key = key if self.view is None else f"{key} {self.view}"
        return key if self.value_range is None else f"{key} {tuple(self.value_range)}"

    def normalise(self, pixels: Tensor) -> Tensor:
        if self.size is None:  # the user's own module, which normalises itself
            return pixels.float()
        mean, std = (torch.tensor(colour, device=pixels.device).view(-1, 1, 1) for colour in (self.mean, self.std))
        return ((pixels.float() - mean) / std).contiguous(memory_format=torch.channels_last)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Features (N, features) in float32 of uint8 pixels (N, 3, size, size)."""
        if self.view is not None:
            pixels = torch.cat([self.view.of(row) for row in pixels.split(1)])
        with torch.inference_mode():
            output = inference_form(self.module)(self.normalise(pixels))
        features = output.flatten(1).float() if output.ndim > 1 else output
        expected = (len(pixels), self.features or features.shape[-1])
        if features.shape != expected:
            raise UserError(
                f"the encoder {self.name} gives an output of shape {tuple(output.shape)} for {len(pixels)} examples, "
                f"where {expected} is expected."
            )
        if not features.isfinite().all():
            raise UserError(f"the encoder {self.name} gives NaN or infinity for some examples.")
        return features


def inference_form(module: nn.Module) -> nn.Module:
    """The module, or its faster form if it has one."""
    return faster(module) if isinstance(module, EfficientNetLite | Concatenated) else module


@cache
def faster(module: "EfficientNetLite | Concatenated") -> nn.Module:
    return module.folded()


def from_module(module: nn.Module) -> Encoder:
    """A copy of a user's own module, in evaluation mode; it gets inputs as floats, and normalises them itself."""
    module = copy.deepcopy(module).eval().requires_grad_(False)
    return Encoder(MODULE, module, None, (), (), None, weights_digest(module))


class PixelEncoder(nn.Module):
    """An encoder with its preprocessing inside: pixels from 0 to 255 to features."""

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        assert encoder.size is not None
        self.size: int = encoder.size
        self.module = encoder.module
        self.register_buffer("mean", torch.tensor(encoder.mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(encoder.std).view(-1, 1, 1), persistent=False)

    def normalised(self, pixels: Tensor) -> Tensor:
        """Pixels as the module expects them."""
        images = (pixels.float() - self.mean) / self.std
        if images.shape[-1] != self.size:
            images = nn.functional.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        return images

    def forward(self, pixels: Tensor) -> Tensor:
        return self.module(self.normalised(pixels)).flatten(1)


def count_features(name: str, module: nn.Module, size: int) -> int:
    """The number of features of a module, found with two blank pictures."""
    with torch.inference_mode():
        output = module(torch.zeros(2, 3, size, size))
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 2:
        raise UserError(f"the encoder {name} must give one row of features per picture, not an output of {shape}.")
    return output.shape[1]


def weights_digest(module: nn.Module) -> str:
    """A digest of all parameters and buffers, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Concatenated(nn.Module):
    """Several encoders side by side; each gets the pictures at its own size."""

    def __init__(self, encoders: list[Encoder]) -> None:
        super().__init__()
        self.sizes = [encoder.size or 0 for encoder in encoders]
        self.encoders = nn.ModuleList(encoder.module for encoder in encoders)

    def folded(self) -> "Concatenated":
        """A copy in which every part has its faster form."""
        made = copy.deepcopy(self)
        made.encoders = nn.ModuleList(inference_form(encoder) for encoder in self.encoders)
        return made

    def forward(self, images: Tensor) -> Tensor:
        """All have the same mean and std, so the normalised pictures only have to be resized."""
        parts = []
        for encoder, size in zip(self.encoders, self.sizes, strict=True):
            same = images.shape[-1] == size
            sized = images if same else nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)
            parts.append(encoder(sized))
        return torch.cat(parts, 1)
