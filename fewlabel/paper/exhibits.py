"""The paper's tables and figures, declared: the runs behind each, at three scales.

`full` is the paper's own setting, for a GPU. `cpu` takes hours on two cores with real data, chosen so that
the order of the methods may show. `smoke` takes a minute and only checks that everything works.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..methods import parts_of
from ..training import Recipe
from .published import LABELS, PUBLISHED

SCALES = ("full", "cpu", "smoke")
CLASSES = {"cifar100": 100}  # other data sets have ten

# What a run on a data set looks like. The paper: 300 epochs of 1,024 steps, batch 64 (CIFAR-100: 16), mu 1, learning
# rate 0.03; its authors' code lays the cosine of the rate out for 2^20 steps.
PAPER: dict[str, Any] = {
    "network": "wrn-28-2",
    "batch": 64,
    "mu": 1,
    "steps": 300 * 1024,
    "horizon": 1 << 20,
    "learning_rate": 0.03,
    "evaluations": 300,
}
RATES = {"mixmatch": 0.002, "mean-teacher": 0.003, "vat": 0.01}  # that the paper gives for its transfer experiments
SMALL: dict[str, Any] = {"network": "cnn", "batch": 32, "mu": 2, "learning_rate": 0.2}
SETTING: dict[str, dict[str, dict[str, Any]]] = {
    "full": {"cifar10": PAPER, "svhn": PAPER, "cifar100": PAPER | {"batch": 16}},
    "cpu": {
        "mnist": SMALL | {"images": 160_000, "evaluations": 10},
        "cifar10": SMALL | {"images": 1_400_000, "evaluations": 20},
        "cifar100": SMALL | {"images": 320_000, "evaluations": 10},
        "svhn": SMALL | {"images": 320_000, "evaluations": 10},
    },
    "smoke": {"digits": {"network": "mlp", "batch": 16, "mu": 1, "steps": 12, "evaluations": 2, "learning_rate": 0.03}},
}


@dataclass(frozen=True)
class Grid:
    """Every method with every number of labels (of all classes together) and every seed, on one data set."""

    data: str
    labels: tuple[int, ...]
    methods: tuple[str, ...]
    seeds: int
    settings: tuple[dict[str, Any], ...] = ({},)  # each method with each of these
    rates: Mapping[str, float] = field(default_factory=dict)  # learning rates of single methods, with or without terms

    def recipes(self, scale: str, root: str | None) -> list[Recipe]:
        return [
            recipe(scale, self.data, labels, method, settings, seed, root, self.rates.get(method.partition("+")[0]))
            for seed in range(self.seeds)
            for labels in self.labels
            for method in self.methods
            for settings in self.settings
        ]


def recipe(
    scale: str,
    data: str,
    labels: int,
    method: str,
    settings: Mapping[str, Any],
    seed: int,
    root: str | None,
    rate: float | None = None,
) -> Recipe:
    setting = SETTING[scale][data] | ({"learning_rate": rate} if rate else {})
    as_published = {"icl.weight": 0.5, "icl.share": 1.0} if "icl" in parts_of(method) else {}
    return Recipe(
        data=data,
        root=root,
        labels_per_class=labels // CLASSES.get(data, 10),
        method=method,
        settings=as_published | dict(settings),
        floor=False,
        seed=seed,
        **setting,
    )


@dataclass(frozen=True)
class Timing:
    """Seconds of training and inference of methods, by steps taken in turn."""

    data: str
    labels: int
    methods: tuple[str, ...]
    steps: int  # that each method takes


@dataclass(frozen=True)
class Augmentations:
    """Small models trained with and without single augmentations, as `fewlabel drift` does."""

    data: str
    labels_per_class: int
    operations: tuple[str, ...]
    seeds: int
    steps: int
    network: str = "mlp"


Work: TypeAlias = tuple[Grid, ...] | Timing | Augmentations


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: its title, how it is drawn, and its runs at each scale."""

    title: str
    drawn: str  # by the function of this name, in show.py (tables) or figures.py
    work: Mapping[str, Work] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()  # methods whose difference is of interest, on the same splits


def grids(name: str, *cpu: Grid, rates: Mapping[str, float] | None = None) -> dict[str, Work]:
    """The paper's own grid as `full`, with learning rates of its own, the given one as `cpu`, a tiny one as `smoke`."""
    published = PUBLISHED[name]
    full = tuple(
        Grid(data, LABELS[name][data], tuple(methods), 5, rates=rates or {}) for data, methods in published.items()
    )
    methods = tuple(dict.fromkeys(method for of_data in published.values() for method in of_data))
    return {"full": full, "cpu": cpu, "smoke": (Grid("digits", (20,), methods, 2),)}


