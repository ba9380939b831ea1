"""MixMatch: Berthelot et al., https://arxiv.org/abs/1905.02249"""

from typing import Annotated

import torch
from torch import Tensor

from ..losses import cross_entropy, sharpen, squared_error
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class MixMatch(Method):
    """Pseudo-labels sharpened over two weak views, then mixup of all labelled and unlabelled images.

    Batch norm: one pass over all mixes. The authors split them into passes of one batch each, interleaved so that every
    pass holds labelled and unlabelled mixes alike, and give each view behind a pseudo-label a pass of its own. These
    are samples of the same distributions, so larger passes only make their statistics steadier.
    """

    paper = "https://arxiv.org/abs/1905.02249"

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the unlabelled term, after the ramp", least=0)] = 75.0,
        temperature: Annotated[float, Setting("sharpening temperature of pseudo-labels (T)", above=0)] = 0.5,
        beta: Annotated[float, Setting("mixing weights are drawn from Beta(beta, beta)", above=0)] = 0.75,
        ramp: Annotated[
            int, Setting("steps over which the weight grows from 0; much shorter ones collapse", least=0)
        ] = 16000,
    ) -> None:
        super().__init__()
        self.weight, self.temperature, self.beta, self.ramp = weight, temperature, beta, ramp

    def inputs(self, step: Step) -> dict[str, Tensor]:
        everything = torch.cat([step.labelled, step.weak, step.view("weak", 1)])
        return {"mixed": step.mix(everything, self.beta, "mixmatch")}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        logits = out["mixed"].logits
        guess = self.guess(step)
        step.record(pseudo_labels=guess.argmax(1))
        targets = step.mix(torch.cat([step.one_hot(logits), guess, guess]), self.beta, "mixmatch")
        labelled = len(step.labels)
        consistency = squared_error(logits[labelled:].softmax(1), targets[labelled:])
        return {
            "labelled": cross_entropy(logits[:labelled], targets[:labelled]),
            "unlabelled": self.weight * step.ramp(self.ramp) * consistency,
        }

    @torch.no_grad()
    def guess(self, step: Step) -> Tensor:
        """The mean of the probabilities of two weak views, sharpened."""
        first, second = step.forward(torch.cat([step.weak, step.view("weak", 1)])).logits.softmax(1).chunk(2)
        return sharpen((first + second) / 2, self.temperature)
