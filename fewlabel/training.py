"""The moving parts of one run, and what happens in one step of it."""

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .checkpoint import RunDirectory
from .data import Dataset
from .data.batches import Batches
from .data.images import UNLABELLED
from .ema import EMA
from .errors import UserError
from .evaluate import accuracy, calibrated, probabilities
from .methods import Method, Outputs, Problem, Step, make_method
from .networks import Classifier, Output, make_classifier, set_norm_momentum, share_norms
from .plan import Plan
from .progress import Meter
from .randomness import seeded
from .ranks import ALONE, Ranks

LIKE = 10  # times as large as the median at most: then the ranges of columns are alike


class Taken(NamedTuple):
    """What one step came to."""

    terms: dict[str, Tensor]  # of the loss
    records: dict[str, Tensor]  # what the method told of its guesses
    truth: Tensor  # the hidden labels of the unlabelled batch, -1 where there is none
    images: int  # that went through the network
    passes: int


class Training:
    """A network, a method, their averages and an optimiser: `advance` takes one step."""

    def __init__(self, plan: Plan, dataset: Dataset, encoder: nn.Module | None = None, ranks: Ranks = ALONE) -> None:
        """With an `encoder` of the user's own, which gets the pixels or vectors as they are, in float32."""
        recipe = plan.recipe
        self.plan, self.train, self.test, self.ranks = plan, dataset.train, dataset.test, ranks
        self.hidden_labels = dataset.train.labels.to(plan.device, copy=True)  # to judge guesses by, never to learn from
        self.hidden_labels[plan.labelled] = UNLABELLED
        method = make_method(recipe.method, **recipe.settings)
        self.batches = Batches(
            dataset.train.labels,
            plan.labelled,
            recipe.batch,
            recipe.mu,
            recipe.seed,
            labelled_among_unlabelled=method.labelled_among_unlabelled,
        )
        mean, std = pixel_statistics(dataset.train.pixels)
        network = make_classifier(
            plan.network,
            dataset.train.channels,
            dataset.train.size,
            len(dataset.train.classes),
            projector=method.uses_embedding,
            seed=recipe.seed,
            mean=mean,
            std=std,
            encoder=encoder,
        )
        with seeded(recipe.seed, "method"):
            method.build(
                Problem(
                    classes=len(dataset.train.classes),
                    features=network.features,
                    labelled=plan.labelled,
                    labels=dataset.train.labels[plan.labelled],
                    images=len(dataset.train),
                    batch=recipe.batch,
                    mu=recipe.mu,
                    steps=plan.steps,
                )
            )
        if ranks.count > 1 and recipe.share_norms:
            share_norms(network, ranks)
        # The method travels with the network, so whatever it owns is optimised, averaged and saved as well.
        self.model = nn.ModuleDict({"network": network, "method": method}).to(plan.device)
        self.network: Classifier = network
        self.method: Method = method
        self.compiled = torch.compile(network) if recipe.compile else network
        self.ema = EMA(self.model, recipe.ema)
        self.teacher: Classifier = self.ema.module["network"]  # type: ignore[index]
        self.optimiser = make_optimiser(self.model, plan)
        self.scaler = torch.amp.GradScaler(plan.device.type, enabled=plan.precision == torch.float16)
        self.meter = Meter(len(dataset.train.classes), plan.device)

    def advance(self, index: int) -> Taken:
        """One step: views, forward, the method's terms, backward, one update; all processes take it together."""
        with self.ranks.working():
            return self._advance(index)

    def _advance(self, index: int) -> Taken:
        plan, recipe = self.plan, self.plan.recipe
        self.model.train()
        settled = set_norm_momentum(self.model, index, plan.steps)
        way = min(1.0, index / (recipe.horizon or plan.steps))
        for group in self.optimiser.param_groups:
            group["lr"] = plan.learning_rate * math.cos(7 * math.pi * way / 16)
        step = Step(
            index,
            plan.steps,
            recipe.seed,
            self.train,
            self.batches,
            plan.without,
            self.network,
            self.teacher,
            plan.precision,
            self.ranks,
        )
        with step.autocast():
            inputs = self.method.inputs(step)
            # A compiled network is compiled anew for every momentum: it waits until that stays the same.
            targets = self.method.targets if recipe.lean else ()
            outputs = look(self.compiled if settled else self.network, inputs, targets, step)
        terms = self.method.loss(step, outputs)  # outside, in float32
        loss = torch.stack(list(terms.values())).sum()
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()
        self.ranks.average_gradients(self.model.parameters())
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.ema.update(index)
        truth = self.hidden_labels[step.unlabelled_index]
        taken = Taken(terms, step.records, truth, step.images_seen, step.passes)
        self.meter.add(taken.terms, taken.records, taken.truth)
        return taken

    def evaluate(self) -> dict[str, Any]:
        """Accuracy on the test images of the averaged weights and, beside it, of the raw ones."""
        if self.test is None:
            return {"evaluated": True}
        networks = [calibrated(network, self.train.pixels) for network in (self.teacher, self.network)]
        guesses = [probabilities(network, self.test.pixels).argmax(1) for network in networks]
        averaged, raw = (accuracy(guess, self.test.labels) for guess in guesses)
        return {"accuracy": averaged, "raw_accuracy": raw}

    def check(self, index: int, directory: RunDirectory) -> None:
        """Stop before a checkpoint is spoilt by numbers that are none."""
        finite = all(bool(p.isfinite().all()) for p in self.model.parameters())
        if not (finite and self.meter.finite()):
            raise UserError(
                f"the loss is no number any more at step {index + 1}: try a lower --learning-rate; "
                f"the last good checkpoint, if there was one, is kept in {directory.path}."
            )

    def save(self, directory: RunDirectory, done: int, seconds: float) -> None:
        facts = {"step": done, "seconds": seconds, "scaler": self.scaler.state_dict(), "meter": list(self.meter.sums)}
        directory.save(self.tensors(), facts)

    def tensors(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, under flat names."""
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
        return {f"{part}/{name}": tensor for part, content in parts.items() for name, tensor in content.items()}

    def restore(self, checkpoint: tuple[dict[str, Tensor], dict[str, Any]] | None) -> tuple[int, float]:
        """Go on from what `RunDirectory.load` gives; tells the steps done and the seconds they took."""
        if checkpoint is None:
            return 0, 0.0
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
        return facts["step"], facts["seconds"]


def look(
    network: Callable[[Tensor], Output], inputs: dict[str, Tensor], targets: Collection[str], step: Step
) -> Outputs:
    """One forward pass over all inputs together; the very same tensor under two names is computed once.

    Inputs that are nothing but targets take a pass of their own, before and without gradient.
    """
    learnt = {id(images) for name, images in inputs.items() if name not in targets}
    distinct = {id(images): images for images in inputs.values()}
    with torch.no_grad():
        said = together(step.look, {key: images for key, images in distinct.items() if key not in learnt})
    said |= together(
        lambda images: step.through(network, images), {key: distinct[key] for key in distinct if key in learnt}
    )
    return {name: said[id(images)] for name, images in inputs.items()}


def together(network: Callable[[Tensor], Output], batches: dict[int, Tensor]) -> dict[int, Output]:
    """What a network says of several batches, all at once."""
    if not batches:
        return {}
    sizes = [len(images) for images in batches.values()]
    output = network(torch.cat(list(batches.values())))
    columns = [[None] * len(sizes) if column is None else column.split(sizes) for column in output]
    return {key: Output(*parts) for key, *parts in zip(batches, *columns, strict=True)}


def make_optimiser(model: nn.Module, plan: Plan) -> torch.optim.SGD:
    """SGD with Nesterov momentum; no weight decay on biases and norms, which are the one-dimensional parameters."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": plan.recipe.weight_decay},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=plan.learning_rate, momentum=0.9, nesterov=True, foreach=True)


