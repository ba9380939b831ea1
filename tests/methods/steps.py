"""A small problem, steps of it, and random answers of a network, for tests of methods."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabel import Recipe
from fewlabel.data import Dataset, Images
from fewlabel.data.batches import Batches
from fewlabel.data.examples import numbered
from fewlabel.methods import Problem, Step
from fewlabel.networks import Classifier, Output, make_classifier
from fewlabel.ranks import ALONE
from fewlabel.training import make_plan
from fewlabel.training.passes import ForwardPasses
from fewlabel.training.views import BatchViews

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
    return make_step_and_passes(index, network, seed, precision)[0]


def make_step_and_passes(
    index: int = 0, network: Classifier | None = None, seed: int = 0, precision: torch.dtype = torch.float32
) -> tuple[Step, ForwardPasses]:
    draw = torch.Generator().manual_seed(5)
    pixels = torch.randint(256, (40, 1, 8, 8), generator=draw).to(torch.uint8)
    labels = torch.arange(40) % CLASSES
    batches = Batches(labels, torch.arange(8), BATCH, MU, seed)
    network = network or make_classifier("mlp", (1, 8, 8), CLASSES, projector=True, seed=0)
    teacher = make_classifier("cnn", (1, 8, 8), CLASSES, projector=True, seed=1).eval()
    images = Images(pixels, labels, tuple("abcd"), numbered("train", 40))
    plan = make_plan(Recipe(seed=seed, device="cpu", flip=False), Dataset("some", images, None, flip=False))
    passes = ForwardPasses(network, teacher, precision, ALONE)
    return Step(index, STEPS, seed, BatchViews(index, plan, images, batches, network, ALONE), passes), passes


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
