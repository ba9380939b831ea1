"""Pi-model: Laine and Aila, https://arxiv.org/abs/1610.02242"""

from typing import Annotated

from torch import Tensor

from ..losses import cross_entropy, squared_error
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class PiModel(Method):
    """Two weak views of an image must get the same prediction.

    Batch norm: both views and the labelled images share a pass. The authors make two passes, each over labelled and
    unlabelled images, which comes to the same on digits with 20 labels (-0.2 ± 0.3 points) and costs one more batch of
    images. The second view in a pass by itself costs 28 ± 4 points (`python -m bench.choices`).
    """

    paper = "https://arxiv.org/abs/1610.02242"

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the unlabelled term, after the ramp", least=0)] = 10.0,
        ramp: Annotated[int, Setting("steps over which the weight grows from 0", least=0)] = 2000,
    ) -> None:
        super().__init__()
        self.weight, self.ramp = weight, ramp

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "second": step.view("weak", 1)}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        # One view is the target of the other. The paper's Algorithm 1 lets gradients flow through both, which by
        # symmetry only doubles the expected gradient.
        target = out["weak"].logits.detach().softmax(1)
        step.record(pseudo_labels=target.argmax(1))
        consistency = squared_error(out["second"].logits.softmax(1), target)
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * step.ramp(self.ramp) * consistency,
        }
