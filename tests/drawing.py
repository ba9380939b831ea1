"""Random numbers for views."""

import torch
from torch import Tensor

from fewlabel.randomness import Draws


def draws(images: Tensor, seed: int = 0) -> Draws:
    """For each of the images."""
    return Draws(torch.Generator().manual_seed(seed), len(images))
