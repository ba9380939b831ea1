"""SimMatch: Zheng et al., https://arxiv.org/abs/2203.06915"""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..losses import cross_entropy, masked_cross_entropy, to_probabilities
from ..settings import Setting
from .memory import Alignment
from .method import Method, Outputs, Problem
from .step import Step

EMBEDDING = 128


class SimMatch(Method):
    """Weak and strong views must agree in their class and in their similarity to the labelled images.

    In the first epoch similarity plays no part, as in the authors' code: the memory bank has to be filled first.
    Batch norm: one pass over labelled, weak and strong views, as in USB's version for CIFAR-10. The authors' code, for
    ImageNet, has labelled and strong views in one pass and gives weak ones to an averaged network.
    """

    paper = "https://arxiv.org/abs/2203.06915"
    positions: Tensor
    labels: Tensor
    bank: Tensor

    def __init__(
        self,
        threshold: Annotated[float, Setting("confidence threshold of pseudo-labels (tau)", least=0, most=1)] = 0.95,
        temperature: Annotated[float, Setting("temperature of similarities to the labelled images", above=0)] = 0.1,
        smoothing: Annotated[
            float,
            Setting("weight of the image's own prediction; the rest is of similar images (alpha)", least=0, most=1),
        ] = 0.9,
        momentum: Annotated[
            float, Setting("momentum of the memory bank of labelled embeddings", least=0, most=1)
        ] = 0.7,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
        similarity: Annotated[float, Setting("weight of the similarity term", least=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.threshold, self.temperature, self.smoothing = threshold, temperature, smoothing
        self.momentum, self.weight, self.similarity = momentum, weight, similarity

    def build(self, problem: Problem) -> None:
        self.projector = nn.Sequential(
            nn.Linear(problem.features, problem.features), nn.ReLU(), nn.Linear(problem.features, EMBEDDING)
        )
        self.epoch = problem.images / (problem.batch * problem.mu)  # in steps
        self.align = Alignment(problem.classes, batches=32)
        self.register_buffer("positions", problem.labelled.clone())
        self.register_buffer("labels", problem.labels.clone())
        self.register_buffer("bank", F.normalize(torch.randn(len(problem.labelled), EMBEDDING), dim=1))

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z = {name: F.normalize(self.projector(output.features), dim=1) for name, output in out.items()}
        smoothing, similarity = (1.0, 0.0) if step.index < self.epoch else (self.smoothing, self.similarity)
        bank = self.bank.to(z["weak"], copy=True)  # before this step's labelled images change it
        with torch.no_grad():
            own = self.align(out["weak"].logits.softmax(1))
            resembles = self.resemblance(z["weak"], bank).softmax(1)
            by_class = torch.zeros_like(own).index_add_(1, self.labels, resembles)
            target = smoothing * own + (1 - smoothing) * by_class
            resembled = to_probabilities(resembles * own[:, self.labels])
            confidence, guess = target.max(1)
            kept = confidence >= self.threshold
        step.record(pseudo_labels=guess, kept=kept, predictions=out["weak"].logits.argmax(1))
        self.remember(step, z["labelled"].detach())
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * masked_cross_entropy(out["strong"].logits, target, kept),
            "similarity": similarity * cross_entropy(self.resemblance(z["strong"], bank), resembled),
        }

    def resemblance(self, z: Tensor, bank: Tensor) -> Tensor:
        return z @ bank.T / self.temperature

    def remember(self, step: Step, z: Tensor) -> None:
        """Move the embeddings of this batch's labelled images; one that is in it several times, by their mean."""
        here = (step.labelled_index == self.positions[:, None]).to(self.bank.dtype)  # (labelled images, batch)
        mean = here @ z.to(self.bank) / here.sum(1, keepdim=True).clamp(min=1)
        moved = F.normalize(self.momentum * self.bank + (1 - self.momentum) * mean, dim=1)
        self.bank.copy_(torch.where(here.any(1, keepdim=True), moved, self.bank))