def pixel_statistics(pixels: Tensor, most: int = 10_000) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, from evenly spaced images; of vectors, see `column_statistics`."""
    sample = pixels[:: -(-len(pixels) // most)]
    if pixels.ndim == 2:
        return column_statistics(sample)
    counts = torch.zeros(pixels.shape[1], 256, dtype=torch.float64)  # how often each value occurs: exact, and small
    for part in sample.split(256):
        for channel in range(len(counts)):
            counts[channel] += part[:, channel].flatten().bincount(minlength=256)
    share, value = counts / counts.sum(1, keepdim=True), torch.arange(256, dtype=torch.float64)
    mean = share @ value
    std = (share @ value.square() - mean.square()).clamp(min=0).sqrt()
    return mean.float(), std.clamp(min=1).float()


def column_statistics(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of each column, and by what to divide it: its standard deviation, or one for all that have like ranges.

    Columns of a table are in units of their own. Pixels and embeddings are not: there a column that hardly varies
    hardly matters, and to make it as large as the others would blow up its noise.
    """
    std, mean = torch.std_mean(rows.double(), dim=0, correction=0)
    std = std.float()  # which may round to 0
    ranges = (rows.amax(0) - rows.amin(0))[std > 0]
    if len(ranges) and ranges.max() <= LIKE * ranges.median():
        common = std[std > 0].double().square().mean().sqrt().float()
        return mean.float(), common.repeat(len(std))
    return mean.float(), torch.where(std > 0, std, 1.0)
