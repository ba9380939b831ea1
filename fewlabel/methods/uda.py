"""UDA, unsupervised data augmentation: Xie et al., https://arxiv.org/abs/1904.12848"""

from typing import Annotated

from torch import Tensor

from ..losses import cross_entropy, masked_cross_entropy
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class UDA(Method):
    """The strong view must get the sharpened prediction of the weak view, where that is confident."""

    paper = "https://arxiv.org/abs/1904.12848"

    def __init__(
        self,
        threshold: Annotated[
            float, Setting("confidence threshold of pseudo-labels, before sharpening", least=0, most=1)
        ] = 0.8,
        temperature: Annotated[float, Setting("sharpening temperature of pseudo-labels", above=0)] = 0.4,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.threshold, self.temperature, self.weight = threshold, temperature, weight

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        logits = out["weak"].logits.detach()
        confidence, guess = logits.softmax(1).max(1)
        kept = confidence >= self.threshold
        step.record(pseudo_labels=guess, kept=kept)
        target = (logits / self.temperature).softmax(1)
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * masked_cross_entropy(out["strong"].logits, target, kept),
        }
