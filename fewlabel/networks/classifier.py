"""A classifier: features f, head h and, where a method asks for embeddings, projector g."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Output(NamedTuple):
    """The outputs of the network for a batch of images, one row each."""

    logits: Tensor  # h(f(x)): (N, classes)
    features: Tensor  # f(x): (N, d)
    embedding: Tensor | None  # g(f(x)) divided by its length: (N, d / 4)


class Classifier(nn.Module):
    """Maps normalised images to logits, features and embeddings.

    `encoder` maps images (N, C, H, W), or vectors (N, D), to features (N, features). `mean` and `std` are of the
    training pixels, on the scale 0 to 255: (C, 1, 1), one for each channel; or of the vectors, (D,).
    """

    temperature: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, features: int, classes: int, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.features = features
        self.head = nn.Linear(features, classes)
        self.projector: nn.Module | None = None
        self.register_buffer("temperature", torch.ones(()))  # by which logits are divided, see `fit_temperature`
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def start_head(self) -> None:
        """Weights of the head by Glorot and Bengio, no bias, as most authors of methods for images have it."""
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def add_projector(self) -> None:
        """g: Linear(d, d/4, no bias) - BatchNorm - ReLU - Linear(d/4, d/4), as in the authors' code."""
        hidden = max(self.features // 4, 8)
        self.projector = nn.Sequential(
            nn.Linear(self.features, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden)
        )

    def normalise(self, pixels: Tensor) -> Tensor:
        """uint8 pixels to what `forward` takes."""
        return (pixels.float() - self.mean) / self.std

    def forward(self, images: Tensor) -> Output:
        features = self.encoder(images)
        # Losses are computed in float32 also where autocast ran the layers in half precision.
        embedding = None if self.projector is None else F.normalize(self.projector(features).float(), dim=1)
        return Output(self.head(features).float(), features.float(), embedding)

    @torch.no_grad()
    def probabilities(self, pixels: Tensor) -> Tensor:
        """Class probabilities of uint8 pixels."""
        return (self.head(self.encoder(self.normalise(pixels))) / self.temperature).softmax(1)
