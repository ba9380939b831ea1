"""Barlow Twins: Zbontar et al., https://arxiv.org/abs/2103.03230"""

from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from ..losses import redundancy
from ..settings import Setting
from .method import Outputs, Problem, TwoViews, ViewName
from .projector import make_projector
from .step import Step


class BarlowTwins(TwoViews):
    """Each number of an embedding is the same for two views of an image, and tells what the others do not.

    Batch norm as in the authors' code: each view in a pass of its own.
    """

    paper = "https://arxiv.org/abs/2103.03230"
    apart = {"first": "first", "second": "second"}  # noqa: RUF012
    first_stage = {"views": "small"}  # noqa: RUF012

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the term", least=0)] = 1.0,
        off_diagonal: Annotated[
            float, Setting("weight of the correlations between different numbers", least=0)
        ] = 0.005,
        width: Annotated[int, Setting("width of the projector's three layers", least=2)] = 512,
        views: ViewName = "simclr",
    ) -> None:
        super().__init__()
        self.weight, self.off_diagonal, self.width, self.views = weight, off_diagonal, width, views

    def build(self, problem: Problem) -> None:
        self.projector = make_projector(problem.features, self.width, self.width, self.width)

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        first, second = (self.projector(out[name].features) for name in ("first", "second"))
        step.record_embedding(F.normalize(first, dim=1))
        return {"barlow-twins": self.weight * redundancy(first, second, self.off_diagonal)}
