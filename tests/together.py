"""What each of several processes does in the tests of ranks: `torchrun ... tests/together.py OUT METHOD...`

With one process it is what the others are compared with. All is in double precision: in single precision the kinks of
the network turn differences of the last digit into larger ones.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabel import Recipe, load
from fewlabel.methods import parts_of, settings_of
from fewlabel.networks import Classifier, Output
from fewlabel.plan import check_recipe, make_plan
from fewlabel.ranks import all_ranks
from fewlabel.training import Training

STEPS = 4
EAGER = {"threshold": 0.11, "like": 0.05, "ramp": 4}  # settings with which all terms count within a few steps


class Double(Classifier):
    def normalise(self, pixels: Tensor) -> Tensor:
        return (pixels.double() - self.mean) / self.std

    def forward(self, images: Tensor) -> Output:
        features = self.encoder(images)
        embedding = None if self.projector is None else F.normalize(self.projector(features), dim=1)
        return Output(self.head(features), features, embedding)


def eager(method: str) -> dict[str, float]:
    return {
        f"{part}.{setting}": EAGER[setting]
        for part, kind in parts_of(method).items()
        for setting in settings_of(kind)
        if setting in EAGER
    }


def main(out: str, *methods: str) -> None:
    torch.set_num_threads(1)
    dataset = load("digits")
    with all_ranks() as ranks:
        for method in methods:
            recipe = Recipe(
                labels_per_class=2,
                method=method,
                network="wrn-10-1",
                batch=13,  # which two processes cannot share evenly
                mu=3,
                steps=100,
                settings=eager(method),
            )
            training = Training(make_plan(check_recipe(recipe), dataset), dataset, ranks=ranks)
            for module in (training.model, training.ema.module):
                module.double()
                module["network"].__class__ = Double  # type: ignore[index]
            taken = [training.advance(index) for index in range(STEPS)]
            if ranks.first:
                facts = [(step.terms, step.records, step.images) for step in taken]
                torch.save((facts, training.tensors()), Path(out) / f"{method}-{ranks.count}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
