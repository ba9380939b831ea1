"""CoMatch: Li et al., https://arxiv.org/abs/2011.11183"""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..losses import cross_entropy, masked_cross_entropy, to_probabilities
from ..settings import Setting
from .memory import Alignment, Recent
from .method import Method, Outputs, Problem
from .step import Step

EMBEDDING = 64


class CoMatch(Method):
    """Pseudo-labels smoothed by a memory bank; images with similar pseudo-labels must get similar embeddings.

    Batch norm as in the authors' code for CIFAR-10: one pass over labelled, weak and both strong views.
    """

    paper = "https://arxiv.org/abs/2011.11183"
    labelled_among_unlabelled = False

    def __init__(
        self,
        threshold: Annotated[float, Setting("confidence threshold of pseudo-labels (tau)", least=0, most=1)] = 0.95,
        temperature: Annotated[float, Setting("temperature of similarities between embeddings", above=0)] = 0.2,
        smoothing: Annotated[
            float,
            Setting("weight of the image's own prediction; the rest is of similar images (alpha)", least=0, most=1),
        ] = 0.9,
        like: Annotated[float, Setting("similarity threshold of the pseudo-label graph", least=0, most=1)] = 0.8,
        queue: Annotated[int, Setting("batches in the memory bank", least=1)] = 5,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
        graph: Annotated[float, Setting("weight of the graph term", least=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.threshold, self.temperature, self.smoothing, self.like = threshold, temperature, smoothing, like
        self.queue, self.weight, self.graph = queue, weight, graph

    def build(self, problem: Problem) -> None:
        self.projector = nn.Sequential(
            nn.Linear(problem.features, problem.features), nn.LeakyReLU(0.1), nn.Linear(problem.features, EMBEDDING)
        )
        self.align = Alignment(problem.classes, batches=32)
        length = self.queue * problem.batch * (1 + problem.mu)
        self.embeddings, self.guesses = Recent(length, EMBEDDING), Recent(length, problem.classes)

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong, "second": step.view("simclr")}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z = {name: F.normalize(self.projector(output.features), dim=1) for name, output in out.items()}
        with torch.no_grad():
            own = self.align(out["weak"].logits.softmax(1))
            target = self.smooth(own, z["weak"])
            self.embeddings.push(torch.cat([z["weak"], z["labelled"]]))
            self.guesses.push(torch.cat([own, step.one_hot(own)]))
            confidence, guess = target.max(1)
            kept = confidence >= self.threshold
        step.record(pseudo_labels=guess, kept=kept, predictions=out["weak"].logits.argmax(1))
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * masked_cross_entropy(out["strong"].logits, target, kept),
            "graph": self.graph * cross_entropy(self.similarity(z["strong"], z["second"]), self.guess_graph(target)),
        }

    def smooth(self, own: Tensor, z: Tensor) -> Tensor:
        """Once the memory is full: the own guess, and the guesses of remembered images by their similarity."""
        likely = self.similarity(z, self.embeddings.rows.to(z)).softmax(1) @ self.guesses.rows.to(own)
        return torch.where(self.embeddings.full, self.smoothing * own + (1 - self.smoothing) * likely, own)

    def similarity(self, z: Tensor, others: Tensor) -> Tensor:
        return z @ others.T / self.temperature

    def guess_graph(self, guesses: Tensor) -> Tensor:
        """Rows of sum 1: an image is connected to itself (1) and to those of like guesses."""
        product = guesses @ guesses.T
        return to_probabilities((product * (product >= self.like)).fill_diagonal_(1.0))
