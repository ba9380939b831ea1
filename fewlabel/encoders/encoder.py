"""Encoder: a network trained elsewhere that turns pictures into features."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import UserError

Colour = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Encoder:
    """A network with the preprocessing that it was trained with."""

    name: str  # as it is given: lite0, timm/NAME, ...
    module: nn.Module  # normalised pictures (N, 3, size, size) to features (N, features)
    size: int  # side of the pictures it takes
    mean: Colour  # of pixels, on the scale 0 to 255
    std: Colour
    features: int
    digest: str  # of the weights
    licence: str = "unknown"

    def __call__(self, pixels: Tensor) -> Tensor:
        """Features (N, features) in float32 of uint8 pixels (N, 3, size, size)."""
        mean, std = (torch.tensor(colour, device=pixels.device).view(3, 1, 1) for colour in (self.mean, self.std))
        images = ((pixels.float() - mean) / std).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            features = self.module(images).float()
        if features.shape != (len(pixels), self.features):
            raise UserError(
                f"the encoder {self.name} gives an output of shape {tuple(features.shape)} for {len(pixels)} pictures, "
                f"where ({len(pixels)}, {self.features}) is expected."
            )
        if not features.isfinite().all():
            raise UserError(f"the encoder {self.name} gives NaN or infinity for some pictures.")
        return features


class Concatenated(nn.Module):
    """Several encoders side by side; each gets the pictures at its own size."""

    def __init__(self, encoders: list[Encoder]) -> None:
        super().__init__()
        self.encoders = encoders
        self.modules_ = nn.ModuleList(encoder.module for encoder in encoders)

    def forward(self, images: Tensor) -> Tensor:
        """All have the same mean and std, so the normalised pictures only have to be resized."""
        parts = []
        for encoder in self.encoders:
            side = (encoder.size, encoder.size)
            same = images.shape[-1] == encoder.size
            sized = images if same else nn.functional.interpolate(images, side, mode="bilinear", antialias=True)
            parts.append(encoder.module(sized))
        return torch.cat(parts, 1)
