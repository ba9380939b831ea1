"""Virtual adversarial training: Miyato et al., https://arxiv.org/abs/1704.03976"""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from ..losses import cross_entropy, divergence, entropy
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class VAT(Method):
    """A small adversarial perturbation of the image must not change its prediction.

    Batch norm as in the authors' code: a pass over the labelled images, and one each over the plain, the nudged and the
    changed unlabelled ones, which leave the running statistics alone.
    """

    paper = "https://arxiv.org/abs/1704.03976"

    def __init__(
        self,
        size: Annotated[
            float, Setting("norm of the adversarial perturbation of normalised images (epsilon)", least=0)
        ] = 6.0,
        nudge: Annotated[float, Setting("norm of the perturbation that finds its direction (xi)", least=0)] = 1e-2,
        weight: Annotated[float, Setting("weight of the adversarial term, after the ramp", least=0)] = 0.3,
        entropy: Annotated[float, Setting("weight of the entropy of the predictions", least=0)] = 0.06,
        ramp: Annotated[int, Setting("steps over which the adversarial weight grows from 0", least=0)] = 2000,
    ) -> None:
        super().__init__()
        self.size, self.nudge, self.weight, self.entropy, self.ramp = size, nudge, weight, entropy, ramp

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        # Plain, nudged and changed images go through the network in batches of the same rows: else the difference
        # of the batch-norm statistics would be larger than that of the images.
        plain = step.forward(step.weak).logits
        target = plain.detach()
        step.record(pseudo_labels=target.argmax(1))
        changed = step.forward(step.weak + self.size * self.worst_direction(step, target)).logits
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "adversarial": self.weight * step.ramp(self.ramp) * divergence(changed, target),
            "entropy": self.entropy * entropy(plain),
        }

    def worst_direction(self, step: Step, target: Tensor) -> Tensor:
        """The adversarial direction of length 1 for each image, by one power iteration in float32."""
        if not step.exact:
            target = step.forward(step.weak, exact=True).logits.detach()
        direction = torch.randn(step.weak.shape, generator=step.generator("vat")).to(step.weak)
        direction = unit(direction).requires_grad_()
        with torch.enable_grad():
            change = divergence(step.forward(step.weak + self.nudge * direction, exact=True).logits, target)
        (gradient,) = torch.autograd.grad(change, direction)
        return unit(gradient)


def unit(rows: Tensor) -> Tensor:
    """Each row divided by its length."""
    return F.normalize(rows.flatten(1), dim=1, eps=1e-20).view(rows.shape)
