"""The ablation of ICL-SSL: its contrastive loss on pairs made by augmentation instead of interpolation.

Yang et al., https://arxiv.org/abs/2202.11915
"""

from typing import Annotated

from torch import Tensor

from ..losses import interpolation_contrast
from .method import Outputs, Step, Term


class AugContrast(Term):
    """Positive pairs by augmentation: the embeddings of the weak and of the strong view."""

    paper = "https://arxiv.org/abs/2202.11915"
    uses_embedding = True

    def __init__(
        self,
        weight: Annotated[float, "of the contrastive term (alpha)"] = 0.5,
        temperature: Annotated[float, "of the contrastive term (T)"] = 1.0,
    ) -> None:
        super().__init__()
        self.weight, self.temperature = weight, temperature

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        weak, strong = out["weak"].embedding, out["strong"].embedding
        assert weak is not None and strong is not None
        return {"aug-contrast": self.weight * interpolation_contrast(weak, strong, weak, self.temperature)}
