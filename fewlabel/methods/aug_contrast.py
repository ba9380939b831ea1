"""The ablation of ICL-SSL: its contrastive loss on pairs made by augmentation instead of interpolation.

Yang et al., https://arxiv.org/abs/2202.11915
"""

from typing import Annotated

from torch import Tensor

from ..losses import interpolation_contrast
from ..settings import Setting
from .method import Outputs, Term
from .step import Step


class AugContrast(Term):
    """Contrastive pairs by augmentation: the embeddings of the weak and of the strong view."""

    paper = "https://arxiv.org/abs/2202.11915"
    uses_embedding = True
    apart = {"weak": "pair", "strong": "pair"}  # noqa: RUF012

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the contrastive term (alpha)", least=0)] = 0.5,
        temperature: Annotated[float, Setting("temperature of the contrastive term (T)", above=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.weight, self.temperature = weight, temperature

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        weak, strong = out["weak"].embedding, out["strong"].embedding
        assert weak is not None and strong is not None
        return {"aug-contrast": self.weight * interpolation_contrast(weak, strong, weak, self.temperature)}
