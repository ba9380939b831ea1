"""FixMatch: Sohn et al., https://arxiv.org/abs/2001.07685"""

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from ..guessing import first_guess
from ..losses import align, cross_entropy, masked_cross_entropy
from ..scratch import room
from ..settings import Setting
from .method import Method, Outputs, Problem
from .step import Step


class FixMatch(Method):
    """A confident prediction on the weak view is the pseudo-label of the strong view."""

    paper = "https://arxiv.org/abs/2001.07685"
    defaults_for = {"vectors": {"align": 0.5}, "features": {"align": 0.5, "guess": 1.0}}  # noqa: RUF012
    mean_prediction: Tensor
    first_guess: Tensor

    def __init__(
        self,
        threshold: Annotated[float, Setting("confidence threshold of pseudo-labels (tau)", least=0, most=1)] = 0.95,
        weight: Annotated[float, Setting("weight of the unlabelled term", least=0)] = 1.0,
        align: Annotated[
            float,
            Setting("strength of distribution alignment: 0 for none, 1 for classes of equal size", least=0, most=1),
        ] = 0.0,
        guess: Annotated[
            float,
            Setting("weight of a first guess from labels, neighbours and clusters; only on rows of numbers", least=0),
        ] = 0.0,
    ) -> None:
        super().__init__()
        self.threshold, self.weight, self.align, self.guess = threshold, weight, align, guess

    def build(self, problem: Problem) -> None:
        self.register_buffer("mean_prediction", torch.full((problem.classes,), 1 / problem.classes))
        if self.guess:
            if problem.rows is None:
                raise UserError("fixmatch.guess works on rows of numbers and on features only: set it to 0.")
            found = first_guess(problem.rows.numpy(), problem.labelled.numpy(), problem.labels.numpy())
            guess = room(found.probabilities.shape, np.float32)
            guess[:] = found.probabilities
            # Not saved: a run that continues makes it again.
            self.register_buffer("first_guess", torch.from_numpy(guess), persistent=False)

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak, "strong": step.strong}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        weak = out["weak"].logits.detach()
        confidence, guess = self.predictions(step, weak).max(1)
        kept = confidence >= self.threshold
        step.record(pseudo_labels=guess, kept=kept, predictions=weak.argmax(1))
        terms = {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),  # L_x
            "unlabelled": self.weight * masked_cross_entropy(out["strong"].logits, guess, kept),  # L_u
        }
        if self.guess:
            first = self.first_guess[step.unlabelled_index]
            terms["guess"] = self.guess * cross_entropy(out["weak"].logits, first)
        return terms

    def predictions(self, step: Step, logits: Tensor) -> Tensor:
        """Class probabilities of the weak view, aligned where asked for."""
        probabilities = logits.softmax(1)
        if not self.align:
            return probabilities
        self.mean_prediction.lerp_(probabilities.mean(0), max(0.01, 1 / (step.index + 1)))
        return align(probabilities, self.mean_prediction**self.align)
