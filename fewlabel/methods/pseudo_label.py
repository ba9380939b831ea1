"""Pseudo-Label: Lee, Workshop on Challenges in Representation Learning, ICML 2013"""

from typing import Annotated

from torch import Tensor

from ..losses import cross_entropy, masked_cross_entropy
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class PseudoLabel(Method):
    """A confident prediction on a weak view is the pseudo-label of that same view."""

    paper = "https://www.semanticscholar.org/paper/798d9840d2439a0e5d47bcf5d164aa46d5e7dc26"

    def __init__(
        self,
        threshold: Annotated[float, Setting("confidence threshold of pseudo-labels", least=0, most=1)] = 0.95,
        weight: Annotated[float, Setting("weight of the unlabelled term, after the ramp", least=0)] = 1.0,
        ramp: Annotated[int, Setting("steps over which the weight grows from 0", least=0)] = 1000,
    ) -> None:
        super().__init__()
        self.threshold, self.weight, self.ramp = threshold, weight, ramp

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        logits = out["weak"].logits
        confidence, guess = logits.detach().softmax(1).max(1)
        kept = confidence >= self.threshold
        step.record(pseudo_labels=guess, kept=kept)
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * step.ramp(self.ramp) * masked_cross_entropy(logits, guess, kept),
        }
