"""How good a classifier is."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .networks import Classifier

CHUNK = 512


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


@torch.inference_mode()
def probabilities(network: Classifier, pixels: Tensor) -> Tensor:
    """Class probabilities (N, classes) on the CPU, whatever mode the network is in."""
    training, device = network.training, network.mean.device
    network.eval()
    rows = [network.probabilities(pixels[part].to(device)).cpu() for part in chunks(len(pixels))]
    network.train(training)
    return torch.cat(rows) if rows else torch.empty(0, network.head.out_features)


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Share of right classes among the images whose label is known."""
    known = labels >= 0
    return (predicted[known] == labels[known]).double().mean().item()


def confusion(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """(classes, classes) counts: row = true class, column = predicted class; unlabelled images are left out."""
    known = labels >= 0
    return torch.bincount(labels[known] * classes + predicted[known], minlength=classes * classes).view(
        classes, classes
    )
