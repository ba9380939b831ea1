"""AdaMatch: Berthelot et al., https://arxiv.org/abs/2106.04732"""

import math
from typing import Annotated

import torch
from torch import Tensor

from ..losses import align, cross_entropy, masked_cross_entropy
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class AdaMatch(Method):
    """FixMatch with pseudo-labels aligned to the labelled batch, and a threshold relative to the confidence there.

    Batch norm as in the authors' code: one pass over everything, and one over the labelled images alone, which does not
    touch the running statistics.
    """

    paper = "https://arxiv.org/abs/2106.04732"

    def __init__(
        self,
        threshold: Annotated[
            float,
            Setting("confidence threshold, relative to the mean confidence on labelled images (tau)", least=0, most=1),
        ] = 0.9,
        weight: Annotated[
            float, Setting("weight of the unlabelled term, after the ramp over half the run", least=0)
        ] = 1.0,
    ) -> None:
        super().__init__()
        self.threshold, self.weight = threshold, weight

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": self.labelled(step), "weak": step.weak, "strong": step.strong}

    def labelled(self, step: Step) -> Tensor:
        """Weak views, then strong ones."""
        return torch.cat([step.labelled, step.view("strong", of="labelled")])

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        # Labelled logits at random between those of the joint batch and those of the labelled images alone.
        joint, alone = out["labelled"].logits, step.forward(self.labelled(step)).logits
        share = torch.rand(joint.shape, generator=step.generator("adamatch")).to(joint)
        weak, strong = (share * joint + (1 - share) * alone).chunk(2)
        with torch.no_grad():
            labelled, unlabelled = weak.softmax(1), out["weak"].logits.softmax(1)
            target = align(unlabelled, unlabelled.mean(0), labelled.mean(0))
            confidence, guess = target.max(1)
            kept = confidence >= self.threshold * labelled.amax(1).mean()
        step.record(pseudo_labels=guess, kept=kept, predictions=unlabelled.argmax(1))
        given = 0.5 - math.cos(min(math.pi, 2 * math.pi * step.index / step.steps)) / 2
        return {
            "labelled": cross_entropy(weak, step.labels) + cross_entropy(strong, step.labels),
            "unlabelled": self.weight * given * masked_cross_entropy(out["strong"].logits, target, kept),
        }
