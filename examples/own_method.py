"""A method of your own: entropy minimisation, which also makes the network sure of itself on unlabelled images."""

import tempfile
from typing import Annotated

from torch import Tensor

from fewlabel import METHODS, Recipe, Setting, train
from fewlabel.losses import cross_entropy
from fewlabel.methods import Method, Outputs, Step


class Entropy(Method):
    """Labels, and little entropy of the guesses for weak views."""

    def __init__(self, weight: Annotated[float, Setting("weight of the entropy", least=0)] = 0.1) -> None:
        super().__init__()
        self.weight = weight

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"labelled": step.labelled, "weak": step.weak}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        log_chances = out["weak"].logits.log_softmax(1)
        return {
            "labelled": cross_entropy(out["labelled"].logits, step.labels),
            "entropy": -self.weight * (log_chances.exp() * log_chances).sum(1).mean(),
        }


METHODS["entropy"] = Entropy
with tempfile.TemporaryDirectory() as out:
    run = train(Recipe("digits", labels_per_class=2, method="entropy+icl", steps=60, out=out))
    print(f"{run.accuracy:.1%}; on the labels alone {run.floor:.1%}")
