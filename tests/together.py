"""What each of several processes does in the tests of ranks: `torchrun ... tests/together.py OUT`

With one process it is what the others are compared with. All is in double precision: in single precision the kinks of
the network turn differences of the last digit into larger ones.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabel import METHODS, SELF_SUPERVISED, Recipe, load
from fewlabel.data import Dataset, Vectors
from fewlabel.methods import TERMS, parts_of, settings_of
from fewlabel.networks import Classifier, Output
from fewlabel.ranks import all_ranks
from fewlabel.training import Trainer, check_recipe, make_plan

STEPS = 4
AFTER_AN_EPOCH = 40  # 1,297 digits in batches of 39: before it SimMatch's similarity has no say
EAGER = {"threshold": 0.11, "like": 0.05, "ramp": 4, "queue": 1}  # with which all terms count within a few steps
CASES: dict[str, dict[str, Any]] = {name: {"method": name} for name in (*METHODS, "icl-ssl", "fixmatch+aug-contrast")}
CASES |= {f"fixmatch+{name}": {"method": f"fixmatch+{name}"} for name in SELF_SUPERVISED if name not in TERMS}
CASES |= {
    **{f"first {name}": {"method": name, "labels_per_class": None} for name in SELF_SUPERVISED},
    "authors' reading": {"method": "icl-ssl", "settings": {"icl.reading": "authors"}},
    "vectors": {"method": "icl-ssl", "network": "mlp"},
}
IDLE = {  # terms of weight 0
    f"{name}+{term} idle": {"method": f"{name}+{term}", "settings": {f"{term}.weight": 0.0}}
    for name in METHODS
    for term in TERMS
}


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


def vectors() -> Dataset:
    images = load("digits").train
    rows = Vectors(
        images.pixels.flatten(1).float(), images.labels, images.classes, images.names, noise=0.2, dropout=0.1
    )
    return Dataset("rows", rows, None, flip=False)


def main(out: str) -> None:
    torch.set_num_threads(1)
    digits = load("digits")
    with all_ranks() as ranks:
        for name, changes in {**IDLE, **CASES}.items():
            dataset = vectors() if name == "vectors" else digits
            # 13 labelled rows cannot be shared evenly by two processes
            recipe = Recipe(labels_per_class=2, network="wrn-10-1", batch=13, mu=3, steps=100)
            recipe = replace(recipe, **changes)
            recipe = replace(recipe, settings=eager(recipe.method) | recipe.settings)
            training = Trainer(make_plan(check_recipe(recipe, name.startswith("first")), dataset), dataset, ranks=ranks)
            for module in (training.model, training.ema.module):
                module.double()
                module["network"].__class__ = Double  # type: ignore[index]
            first = AFTER_AN_EPOCH if "simmatch" in recipe.method else 0
            taken = [training.step(first + index) for index in range(STEPS)]
            if ranks.first:
                facts = [(step.terms, step.records, step.images) for step in taken]
                torch.save((facts, training.state(STEPS, 0.0)[0]), Path(out) / f"{name}-{ranks.count}.pt")
    threads = [(thread / "comm").read_text() for thread in Path("/proc/self/task").iterdir()]
    assert not [name for name in threads if "gloo" in name]  # else Python may abort when it ends


if __name__ == "__main__":
    main(*sys.argv[1:])