COMPARED = ("mean-teacher", "mixmatch", "fixmatch", "comatch", "icl-ssl")
TRANSFER = ("vat", "vat+icl", "mixmatch", "mixmatch+icl", "mean-teacher", "mean-teacher+icl")
ABLATION = ("icl-ssl", "fixmatch", "fixmatch+aug-contrast")
TIMED = ("mixmatch", "fixmatch", "comatch", "icl-ssl")
ALPHAS = tuple({"icl.weight": weight} for weight in (0.1, 0.25, 0.5, 0.75, 1.0))
AUGMENTATIONS = ("horizontal-flip", "vertical-flip", "rotate", "crop", "shift")

WITH_ICL = tuple((f"{base}+icl", base) for base in ("vat", "mixmatch", "mean-teacher"))
TABLE6 = grids("table6", Grid("mnist", (10, 20, 40), TRANSFER, 3), rates=RATES)
MNIST_MLP = Augmentations("mnist", 5000, AUGMENTATIONS, seeds=5, steps=4000)

EXHIBITS: dict[str, Exhibit] = {
    "table1": Exhibit(
        "MixMatch and Mean-Teacher as labels grow scarce",
        "accuracy_table",
        grids("table1", Grid("mnist", (10, 20, 40, 100), ("mixmatch", "mean-teacher"), 3)),
    ),
    "table3": Exhibit("The data sets", "data_table"),
    "table4": Exhibit(
        "Very few labels",
        "accuracy_table",
        grids(
            "table4",
            Grid("mnist", (10, 20, 40), COMPARED, 3),
            Grid("cifar10", (20, 40), ("fixmatch", "comatch", "icl-ssl"), 2),
        ),
        pairs=(("icl-ssl", "fixmatch"), ("icl-ssl", "comatch"), ("comatch", "fixmatch")),
    ),
    "table5": Exhibit(
        "CIFAR-100 and SVHN",
        "accuracy_table",
        grids(
            "table5",
            Grid("cifar100", (200, 400, 800), ("fixmatch", "icl-ssl"), 2),
            Grid("svhn", (250, 500, 1000), ("fixmatch", "icl-ssl"), 2),
        ),
        pairs=(("icl-ssl", "fixmatch"),),
    ),
    "table6": Exhibit("ICL added to VAT, MixMatch and Mean-Teacher", "accuracy_table", TABLE6, pairs=WITH_ICL),
    "table7": Exhibit(
        "Ablation: without the contrastive loss, and with pairs made by augmentation",
        "accuracy_table",
        grids("table7", Grid("mnist", (10, 20, 40), ABLATION, 3)),
        pairs=(("icl-ssl", "fixmatch"), ("icl-ssl", "fixmatch+aug-contrast")),
    ),
    "table8": Exhibit(
        "Time of training and of inference",
        "time_table",
        {
            "full": Timing("cifar10", 20, TIMED, 200),
            "cpu": Timing("cifar10", 20, TIMED, 40),
            "smoke": Timing("digits", 20, TIMED, 4),
        },
    ),
    "figure1": Exhibit("How a positive pair is made", "pair"),
    "figure2": Exhibit("Digits before and after a vertical flip", "flipped_digits"),
    "figure3": Exhibit(
        "A two-layer perceptron on MNIST under augmentations",
        "augmentations",
        {
            "full": MNIST_MLP,
            "cpu": MNIST_MLP,
            "smoke": Augmentations("digits", 20, AUGMENTATIONS, seeds=2, steps=20),
        },
    ),
    "figure4": Exhibit("The framework of ICL-SSL", "framework"),
    "figure5": Exhibit("Images of the data sets", "samples"),
    "figure6": Exhibit("Accuracy over training, with and without ICL", "curves", TABLE6),
    "figure7": Exhibit("Accuracy against the number of labels, with and without ICL", "against_labels", TABLE6),
    "figure8": Exhibit(
        "Sensitivity to alpha, the weight of the contrastive term",
        "sensitivity",
        {
            "full": (Grid("cifar10", (20,), ("icl-ssl",), 5, ALPHAS),),
            "cpu": (Grid("mnist", (20,), ("icl-ssl",), 3, ALPHAS),),
            "smoke": (Grid("digits", (20,), ("icl-ssl",), 2, ALPHAS),),
        },
    ),
}
