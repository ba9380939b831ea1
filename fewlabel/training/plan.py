"""Plan: a recipe with all defaults resolved."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ..data import UNLABELLED, Dataset, Examples, FeatureKind, few_label_split
from ..encoders import NONE
from ..errors import UserError
from ..methods import SELF_SUPERVISED, check_kind, full_settings
from ..networks import TUNED, make_encoder
from ..run_files import FIRST_STAGE
from .recipe import FLIP, Recipe, own_settings

STEPS, EVALUATIONS = 2000, 20
FEWER_STEPS = 500  # where a run starts from the weights of another
# Which reached an accuracy on MNIST soonest in short runs; the paper's 0.03 is for 300,000 steps.
RATE_OF_CNN, RATE = 0.2, 0.06
FIRST_RATE = 0.3  # of a first stage: better than 0.1 and 0.6 in short runs of cnn
FIRST_IMAGES, FIRST_EPOCHS = 1_200_000, 400  # its length in images, and the maximum per image
NO_LABELS: Tensor = torch.empty(0, dtype=torch.int64)
# How fields that JSON does not know are written and read.
WRITE: dict[str, Callable[[Any], Any]] = {
    "without": sorted,
    "device": lambda device: device.type,
    "precision": lambda precision: str(precision).removeprefix("torch."),
    "first": lambda plan: plan and plan.to_dict(),
}
READ: dict[str, Callable[[Any], Any]] = {
    "without": frozenset,
    "device": torch.device,
    "precision": lambda name: getattr(torch, name),
    "first": lambda saved: saved and Plan.from_dict(saved, NO_LABELS),
}


@dataclass(frozen=True)
class Plan:
    """A recipe with all defaults resolved."""

    recipe: Recipe  # with every setting of its method
    labelled: Tensor  # positions of the labelled examples
    steps: int
    evaluations: int
    network: str
    encoder: str  # by its name, or none
    without: frozenset[str]  # augmentations that no view uses
    learning_rate: float
    device: torch.device
    precision: torch.dtype
    first: "Plan | None" = None  # of the first stage

    @property
    def is_first_stage(self) -> bool:
        """Whether it trains without labels."""
        return self.recipe.method in SELF_SUPERVISED

    @property
    def precedes(self) -> bool:
        """Is it the first of several stages? Then its options begin with --pretrain."""
        return self.is_first_stage and self.recipe.pretrain is not None

    @property
    def rate_flag(self) -> str:
        """The option that sets the learning rate of this stage."""
        return "--pretrain-rate" if self.precedes else "--learning-rate"

    def to_dict(self) -> dict[str, Any]:
        """For recipe.json. The labelled examples are in labels.csv, by their names."""
        return {"recipe": self.recipe.to_dict()} | {
            name: WRITE.get(name, same)(getattr(self, name)) for name in decided_fields()
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any], labelled: Tensor) -> "Plan":
        saved = {"first": None} | saved  # before there were first stages
        decided = {name: READ.get(name, same)(saved[name]) for name in decided_fields()}
        return cls(Recipe(**saved["recipe"]), labelled, **decided)

    def as_recipe(self) -> Recipe:
        """The recipe with every decision written into it, so that another machine decides nothing else."""
        disabled = ",".join(sorted(self.without - {FLIP}))
        decided = self.to_dict()
        del decided["recipe"], decided["first"]
        decided |= {"flip": FLIP not in self.without, "without": disabled, "minutes": None, "images": None}
        if self.encoder != NONE:  # it decides the network and, where it is frozen, there are no views of pictures
            decided |= {"network": None} | ({} if self.recipe.tune else {"flip": None})
        if self.first:
            decided |= self.decided_first(self.first)
        return replace(self.recipe, **decided)

    def decided_first(self, first: "Plan") -> dict[str, Any]:
        """The first stage's part of `as_recipe`: its length, rate and settings, and the network of both stages."""
        own = first.as_recipe()
        return {
            "encoder": None,
            "pretrain_images": None,
            "pretrain_steps": first.steps,
            "pretrain_rate": first.learning_rate,
            "pretrain_precision": own.precision,
            "settings": self.recipe.settings | {f"{FIRST_STAGE}.{name}": own.settings[name] for name in own.settings},
            **{name: getattr(own, name) for name in ("network", "flip", "without")},
        }


def decided_fields() -> list[str]:
    return [field.name for field in fields(Plan) if field.name not in ("recipe", "labelled")]


def same(value: Any) -> Any:
    return value


def make_plan(recipe: Recipe, dataset: Dataset, encoder: str | None = None) -> Plan:
    """Resolve the defaults of a recipe, and refuse invalid combinations.

    A frozen encoder has made the examples into features already; one that is tuned is named here. A first stage
    has a plan of its own within; unless it is tuned, its network will make the features that the main stage trains on.
    """
    if recipe.pretrain is None:
        return plan_of_stage(recipe, dataset, encoder)
    first = plan_of_stage(recipe.first_stage, dataset)
    own = replace(recipe, settings=own_settings(recipe.method, recipe.settings))
    if recipe.tune:
        return replace(plan_of_stage(own, dataset), first=first)
    on_features = replace(own, network=None, flip=None, without="")
    main = plan_of_stage(on_features, promised_features(dataset, first), FIRST_STAGE)
    return replace(main, recipe=replace(own, settings=main.recipe.settings), first=first)


