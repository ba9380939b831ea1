"""mixup: Zhang et al., https://arxiv.org/abs/1710.09412"""

from typing import Annotated

from torch import Tensor

from ..losses import cross_entropy
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class Mixup(Method):
    """Supervised training on mixed images: the mix of two images must get the mix of their labels."""

    paper = "https://arxiv.org/abs/1710.09412"

    def __init__(
        self, beta: Annotated[float, Setting("mixing weights are drawn from Beta(beta, beta)", above=0)] = 0.75
    ) -> None:
        super().__init__()
        self.beta = beta

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"mixed": step.mix(step.labelled, self.beta, "mixup")}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        logits = out["mixed"].logits
        return {"labelled": cross_entropy(logits, step.mix(step.one_hot(logits), self.beta, "mixup"))}
