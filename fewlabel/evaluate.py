"""Evaluate a classifier: accuracy, confusion matrix and calibration."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .networks import Classifier
from .scratch import room, slices
from .terminal import with_progress

CHUNK = 512  # inputs at a time, where they are small
LARGE, LARGE_CHUNK = 256, 64  # pixels from which on an image is large, and as many images at a time on a CPU


def chunk_for(inputs: Tensor, device: torch.device) -> int:
    """The number of inputs to predict at a time.

    The activations of more images do not fit into a processor's cache: 64 images of 32x32 at a time take 2.2 ms each
    with wrn-28-2, 256 at a time 3.4 ms. Small inputs are faster in large chunks (`python -m bench.evaluate`).
    """
    large = inputs.shape[2:].numel() >= LARGE
    return LARGE_CHUNK if large and device.type == "cpu" else CHUNK


@torch.inference_mode()
def predict_probabilities(
    network: Classifier, inputs: Tensor, positions: Tensor | None = None, title: str = ""
) -> Tensor:
    """Class probabilities (N, classes) on the CPU, in evaluation mode.

    Of all inputs, or of those at `positions`; some at a time, so that a memory-mapped set is never loaded as a whole.
    With a `title` a bar shows the progress.
    """
    return by_chunks(network.probabilities, network, inputs, positions, title)


@torch.inference_mode()
def features_by(network: Classifier, inputs: Tensor, positions: Tensor | None = None, title: str = "") -> Tensor:
    """The features f(x) of inputs (N, d) on the CPU; otherwise as `predict_probabilities`."""
    return by_chunks(lambda rows: network.encoder(network.normalise(rows)).float(), network, inputs, positions, title)


def by_chunks(
    compute: Callable[[Tensor], Tensor], network: Classifier, inputs: Tensor, positions: Tensor | None, title: str
) -> Tensor:
    training, device = network.training, network.mean.device
    network.eval()
    count = len(inputs) if positions is None else len(positions)
    parts = list(slices(count, chunk_for(inputs, device))) or [slice(0, 0)]
    found: Tensor | None = None
    for part in with_progress(parts, len(parts), title) if title else parts:
        rows = compute(inputs[part if positions is None else positions[part]].to(device)).cpu()
        if found is None:  # now that width and type are known
            found = torch.from_numpy(room((count, *rows.shape[1:]), rows.numpy().dtype))
        found[part] = rows
    network.train(training)
    assert found is not None
    return found


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions beside the true labels of examples that were not trained on."""

    classes: tuple[str, ...]
    probabilities: Tensor  # (N, classes)
    labels: Tensor  # -1 where unknown
    skipped: dict[str, str] = field(default_factory=dict)  # unreadable file -> reason
    temperature: float = 1.0  # that the probabilities were made with

    @property
    def confusion(self) -> Tensor:
        """(classes, classes) counts: row = true class, column = predicted class."""
        return confusion(self.probabilities.argmax(1), self.labels, len(self.classes))

    @property
    def count(self) -> int:
        """The accuracy on labelled examples."""
        return int((self.labels >= 0).sum())

    @property
    def correct(self) -> int:
        return int(self.confusion.diagonal().sum())

    @property
    def accuracy(self) -> float:
        return self.correct / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of the accuracy."""
        return wilson(self.correct, self.count)

    @property
    def calibration_error(self) -> float:
        return calibration_error(self.probabilities, self.labels)


def wilson(correct: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's confidence interval of a share, from `correct` of `count`."""
    from scipy.stats import binomtest  # slow to import, and training has no use for it

    low, high = binomtest(correct, count).proportion_ci(level, method="wilson")
    return float(low), float(high)


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Share of correct predictions among the labelled images."""
    known = labels >= 0
    return (predicted[known] == labels[known]).double().mean().item()


def neighbour_accuracy(features: Tensor, labels: Tensor) -> float:
    """Share of examples whose nearest neighbour, by the angle between features, has the same class."""
    rows = torch.nn.functional.normalize(features.float(), dim=1)
    similarity = rows @ rows.T
    similarity.fill_diagonal_(-torch.inf)
    return (labels[similarity.argmax(1)] == labels).double().mean().item()


def confusion(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """(classes, classes) counts: row = true class, column = predicted class; unlabelled images are left out."""
    known = labels >= 0
    return torch.bincount(labels[known] * classes + predicted[known], minlength=classes * classes).view(
        classes, classes
    )


def calibration_error(guesses: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Expected calibration error: how far confidence is from the share of right guesses, on average over the images.

    `guesses` are probabilities (N, classes). Images are put together by their confidence, in bins of equal width.
    """
    known = labels >= 0
    confidence, guess = guesses[known].double().max(1)
    right = (guess == labels[known]).double()
    place = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, place, right - confidence)
    return gaps.abs().sum().item() / len(right)


def fit_temperature(guesses: Tensor, labels: Tensor) -> float:
    """The temperature under which these labels are most likely: more than 1 where guesses were too confident."""
    from scipy.optimize import minimize_scalar

    known = labels >= 0
    logits, truth = guesses[known].double().clamp(min=1e-12).log(), labels[known]

    def loss(log_temperature: float) -> float:
        return torch.nn.functional.cross_entropy(logits / math.exp(log_temperature), truth).item()

    return math.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)


def cross_fitted_error(guesses: Tensor, labels: Tensor) -> float:
    """The calibration error after `fit_temperature`, with every image judged by the temperature of the other half."""
    tempered = torch.empty_like(guesses, dtype=torch.float64)
    for k in (0, 1):
        temperature = fit_temperature(guesses[1 - k :: 2], labels[1 - k :: 2])
        tempered[k::2] = (guesses[k::2].double().clamp(min=1e-12).log() / temperature).softmax(1)
    return calibration_error(tempered, labels)
