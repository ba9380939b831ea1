"""A small problem, steps of it, and random answers of a network, for tests of methods."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabel.data.batches import Batches
from fewlabel.data.images import Images, numbered
from fewlabel.methods import Problem, Step
from fewlabel.networks import Classifier, Output, make_classifier

CLASSES, FEATURES, BATCH, MU, STEPS = 4, 6, 4, 2, 50


def make_problem() -> Problem:
    return Problem(
        classes=CLASSES,
        features=FEATURES,
        labels=torch.arange(8) % CLASSES,
        labelled=torch.arange(8),
        images=40,
        batch=BATCH,
        mu=MU,
        steps=STEPS,
    )


def make_step(
    index: int = 0, network: Classifier | None = None, seed: int = 0, precision: torch.dtype = torch.float32
) -> Step:
    """Its teacher is another network than the one that learns."""
    draw = torch.Generator().manual_seed(5)
    pixels = torch.randint(256, (40, 1, 8, 8), generator=draw).to(torch.uint8)
    labels = torch.arange(40) % CLASSES
    batches = Batches(labels, torch.arange(8), BATCH, MU, seed)
    network = network or make_classifier("mlp", 1, 8, CLASSES, projector=True, seed=0)
    teacher = make_classifier("cnn", 1, 8, CLASSES, projector=True, seed=1).eval()
    images = Images(pixels, labels, tuple("abcd"), numbered("train", 40))
    return Step(index, STEPS, seed, images, batches, ["horizontal-flip"], network, teacher, precision)


def answers(names: list[str], seed: int = 0, scale: float = 2.0, labelled: int = BATCH) -> dict[str, Output]:
    """Random float64 logits and unit embeddings that ask for gradients, MU * BATCH rows (BATCH for "labelled")."""
    draw = torch.Generator().manual_seed(seed)

    def rows(name: str, width: int) -> Tensor:
        count = labelled if name == "labelled" else MU * BATCH
        return torch.randn(count, width, generator=draw, dtype=torch.float64)

    return {
        name: Output(
            (scale * rows(name, CLASSES)).requires_grad_(),
            rows(name, FEATURES).requires_grad_(),
            F.normalize(rows(name, FEATURES), dim=1).requires_grad_(),
        )
        for name in names
    }
