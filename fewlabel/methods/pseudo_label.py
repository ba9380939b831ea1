"""Pseudo-Label: Lee, Workshop on Challenges in Representation Learning, ICML 2013"""

from typing import Annotated

from torch import Tensor

from ..losses import cross_entropy, masked_cross_entropy
from .method import Method, Outputs, Step


class PseudoLabel(Method):
    """A confident guess on a weak view becomes the label of that same view."""

    paper = "https://www.semanticscholar.org/paper/798d9840d2439a0e5d47bcf5d164aa46d5e7dc26"

    def __init__(
        self,
        threshold: Annotated[float, "keep a guess whose probability is at least this"] = 0.95,
        weight: Annotated[float, "of the unlabelled term, after the ramp"] = 1.0,
        ramp: Annotated[int, "steps over which that weight grows from 0"] = 1000,
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
