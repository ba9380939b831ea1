"""ICL, the contrastive term of ICL-SSL.

Yang et al., "Interpolation-based Contrastive Learning for Few-Label Semi-Supervised Learning",
https://arxiv.org/abs/2202.11915. The mix of two embeddings must equal the embedding of the mix.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..losses import interpolate, interpolation_contrast, masked_cross_entropy
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
    first_stage = {"views": "small", "share": 1.0}  # noqa: RUF012
    defaults_for = {  # noqa: RUF012  # see docs/icl.md
        "images": {"weight": 0.03},
        "vectors": {"weight": 0.1, "share": 1.0},
        "features": {"weight": 0.1, "temperature": 0.2, "share": 0.5, "negatives": "other-class", "classes": 3.0},
    }

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the contrastive term (alpha)", least=0)] = 0.5,
        temperature: Annotated[float, Setting("temperature of the contrastive term (T)", above=0)] = 1.0,
        beta: Annotated[
            float, Setting("lambda is drawn from Beta(beta, beta); max(lambda, 1 - lambda) is used", above=0)
        ] = 0.75,
        share: Annotated[
            float, Setting("share of the unlabelled batch that is mixed; the paper: 1", above=0, most=1)
        ] = 0.125,
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
        views: Annotated[
            Literal["weak", "strong", "simclr", "small"],
            Setting("which views are mixed; the authors' reading has its own"),
        ] = "weak",
        classes: Annotated[
            float,
            Setting(
                "weight of a second term in the paper's reading: the prediction for a mix is the mix of two kept "
                "pseudo-labels",
                least=0,
            ),
        ] = 0.0,
    ) -> None:
        super().__init__()
        self.weight, self.temperature, self.beta, self.share = weight, temperature, beta, share
        self.reading, self.negatives, self.views, self.classes = reading, negatives, views, classes

    def inputs(self, step: Step) -> dict[str, Tensor]:
        if self.reading == "paper":
            plain = step.view(self.views)
            return {"weak": plain, "mixed": self.mix(step, plain, plain)}
        second_weak, second_strong = step.view("weak", of="second"), step.view("strong", of="second")
        return {
            "weak": step.weak,
            "strong": step.strong,
            "second weak": second_weak,
            "second strong": second_strong,
            "mixed weak": self.mix(step, step.weak, second_weak),
            "mixed strong": self.mix(step, step.strong, second_strong),
        }

    def mix(self, step: Step, first: Tensor, second: Tensor) -> Tensor:
        """lambda * u_i + (1 - lambda) * u_j of Eq. 3, of images or embeddings; of the first rows, as `share` says.

        In the paper's reading j is another row of the same batch and lambda one for each pair; in the authors' j is the
        same row of a second batch and lambda one for all.
        """
        mix, partner = step.pairs(len(first), self.beta, "icl", shared=self.reading == "authors")
        if self.reading == "paper":
            second = second[partner]
        count = self.count(len(first))
        return interpolate(first[:count], second[:count], mix[:count])

    def count(self, rows: int) -> int:
        """How many rows are mixed: two at least, since the projector has a batch norm."""
        return min(rows, max(2, round(self.share * rows)))

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z = {name: output.embedding for name, output in out.items() if output.embedding is not None}
        if self.reading == "paper":
            batches = ["weak"]  # whose embeddings are anchors and negatives
            mixed_embeddings = self.mix(step, z["weak"], z["weak"])
            embeddings_of_mixed = z["mixed"]
        else:
            batches = ["weak", "second strong"]
            mixed_weak = self.mix(step, z["weak"], z["second weak"])
            mixed_strong = self.mix(step, z["strong"], z["second strong"])
            mixed_embeddings = torch.cat([mixed_weak, mixed_strong])
            embeddings_of_mixed = torch.cat([z["mixed weak"], z["mixed strong"]])
        allowed = None
        if self.negatives == "other-class":
            guess = torch.cat([out[name].logits for name in batches]).argmax(1)
            allowed = guess[:, None] != guess
        rows = len(z["weak"])
        mixed = torch.arange(rows, device=step.labels.device) < self.count(rows)
        anchors = mixed.repeat(len(batches)).nonzero().flatten() if self.share < 1 else None
        embeddings = torch.cat([z[name] for name in batches])
        step.record_embedding(embeddings)
        contrast = interpolation_contrast(
            mixed_embeddings, embeddings_of_mixed, embeddings, self.temperature, allowed, anchors
        )
        terms = {"contrast": self.weight * contrast}  # alpha L_c
        if self.classes and self.reading == "paper" and "pseudo_labels" in step.records:
            terms["classes"] = self.classes * self.mixed_classes(step, out["mixed"].logits)
        return terms

    def mixed_classes(self, step: Step, logits: Tensor) -> Tensor:
        """Cross-entropy of mixes with the mix of their pseudo-labels; pairs without two kept ones count as 0."""
        guess, kept = step.records["pseudo_labels"], step.records["kept"]
        labels = one_hot(guess, logits.shape[1]).to(logits.dtype)
        _, partner = step.pairs(len(guess), self.beta, "icl")
        return masked_cross_entropy(logits, self.mix(step, labels, labels), (kept & kept[partner])[: len(logits)])
