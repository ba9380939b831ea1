"""ICL, the contrastive term of ICL-SSL.

Yang et al., "Interpolation-based Contrastive Learning for Few-Label Semi-Supervised Learning",
https://arxiv.org/abs/2202.11915. The mix of two embeddings must equal the embedding of the mix.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor

from ..losses import interpolate, interpolation_contrast
from ..settings import Setting
from .method import Outputs, Term
from .step import Step


class ICL(Term):
    """Contrastive pairs by interpolation: the mix of two embeddings and the embedding of the mix."""

    paper = "https://arxiv.org/abs/2202.11915"
    uses_embedding = True
    apart = {  # noqa: RUF012  # as in the authors' code: each group in a pass of its own
        "weak": "plain",
        "strong": "plain",
        "second weak": "second",
        "second strong": "second",
        "mixed": "mixed",
        "mixed weak": "mixed",
        "mixed strong": "mixed",
    }
    defaults_for = {"vectors": {"weight": 0.1}}  # noqa: RUF012

    def __init__(
        self,
        weight: Annotated[float, Setting("of the contrastive term (alpha)", least=0)] = 0.5,
        temperature: Annotated[float, Setting("of the contrastive term (T)", above=0)] = 1.0,
        beta: Annotated[
            float, Setting("lambda is drawn from Beta(beta, beta); max(lambda, 1 - lambda) is used", above=0)
        ] = 0.75,
        reading: Annotated[
            Literal["paper", "authors"],
            Setting(
                "paper: pairs within the batch, weak views, a lambda each; "
                "authors: as in their code, weak and strong views of a second batch, one lambda a step"
            ),
        ] = "paper",
        negatives: Annotated[
            Literal["all", "other-class"],
            Setting("all: all other images of the batch; other-class: those with another pseudo-label"),
        ] = "all",
    ) -> None:
        super().__init__()
        self.weight, self.temperature, self.beta = weight, temperature, beta
        self.reading, self.negatives = reading, negatives

    def inputs(self, step: Step) -> dict[str, Tensor]:
        mix, partner = self.draw(step)
        if self.reading == "paper":
            return {"weak": step.weak, "mixed": interpolate(step.weak, step.weak[partner], mix)}
        second_weak, second_strong = step.view("weak", of="second"), step.view("strong", of="second")
        return {
            "weak": step.weak,
            "strong": step.strong,
            "second weak": second_weak,
            "second strong": second_strong,
            "mixed weak": interpolate(step.weak, second_weak, mix),
            "mixed strong": interpolate(step.strong, second_strong, mix),
        }

    def draw(self, step: Step) -> tuple[Tensor, Tensor]:
        """lambda of Eq. 3 (one for each pair, or one for all) and each image's partner."""
        return step.pairs(len(step.weak), self.beta, "icl", shared=self.reading == "authors")

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z = {name: output.embedding for name, output in out.items() if output.embedding is not None}
        mix, partner = self.draw(step)
        if self.reading == "paper":
            anchors = ["weak"]
            mixed_embeddings = interpolate(z["weak"], z["weak"][partner], mix)
            embeddings_of_mixed = z["mixed"]
        else:
            anchors = ["weak", "second strong"]
            mixed_weak = interpolate(z["weak"], z["second weak"], mix)
            mixed_strong = interpolate(z["strong"], z["second strong"], mix)
            mixed_embeddings = torch.cat([mixed_weak, mixed_strong])
            embeddings_of_mixed = torch.cat([z["mixed weak"], z["mixed strong"]])
        allowed = None
        if self.negatives == "other-class":
            guess = torch.cat([out[name].logits for name in anchors]).argmax(1)
            allowed = guess[:, None] != guess
        contrast = interpolation_contrast(
            mixed_embeddings, embeddings_of_mixed, torch.cat([z[name] for name in anchors]), self.temperature, allowed
        )
        return {"contrast": self.weight * contrast}  # alpha L_c
