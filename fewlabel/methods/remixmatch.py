"""ReMixMatch: Berthelot et al., https://arxiv.org/abs/1911.09785"""

from typing import Annotated

import torch
from torch import Tensor, nn

from ..losses import cross_entropy, sharpen
from ..settings import Setting
from .memory import Alignment
from .method import Method, Outputs, Problem
from .step import Step

TURNS = 4  # by 0, 90, 180 and 270 degrees


class ReMixMatch(Method):
    """MixMatch with aligned pseudo-labels of the weak view as targets of strong views, and a rotation head.

    Batch norm: a pass each over the mixes, the strong views and the rotated ones, as in the authors' code, which also
    interleaves the mixes.
    """

    paper = "https://arxiv.org/abs/1911.09785"
    kinds = ("images",)  # which it rotates
    apart = {"strong": "strong", "turned": "turned"}  # noqa: RUF012
    prior: Tensor

    def __init__(
        self,
        weight: Annotated[float, Setting("weight of the mixed unlabelled term, after the ramp", least=0)] = 1.5,
        unmixed: Annotated[float, Setting("weight of the strong view before mixing, after the ramp", least=0)] = 0.5,
        rotation: Annotated[float, Setting("weight of the rotation loss", least=0)] = 0.5,
        temperature: Annotated[float, Setting("sharpening temperature of pseudo-labels (T)", above=0)] = 0.5,
        beta: Annotated[float, Setting("mixing weights are drawn from Beta(beta, beta)", above=0)] = 0.75,
        ramp: Annotated[int, Setting("steps over which the weights of unlabelled terms grow from 0", least=0)] = 1000,
    ) -> None:
        super().__init__()
        self.weight, self.unmixed, self.rotation = weight, unmixed, rotation
        self.temperature, self.beta, self.ramp = temperature, beta, ramp

    def build(self, problem: Problem) -> None:
        self.turn_head = nn.Linear(problem.features, TURNS)
        self.align = Alignment(problem.classes, batches=128, earlier=True)
        self.register_buffer("prior", problem.labels.bincount(minlength=problem.classes) / len(problem.labels))

    def inputs(self, step: Step) -> dict[str, Tensor]:
        labelled = step.view("strong", of="labelled")
        everything = torch.cat([labelled, step.strong, step.view("strong", 1), step.weak])
        return {
            "mixed": step.mix(everything, self.beta, "remixmatch"),
            "strong": step.strong,
            "turned": turned(step.strong),
        }

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        logits = out["mixed"].logits
        weak = self.look_at_weak(step)
        guess = sharpen(self.align(weak, self.prior), self.temperature)  # aligned to the labelled classes, sharpened
        step.record(pseudo_labels=guess.argmax(1), predictions=weak.argmax(1))
        targets = step.mix(torch.cat([step.one_hot(logits), guess, guess, guess]), self.beta, "remixmatch")
        labelled, given = len(step.labels), step.ramp(self.ramp)
        turns = self.turn_head(out["turned"].features)
        return {
            "labelled": cross_entropy(logits[:labelled], targets[:labelled]),
            "unlabelled": self.weight * given * cross_entropy(logits[labelled:], targets[labelled:]),
            "unmixed": self.unmixed * given * cross_entropy(out["strong"].logits, guess),
            "rotation": self.rotation * cross_entropy(turns, turn_of(turns)),
        }

    @torch.no_grad()
    def look_at_weak(self, step: Step) -> Tensor:
        """Probabilities of the weak view, which the guesses are made of."""
        return step.forward(step.weak).logits.softmax(1)


def turn_of(rows: Tensor) -> Tensor:
    """How many quarters each row is turned: 0, 1, 2, 3, 0, 1, ... Batches are in random order, so this is random."""
    return torch.arange(len(rows), device=rows.device) % TURNS


def turned(images: Tensor) -> Tensor:
    """Every image turned by its number of quarters."""
    result = torch.empty_like(images)
    for quarters in range(TURNS):
        result[quarters::TURNS] = images[quarters::TURNS].rot90(quarters, (2, 3))
    return result
