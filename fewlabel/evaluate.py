"""How good a classifier is."""

import copy

import torch
from torch import Tensor

from .networks import Classifier, set_norm_momentum
from .terminal import with_progress

CHUNK = 512  # images at a time
CALIBRATION = 1024  # images, at most


@torch.inference_mode()
def probabilities(network: Classifier, pixels: Tensor, positions: Tensor | None = None, title: str = "") -> Tensor:
    """Class probabilities (N, classes) on the CPU, whatever mode the network is in.

    Of all images, or of those at `positions`; some at a time, so that a memory-mapped set is never loaded as a whole.
    With a `title` a bar shows how far it is.
    """
    training, device = network.training, network.mean.device
    network.eval()
    parts = (torch.arange(len(pixels)) if positions is None else positions).split(CHUNK)
    shown = with_progress(parts, len(parts), title) if title else parts
    rows = [network.probabilities(pixels[part].to(device)).cpu() for part in shown]
    network.train(training)
    return torch.cat(rows)


@torch.no_grad()
def calibrated(network: Classifier, pixels: Tensor) -> Classifier:
    """A copy whose batch-norm statistics are those of training images as they are.

    The running statistics of training are of weak, strong and mixed views together, but predictions are made for plain
    images. MNIST, 20 labels, 2,000 steps, seed 0: 95.9% becomes 96.6% (fixmatch), 95.1% becomes 96.6% (icl-ssl).
    """
    network = copy.deepcopy(network)
    sample = pixels[:: -(-len(pixels) // CALIBRATION)]
    if len(sample) < 2:  # no variance to speak of
        return network.eval()
    network.train()
    for n, part in enumerate(sample.chunk(round(len(sample) / 256) or 1)):  # nearly equal parts, none of a single image
        set_norm_momentum(network, n, steps=None)
        network(network.normalise(part.to(network.mean.device)))
    return network.eval()


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
