"""SimCLR: Chen et al., https://arxiv.org/abs/2002.05709"""

from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from ..losses import pair_contrast
from ..settings import Setting
from .method import Outputs, Problem, TwoViews, ViewName
from .projector import make_projector
from .step import Step

EMBEDDING = 64


class SimCLR(TwoViews):
    """Two views of an image are more alike than views of different images.

    Batch norm as in the authors' code: one pass over both views.
    """

    paper = "https://arxiv.org/abs/2002.05709"
    apart = {"first": "views", "second": "views"}  # noqa: RUF012
    first_stage = {"views": "small"}  # noqa: RUF012

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the contrastive term", least=0)] = 1.0,
        temperature: Annotated[float, Setting("temperature of similarities between embeddings", above=0)] = 0.2,
        views: ViewName = "simclr",
    ) -> None:
        super().__init__()
        self.weight, self.temperature, self.views = weight, temperature, views

    def build(self, problem: Problem) -> None:
        self.projector = make_projector(problem.features, problem.features, EMBEDDING)

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        first, second = (F.normalize(self.projector(out[name].features), dim=1) for name in ("first", "second"))
        step.record_embedding(first)
        return {"simclr": self.weight * pair_contrast(first, second, self.temperature)}
