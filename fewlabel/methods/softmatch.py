"""SoftMatch: Chen et al., https://arxiv.org/abs/2301.10921"""

from typing import Annotated

import torch
from torch import Tensor

from ..losses import align, cross_entropy, masked_cross_entropy
from ..settings import Setting
from .method import Method, Outputs, Problem
from .step import Step


class SoftMatch(Method):
    """FixMatch without a threshold: pseudo-labels below the mean confidence count less."""

    paper = "https://arxiv.org/abs/2301.10921"
    mean: Tensor
    variance: Tensor
    mean_prediction: Tensor

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
        sigmas: Annotated[float, Setting("the larger, the less unsure pseudo-labels count (n)", least=0)] = 2.0,
        momentum: Annotated[float, Setting("momentum of the moving averages", least=0, most=1)] = 0.999,
    ) -> None:
        super().__init__()
        self.weight, self.sigmas, self.momentum = weight, sigmas, momentum

    def build(self, problem: Problem) -> None:
        self.register_buffer("mean", torch.tensor(1 / problem.classes))  # of the confidence
        self.register_buffer("variance", torch.tensor(1.0))  # of the confidence
        self.register_buffer("mean_prediction", torch.full((problem.classes,), 1 / problem.classes))

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        probabilities = out["weak"].logits.detach().softmax(1)
        guess = probabilities.argmax(1)  # of the unaligned probabilities; its weight is of the aligned ones
        if step.index == 0:
            self.mean_prediction.copy_(probabilities.mean(0))  # where the average starts, as in the authors' code
        weights = self.weights(probabilities)
        step.record(pseudo_labels=guess, kept=weights >= 0.5)
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * masked_cross_entropy(out["strong"].logits, guess, weights),
        }

    def weights(self, probabilities: Tensor) -> Tensor:
        """exp(-min(c - m, 0)^2 / (2 (s / n)^2)), where c is the confidence of uniformly aligned probabilities."""
        rate = 1 - self.momentum
        self.mean_prediction.lerp_(probabilities.mean(0).to(self.mean_prediction), rate)
        confidence = align(probabilities, self.mean_prediction).amax(1)
        self.mean.lerp_(confidence.mean().to(self.mean), rate)
        self.variance.lerp_(confidence.var().to(self.variance), rate)  # unbiased
        below = (confidence - self.mean).clamp(max=0)
        return torch.exp(-((self.sigmas * below) ** 2) / (2 * self.variance.clamp(min=1e-12)))