def promised_features(dataset: Dataset, first: Plan) -> Dataset:
    """The data set as the network of a first stage will encode it; until then all features are 0."""
    with torch.device("meta"):
        _, columns = make_encoder(first.network, dataset.train.kind.shape)

    def promised(examples: Examples) -> Examples:
        kind = FeatureKind(columns, encoder=FIRST_STAGE)
        features = torch.zeros(1, columns).expand(len(examples), columns)
        return Examples(features, examples.labels, examples.classes, examples.names, kind, original=examples)

    return replace(dataset, train=promised(dataset.train), test=dataset.test and promised(dataset.test))


def plan_of_stage(recipe: Recipe, dataset: Dataset, encoder: str | None = None) -> Plan:
    """Resolve the defaults of the recipe of one stage."""
    if dataset.test is not None and not dataset.test.known:
        raise UserError(f"the test examples of {dataset.name} have no labels: accuracy cannot be measured on them.")
    kind, test = dataset.train.kind, dataset.test
    if test is not None and test.classes != dataset.train.classes:
        raise UserError(f"the test examples of {dataset.name} have other classes than the training examples.")
    if test is not None and not kind.accepts(test.kind):
        raise UserError(f"{dataset.name} trains on {kind.describe()} but tests on {test.kind.describe()}.")
    if not kind.image_views and (recipe.flip or recipe.disabled):
        raise UserError(f"--flip and --without are for images; {dataset.name} holds {kind.describe()}.")
    first_stage = recipe.method in SELF_SUPERVISED
    if first_stage and not kind.image_views:
        raise UserError(f"a first stage is for images; {dataset.name} holds {kind.describe()}.")
    if first_stage and len(dataset.train) < 2:
        raise UserError(f"a first stage needs two images at least; {dataset.name} holds {len(dataset.train)}.")
    check_kind(recipe.method, kind.family)
    device = choose_device(recipe.device)
    tuned = recipe.tune and recipe.pretrain is None
    pretrained = first_stage or recipe.pretrain is not None
    network = TUNED if tuned else recipe.network or kind.default_network(device, pretrained)
    if not tuned:
        with torch.device("meta"):  # does it exist? without spending memory on it
            make_encoder(network, kind.shape)
    flip = dataset.flip if recipe.flip is None else recipe.flip
    settings = full_settings(recipe.method, recipe.settings, kind.family)
    if network == "mlp" and kind.image_views:  # which takes images of one size only
        if "small" in recipe.settings.values():
            raise UserError("the network mlp takes images of one size: choose simclr views, or another --network.")
        settings = {name: "simclr" if value == "small" else value for name, value in settings.items()}
    return Plan(
        recipe=replace(recipe, settings=settings),
        labelled=NO_LABELS if first_stage else choose_labelled(recipe, dataset),
        steps=recipe.steps or (FEWER_STEPS if recipe.start_from else STEPS),
        evaluations=recipe.evaluations or default_evaluations(recipe, dataset),
        network=network,
        encoder=encoder or kind.encoder,
        without=frozenset(recipe.disabled) | frozenset(() if flip else (FLIP,)),
        learning_rate=recipe.learning_rate or (FIRST_RATE if first_stage else default_rate(network)),
        device=device,
        precision=getattr(torch, recipe.precision or default_precision(device, first_stage)),
    )


def default_precision(device: torch.device, first_stage: bool) -> str:
    """bfloat16 on a GPU and, for a first stage, on a CPU that computes with it: there it is up to twice as fast."""
    able = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    fast = device.type == "cuda" or (device.type == "cpu" and first_stage and able())
    return "bfloat16" if fast else "float32"


def default_rate(network: str) -> float:
    return RATE_OF_CNN if network.split("-")[0] == "cnn" else RATE


def choose_labelled(recipe: Recipe, dataset: Dataset) -> Tensor:
    """Positions of the examples whose label may be used: all labelled ones, or a number per class."""
    train, per_class = dataset.train, recipe.labels_per_class
    if not train.known and recipe.labels:
        files = " and ".join([recipe.labels] if isinstance(recipe.labels, str) else recipe.labels)
        raise UserError(f"no row of {files} has a class yet: fill in the column label, or confirm predictions.")
    if not train.known:
        raise UserError(f"{dataset.name} has no labelled {train.kind.noun}: give some {train.kind.label_places}.")
    if len(train.classes) < 2:
        raise UserError(
            f"all labels of {dataset.name} are '{train.classes[0]}': a classifier needs at least two classes."
        )
    for name, count in zip(train.classes, train.class_counts, strict=True):
        if count == 0:
            raise UserError(
                f"class '{name}' of {dataset.name} has no labelled {train.kind.noun}: label one, or remove the class."
            )
        if per_class is not None and count < per_class:
            raise UserError(
                f"class '{name}' of {dataset.name} has {count} labelled {train.kind.noun}, "
                f"fewer than --labels-per-class {per_class}."
            )
    if per_class is None:
        return (train.labels != UNLABELLED).nonzero().flatten()
    return torch.from_numpy(few_label_split(train.labels, per_class, recipe.seed))


def choose_device(name: str | None) -> torch.device:
    """The device of that name, or the best available."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device '{name}' cannot be used here: choose cpu, or leave --device out.") from error
    return device


def default_evaluations(recipe: Recipe, dataset: Dataset) -> int:
    """20, or so few that evaluating takes about a sixth of the time at most."""
    if dataset.test is None or recipe.method in SELF_SUPERVISED:
        return EVALUATIONS
    seen = (recipe.steps or STEPS) * recipe.batch * (1 + 2 * recipe.mu)
    return max(1, min(EVALUATIONS, seen // (4 * len(dataset.test))))
