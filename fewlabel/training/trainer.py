"""Trainer: the state of one training, and one step of it."""

import copy
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..data import UNLABELLED, Dataset, Examples
from ..data.batches import Batches
from ..encoders import PixelEncoder, find_encoder
from ..errors import UserError
from ..evaluate import accuracy, features_by, neighbour_accuracy, predict_probabilities
from ..methods import Method, Problem, Step, make_method
from ..networks import TUNED, Classifier, make_classifier, set_norm_momentum, share_norms, with_precise_norms
from ..randomness import seeded
from ..ranks import ALONE, Ranks
from .ema import EMA
from .meter import Meter, finite_line
from .passes import ForwardPasses
from .plan import Plan
from .views import BatchViews

NEIGHBOURS = 2000  # examples that are compared with each other, at most
Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and facts that JSON can hold


class StepResult(NamedTuple):
    """The result of one step."""

    terms: dict[str, Tensor]  # of the loss
    records: dict[str, Tensor]  # what the method reported about its pseudo-labels
    truth: Tensor  # the hidden labels of the unlabelled batch, -1 where there is none
    images: int  # that went through the network
    passes: int


class Trainer:
    """A network, a method, their averages and an optimiser: `step` takes one step."""

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        *,
        encoder: nn.Module | None = None,
        start: dict[str, Tensor] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        """Optionally with a user's own `encoder` to be tuned, or weights to `start` from."""
        self.plan, self.train, self.ranks = plan, dataset.train, ranks
        tested = dataset.test is not None and not plan.is_first_stage  # whose network does not classify
        self.test = dataset.train.fitting(dataset.test) if tested and dataset.test is not None else None
        self.hidden_labels = hidden_labels(dataset.train, plan)  # for the report, never to learn from
        method = make_method(plan.recipe.method, **plan.recipe.settings)
        self.batches = Batches(
            dataset.train.labels,
            plan.labelled,
            batch_of(plan, dataset),
            plan.recipe.mu,
            plan.recipe.seed,
            labelled_among_unlabelled=method.labelled_among_unlabelled,
        )
        network = make_network(plan, dataset, method, encoder)
        network.head.requires_grad_(not plan.is_first_stage)  # which has nothing to learn without classes
        build_method(method, plan, dataset, network)
        if ranks.count > 1 and plan.recipe.share_norms:
            share_norms(network, ranks)
        if start is not None:
            load_start(network, start)
        # The method is part of the same module as the network, so its weights are optimised, averaged and saved too.
        self.model = nn.ModuleDict({"network": network, "method": method}).to(plan.device)
        self.network: Classifier = network
        self.method: Method = method
        self.ema = EMA(self.model, plan.recipe.ema)
        self.teacher: Classifier = self.ema.module["network"]  # type: ignore[index]
        self.optimiser = make_optimiser(self.model, plan)
        self.scaler = torch.amp.GradScaler(plan.device.type, enabled=plan.precision == torch.float16)
        self.meter = Meter(len(dataset.train.classes), plan.device)
        self.done, self.seconds = 0, 0.0  # steps before this session, and how long they took
        self._averaged: Classifier | None = None
        self._predicted: Tensor | None = None

    def step(self, index: int) -> StepResult:
        """Views, forward, the method's loss, backward, one update; all processes take it together."""
        with self.ranks.working():
            return self._step(index)

    def _step(self, index: int) -> StepResult:
        plan, self._averaged, self._predicted = self.plan, None, None
        self.model.train()
        set_norm_momentum(self.model, index, plan.steps)
        progress = min(1.0, index / (plan.recipe.horizon or plan.steps))
        for group in self.optimiser.param_groups:
            decay = 1.0 if group["steady"] else math.cos(7 * math.pi * progress / 16)
            group["lr"] = group["scale"] * plan.learning_rate * decay
        passes = ForwardPasses(self.network, self.teacher, plan.precision, self.ranks, plan.recipe.share_norms)
        views = BatchViews(index, plan, self.train, self.batches, self.network, self.ranks)
        step = Step(index, plan.steps, plan.recipe.seed, views, passes)
        outputs = passes.forward_all(self.method.inputs(step), self.method.apart)
        terms = self.method.loss(step, outputs)  # outside of autocast, in float32
        loss = torch.stack(list(terms.values())).sum()
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()
        self.ranks.average_gradients(self.model.parameters())
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.ema.update(index)
        truth = self.hidden_labels[step.unlabelled_index]
        self.meter.add(terms, step.records, truth)
        return StepResult(terms, step.records, truth, passes.images, passes.passes)

    # ---- evaluation

    def evaluate(self, last: bool = False) -> dict[str, Any]:
        """Accuracy on the test examples of the averaged weights and, the last time, of the raw ones beside it.

        Of a first stage: how often the most similar training example is of the same class, where classes are known.
        """
        if self.plan.is_first_stage:
            return {"evaluated": True} | self.neighbours()
        if self.test is None:
            return {"evaluated": True}
        predicted = self.test_predictions()
        assert predicted is not None
        found = {"accuracy": accuracy(predicted, self.test.labels)}
        if last:
            network = with_precise_norms(self.network, self.train.inputs)
            raw = predict_probabilities(network, self.test.inputs).argmax(1)
            found["raw_accuracy"] = accuracy(raw, self.test.labels)
        return found

    def neighbours(self) -> dict[str, float]:
        """Nearest-neighbour accuracy, for the report only: these labels are not used for training."""
        labels = self.train.labels
        counts = labels[labels != UNLABELLED].bincount(minlength=len(self.train.classes))
        known = ((labels != UNLABELLED) & (counts[labels] > 1)).nonzero().flatten() if len(counts) else labels[:0]
        if len(known) < 2:
            return {}
        some = known[:: -(-len(known) // NEIGHBOURS)]
        features = features_by(self.averaged(), self.train.inputs, some)
        return {"neighbour_accuracy": neighbour_accuracy(features, self.train.labels[some])}

    def averaged(self) -> Classifier:
        """The averaged network for predictions; kept until the next step."""
        if self._averaged is None:
            self._averaged = with_precise_norms(self.teacher, self.train.inputs)
        return self._averaged

    def test_predictions(self) -> Tensor | None:
        """The classes that it predicts for the test examples; kept until the next step, so that they pass once."""
        if self._predicted is None and self.test is not None:
            self._predicted = predict_probabilities(self.averaged(), self.test.inputs).argmax(1)
        return self._predicted

    def check_finite(self, step: int, line: dict[str, Any] | None = None) -> None:
        """Raise an error if weights or losses have become NaN or infinite."""
        finite = all(bool(p.isfinite().all()) for p in self.model.parameters()) and self.meter.finite()
        if not finite or not (line is None or finite_line(line)):
            raise UserError(
                f"training diverged: the loss became NaN or infinite by step {step}; use a lower {self.plan.rate_flag} "
                f"(now {self.plan.learning_rate:g})."
            )

    # ---- checkpoints

    def state(self, done: int, seconds: float) -> Checkpoint:
        """Everything a resumed training needs, under flat names."""
        momentum = {
            str(i): self.optimiser.state[p]["momentum_buffer"]
            for i, p in enumerate(self.model.parameters())
            if self.optimiser.state[p].get("momentum_buffer") is not None
        }
        parts = {
            "model": self.model.state_dict(),
            "ema": self.ema.module.state_dict(),
            "momentum": momentum,
            "meter": self.meter.sums,
        }
        tensors = {f"{part}/{name}": tensor for part, content in parts.items() for name, tensor in content.items()}
        facts = {"step": done, "seconds": seconds, "scaler": self.scaler.state_dict(), "meter": list(self.meter.sums)}
        return tensors, facts

    def load_state(self, checkpoint: Checkpoint) -> None:
        """Continue from there."""
        tensors, facts = checkpoint
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "ema": {}, "momentum": {}, "meter": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = tensor
        self.model.load_state_dict(parts["model"])
        self.ema.module.load_state_dict(parts["ema"])
        parameters = list(self.model.parameters())
        for i, buffer in parts["momentum"].items():
            parameter = parameters[int(i)]
            self.optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(buffer)
        # In the order in which they were first added, on which the last bit of their sum depends.
        self.meter.sums = {name: parts["meter"][name].to(self.plan.device) for name in facts["meter"]}
        if facts["scaler"]:
            self.scaler.load_state_dict(facts["scaler"])
        self.done, self.seconds = facts["step"], facts["seconds"]


# ---- the parts of a trainer


def make_network(plan: Plan, dataset: Dataset, method: Method, encoder: nn.Module | None) -> Classifier:
    kind = dataset.train.kind
    if plan.network == TUNED and encoder is None:
        encoder = copy.deepcopy(PixelEncoder(find_encoder(plan.encoder))).requires_grad_(True)
    mean, std = kind.statistics(dataset.train.inputs)
    return make_classifier(
        plan.network,
        kind.shape,
        heads_of(plan, dataset),
        projector=method.uses_embedding,
        seed=plan.recipe.seed,
        mean=mean,
        std=std,
        encoder=encoder,
    )


def hidden_labels(examples: Examples, plan: Plan) -> Tensor:
    """Known labels that are not trained on, -1 elsewhere."""
    if examples.known == len(plan.labelled):  # none: a single number for all examples
        return torch.full((1,), UNLABELLED, device=plan.device).expand(len(examples))
    labels = examples.labels.to(plan.device, copy=True)
    labels[plan.labelled] = UNLABELLED
    return labels


def batch_of(plan: Plan, dataset: Dataset) -> int:
    """Examples a step; no example is twice in a batch of a first stage, where it would be a negative of itself."""
    return min(plan.recipe.batch, len(dataset.train)) if plan.is_first_stage else plan.recipe.batch


def heads_of(plan: Plan, dataset: Dataset) -> int:
    """Rows of the head: one for each class; a first stage knows no classes, and its single row is not trained."""
    return 1 if plan.is_first_stage else len(dataset.train.classes)


def build_method(method: Method, plan: Plan, dataset: Dataset, network: Classifier) -> None:
    with seeded(plan.recipe.seed, "method"):
        method.build(
            Problem(
                classes=heads_of(plan, dataset),
                features=network.features,
                labelled=plan.labelled,
                labels=dataset.train.labels[plan.labelled],
                images=len(dataset.train),
                batch=batch_of(plan, dataset),
                mu=plan.recipe.mu,
                steps=plan.steps,
                rows=dataset.train.kind.rows(dataset.train.inputs),
            )
        )


def load_start(network: Classifier, start: dict[str, Tensor]) -> None:
    """Take over the encoder and what else is there: first stages have no head, and not every method a projector."""
    own = network.state_dict()
    parts = ("encoder.", "head.") if "head.weight" in start else "encoder."
    needed = {name for name in own | start if name.startswith(parts)}
    if any(name not in own or name not in start or own[name].shape != start[name].shape for name in needed):
        raise UserError("the weights to start from are of another network, other classes or another kind of data.")
    network.load_state_dict({k: v for k, v in start.items() if k in own and v.shape == own[k].shape}, strict=False)


def make_optimiser(model: nn.Module, plan: Plan) -> torch.optim.SGD:
    """SGD with Nesterov momentum; no weight decay on biases and norms, which are the one-dimensional parameters.

    A tuned encoder has a learning rate of its own, and some parts of methods have one that does not decay.
    """
    tuned = "network.encoder." if plan.network == TUNED else ()
    steady = tuple(f"method.{part}." for part in model["method"].steady)  # type: ignore[index]
    kinds: dict[tuple[bool, bool], list[nn.Parameter]] = {(False, False): []}
    for name, parameter in model.named_parameters():
        kinds.setdefault((name.startswith(tuned), name.startswith(steady)), []).append(parameter)
    groups = []
    for (slow, constant), own in kinds.items():
        scale = plan.recipe.encoder_rate if slow else 1.0
        decay = {"weight_decay": plan.recipe.weight_decay, "scale": scale, "steady": constant}
        groups += [
            {"params": [p for p in own if p.ndim > 1], **decay},
            {"params": [p for p in own if p.ndim <= 1], **decay, "weight_decay": 0.0},
        ]
    return torch.optim.SGD(groups, lr=plan.learning_rate, momentum=0.9, nesterov=True, foreach=True)
