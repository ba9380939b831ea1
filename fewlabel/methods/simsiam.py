"""SimSiam: Chen and He, https://arxiv.org/abs/2011.10566"""

from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from ..losses import unlikeness
from ..settings import Setting
from .method import Outputs, Problem, TwoViews, ViewName
from .projector import make_projector
from .step import Step


class SimSiam(TwoViews):
    """From the embedding of one view that of the other can be predicted; no negatives, and no gradient by the target.

    Batch norm as in the authors' code: each view in a pass of its own. The predictor's learning rate does not decay.
    """

    paper = "https://arxiv.org/abs/2011.10566"
    apart = {"first": "first", "second": "second"}  # noqa: RUF012
    steady = ("predictor",)
    first_stage = {"views": "small"}  # noqa: RUF012

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the term", least=0)] = 1.0,
        views: ViewName = "simclr",
    ) -> None:
        super().__init__()
        self.weight, self.views = weight, views

    def build(self, problem: Problem) -> None:
        width = problem.features
        self.projector = make_projector(width, width, width, norm_last=True)
        self.predictor = make_projector(width, max(2, width // 4), width)

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        first, second = (self.projector(out[name].features) for name in ("first", "second"))
        step.record_embedding(F.normalize(first, dim=1))
        there, back = (
            unlikeness(self.predictor(rows), target.detach()) for rows, target in ((first, second), (second, first))
        )
        return {"simsiam": self.weight * (there + back) / 2}
