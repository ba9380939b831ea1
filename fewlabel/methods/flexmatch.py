"""FlexMatch: Zhang et al., https://arxiv.org/abs/2110.08263"""

from typing import Annotated

import torch
from torch import Tensor

from ..losses import cross_entropy, masked_cross_entropy
from ..settings import Setting
from .method import Method, Outputs, Problem
from .step import Step

NEVER = -1  # confident about an image


class FlexMatch(Method):
    """FixMatch with a threshold for each class, lower for classes that are learnt more slowly."""

    paper = "https://arxiv.org/abs/2110.08263"
    latest: Tensor

    def __init__(
        self,
        threshold: Annotated[
            float, Setting("confidence threshold of the best-learnt class (tau)", least=0, most=1)
        ] = 0.95,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.threshold, self.weight = threshold, weight

    def build(self, problem: Problem) -> None:
        self.classes = problem.classes
        self.register_buffer("latest", torch.full((problem.images,), NEVER))  # confident label of each image

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        confidence, guess = out["weak"].logits.detach().softmax(1).max(1)
        kept = confidence >= self.class_thresholds()[guess]
        step.record(pseudo_labels=guess, kept=kept)
        sure = confidence >= self.threshold
        self.latest[step.unlabelled_index[sure]] = guess[sure]
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * masked_cross_entropy(out["strong"].logits, guess, kept),
        }

    def class_thresholds(self) -> Tensor:
        """tau * b / (2 - b), where b compares a class with the largest one, or with the images not used yet if more."""
        counts = torch.bincount(self.latest + 1, minlength=self.classes + 1)  # the first is that of NEVER
        learnt = counts[1:] / counts.max()
        return self.threshold * learnt / (2 - learnt)
