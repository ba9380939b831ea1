"""MoCo: He et al., https://arxiv.org/abs/1911.05722; projector and views of version 2, https://arxiv.org/abs/2003.04297"""

import copy
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from ..losses import queue_contrast
from ..settings import Setting
from .memory import Recent
from .method import Outputs, Problem, TwoViews, ViewName
from .projector import make_projector
from .step import Step

EMBEDDING = 64
MOMENTUM = 0.999


class MoCo(TwoViews):
    """A view must find the other view of its image among a queue of earlier ones, as the averaged network sees them.

    The encoder of the keys is the averaged network (`--ema`); their projector is averaged with a decay of 0.999, after
    the same warm-up. Batch norm: queries and keys are in passes of their own; the authors also shuffle the keys, so
    that no statistics of a small batch tell which belong together.
    """

    paper = "https://arxiv.org/abs/1911.05722"
    apart = {"first": "queries"}  # noqa: RUF012
    first_stage = {"views": "small"}  # noqa: RUF012

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the contrastive term", least=0)] = 1.0,
        temperature: Annotated[float, Setting("temperature of similarities between embeddings", above=0)] = 0.2,
        queue: Annotated[int, Setting("length of the queue, at most a quarter of the images", least=1)] = 4096,
        views: ViewName = "simclr",
    ) -> None:
        super().__init__()
        self.weight, self.temperature, self.queue, self.views = weight, temperature, queue, views

    def build(self, problem: Problem) -> None:
        self.projector = make_projector(problem.features, problem.features, EMBEDDING)
        self.key_projector = copy.deepcopy(self.projector).requires_grad_(False)
        length = max(1, min(self.queue, problem.images // 4))  # else it would hold the image itself
        self.keys = Recent(length, EMBEDDING)
        self.keys.push(F.normalize(torch.randn(length, EMBEDDING), dim=1))  # at first random ones

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"first": step.view(self.views)}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        queries = F.normalize(self.projector(out["first"].features), dim=1)
        keys = self.make_keys(step)
        contrast = queue_contrast(queries, keys, self.keys.rows.clone(), self.temperature)
        self.keys.push(keys)
        step.record_embedding(queries)
        return {"moco": self.weight * contrast}

    @torch.no_grad()
    def make_keys(self, step: Step) -> Tensor:
        """Embeddings of the other view; the projector follows as the averaged network does."""
        if step.index:
            decay = min(MOMENTUM, step.index / (9 + step.index))
            torch._foreach_lerp_(list(self.key_projector.parameters()), list(self.projector.parameters()), 1 - decay)
        features = step.teacher(step.view(self.views, 1)).features
        return F.normalize(self.key_projector(features), dim=1)
