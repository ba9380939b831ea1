"""Mean Teacher: Tarvainen and Valpola, https://arxiv.org/abs/1703.01780"""

from typing import Annotated

from torch import Tensor

from ..losses import cross_entropy, squared_error
from ..settings import Setting
from .method import Method, Outputs
from .step import Step


class MeanTeacher(Method):
    """The network must agree with its teacher, the average of its weights, each on its own weak view.

    Batch norm as in the authors' code: the network sees labelled and unlabelled images in one pass, the teacher has a
    pass of its own, with batch statistics. The authors' teacher sees the labelled images too, of which nothing is asked
    here.
    """

    paper = "https://arxiv.org/abs/1703.01780"

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the unlabelled term, after the ramp", least=0)] = 50.0,
        ramp: Annotated[int, Setting("steps over which the weight grows from 0", least=0)] = 2000,
    ) -> None:
        super().__init__()
        self.weight, self.ramp = weight, ramp

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        target = step.teacher(step.view("weak", 1)).logits.softmax(1)
        step.record(pseudo_labels=target.argmax(1))
        consistency = squared_error(out["weak"].logits.softmax(1), target)
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "unlabelled": self.weight * step.ramp(self.ramp) * consistency,
        }
