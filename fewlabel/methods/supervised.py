"""Training on the labelled images alone: the baseline for every other method."""

from torch import Tensor

from ..losses import cross_entropy
from .method import Method, Outputs
from .step import Step


class Supervised(Method):
    """Cross-entropy on the weak view of the labelled images."""

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        return {"labelled": cross_entropy(out["labelled"].logits, step.labels)}
