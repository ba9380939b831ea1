"""FreeMatch: Wang et al., https://arxiv.org/abs/2205.07246"""

from typing import Annotated

import torch
from torch import Tensor

from ..losses import cross_entropy, masked_cross_entropy
from ..settings import Setting
from .method import Method, Outputs, Problem
from .step import Step


class FreeMatch(Method):
    """FixMatch with thresholds that follow the network's own confidence, and a fairness term over the classes.

    Batch norm as in the authors' code: one pass over labelled, weak and strong views.
    """

    paper = "https://arxiv.org/abs/2205.07246"
    mean_confidence: Tensor
    mean_prediction: Tensor
    mean_guess: Tensor

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
        fairness: Annotated[float, Setting("weight of the fairness term", least=0)] = 0.001,
        momentum: Annotated[
            float, Setting("momentum of the moving averages of confidence and class distribution", least=0, most=1)
        ] = 0.999,
    ) -> None:
        super().__init__()
        self.weight, self.fairness, self.momentum = weight, fairness, momentum

    def build(self, problem: Problem) -> None:
        even = torch.full((problem.classes,), 1 / problem.classes)
        self.register_buffer("mean_confidence", even[0].clone())
        self.register_buffer("mean_prediction", even.clone())  # p~
        self.register_buffer("mean_guess", even.clone())  # h~

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        probabilities = out["weak"].logits.detach().softmax(1)
        confidence, guess = probabilities.max(1)
        self.remember(probabilities)
        thresholds = self.mean_confidence * self.mean_prediction / self.mean_prediction.max()
        kept = confidence >= thresholds[guess]
        step.record(pseudo_labels=guess, kept=kept)
        strong = out["strong"].logits
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * masked_cross_entropy(strong, guess, kept),
            "fairness": self.fairness * self.unfairness(strong, kept),
        }

    def remember(self, probabilities: Tensor) -> None:
        """Running means of confidence, of predictions and of how often each class is guessed."""
        rate = 1 - self.momentum
        confidence, guess = probabilities.max(1)
        self.mean_confidence.lerp_(confidence.mean().to(self.mean_confidence), rate)
        self.mean_prediction.lerp_(probabilities.mean(0).to(self.mean_prediction), rate)
        self.mean_guess.lerp_(shares(guess, torch.ones_like(confidence), probabilities).to(self.mean_guess), rate)

    def unfairness(self, logits: Tensor, kept: Tensor) -> Tensor:
        """-H(norm(p~ / h~), norm(p / h)), with p and h of the kept strong views; 0 where none is kept.

        A class that no kept view is guessed to be has no p / h and is left out.
        """
        weights = kept.to(logits.dtype)
        probabilities = logits.softmax(1)
        mean = (weights[:, None] * probabilities).sum(0) / weights.sum().clamp(min=1)
        guessed = shares(probabilities.argmax(1), weights, probabilities)
        now, before = relative(mean, guessed), relative(self.mean_prediction, self.mean_guess)
        return (before * torch.where(now > 0, now, 1.0).log()).sum()


def relative(mean: Tensor, guessed: Tensor) -> Tensor:
    """norm(mean / guessed), 0 for a class that is never guessed."""
    ratio = torch.where(guessed > 0, mean / guessed.clamp(min=1e-12), 0.0)
    return ratio / ratio.sum().clamp(min=1e-12)


def shares(guess: Tensor, weights: Tensor, like: Tensor) -> Tensor:
    """The weighted share of each class among the guesses; all 0 if all weights are 0."""
    counts = torch.zeros_like(like[0]).index_add_(0, guess, weights)
    return counts / weights.sum().clamp(min=1)
