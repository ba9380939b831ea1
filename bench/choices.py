"""Where our methods differ from their authors' code: which way is better, at equal cost?

    python -m bench.choices --root DIR --data digits mnist         seeds 0 to 4; can be stopped and continued
    python -m bench.choices --show

Every choice is the same method in two ways, with 2 labels per class and as many images through the network in each run,
all passes counted. Results go line by line into docs/results/choices.jsonl; --show prints paired differences.

A default is chosen by `hidden`, the accuracy on training images whose labels were hidden; test images choose nothing.
The rule, fixed before the runs: the authors' way becomes the default unless it is behind by more than one paired
standard error on digits or on MNIST. A way that fails on digits is not run on MNIST (--failing runs it all the same).
What became the default is named in ADOPTED; the results are of the code before that, so more seeds need another file.
"""

import argparse
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import joblib
import torch
from torch import Tensor

from bench import choices
from bench.results import FOLDER, keep_results, read_results
from fewlabel import METHODS, Dataset, Recipe, load
from fewlabel.evaluate import accuracy, predict_probabilities
from fewlabel.losses import align, cross_entropy, interpolate, masked_cross_entropy, squared_error
from fewlabel.methods import Method, Outputs, Problem, Step
from fewlabel.methods.adamatch import AdaMatch
from fewlabel.methods.ict import ICT
from fewlabel.methods.memory import Recent
from fewlabel.methods.pi_model import PiModel
from fewlabel.training import Trainer, check_recipe, fit, make_plan
from fewlabel.training.length import Part, for_images

RESULTS = FOLDER / "choices.jsonl"
IMAGES = {"digits": 100_000, "mnist": 80_000}


class AdaMatchHalf(AdaMatch):
    """The mean of the weak and the strong labelled term instead of their sum."""

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        terms = super().loss(step, out)
        return terms | {"labelled": terms["labelled"] / 2}


class AdaMatchHard(AdaMatch):
    """Hard pseudo-labels."""

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        terms = super().loss(step, out)
        guess, kept = step.records["pseudo_labels"], step.records["kept"]
        given = 0.5 - math.cos(min(math.pi, 2 * math.pi * step.index / step.steps)) / 2
        unlabelled = self.weight * given * masked_cross_entropy(out["strong"].logits, guess, kept)
        return terms | {"unlabelled": unlabelled}


class AdaMatchMoving(AdaMatch):
    """Alignment by moving statistics: an average for the labelled batch, 128 batches for the unlabelled one."""

    mean_labelled: Tensor

    def rate(self, step: Step) -> float:
        return max(0.001, 1 / (step.index + 1))

    def build(self, problem: Problem) -> None:
        self.register_buffer("mean_labelled", torch.full((problem.classes,), 1 / problem.classes))
        self.recent = Recent(128, problem.classes)

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        joint, alone = out["labelled"].logits, step.forward(self.labelled(step)).logits
        share = torch.rand(joint.shape, generator=step.generator("adamatch")).to(joint)
        weak, strong = (share * joint + (1 - share) * alone).chunk(2)
        with torch.no_grad():
            labelled, unlabelled = weak.softmax(1), out["weak"].logits.softmax(1)
            self.mean_labelled.lerp_(labelled.mean(0), self.rate(step))
            self.recent.push(unlabelled.mean(0, keepdim=True))
            target = align(unlabelled, self.recent.mean(), self.mean_labelled)
            confidence, guess = target.max(1)
            kept = confidence >= self.threshold * labelled.amax(1).mean()
        step.record(pseudo_labels=guess, kept=kept, predictions=unlabelled.argmax(1))
        given = 0.5 - math.cos(min(math.pi, 2 * math.pi * step.index / step.steps)) / 2
        return {
            "labelled": cross_entropy(weak, step.labels) + cross_entropy(strong, step.labels),
            "unlabelled": self.weight * given * masked_cross_entropy(out["strong"].logits, target, kept),
        }


class AdaMatchAuthors(AdaMatchMoving):
    """All three: mean of both labelled terms, hard pseudo-labels, and moving statistics that start uniform."""

    def build(self, problem: Problem) -> None:
        super().build(problem)
        self.recent.push(torch.full((128, problem.classes), 1 / problem.classes))

    def rate(self, step: Step) -> float:
        return 0.001

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        terms = super().loss(step, out)
        guess, kept = step.records["pseudo_labels"], step.records["kept"]
        given = 0.5 - math.cos(min(math.pi, 2 * math.pi * step.index / step.steps)) / 2
        unlabelled = self.weight * given * masked_cross_entropy(out["strong"].logits, guess, kept)
        return {"labelled": terms["labelled"] / 2, "unlabelled": unlabelled}


class ICTApart(ICT):
    """Mixed images in a pass of their own."""

    apart: ClassVar[Mapping[str, str]] = {"mixed": "mixed"}


class ICTAuthors(ICTApart):
    """Also one lambda without max, teacher logits mixed instead of probabilities, and mixup of the labelled images."""

    def mixed(self, step: Step, rows: Tensor, source: str) -> Tensor:
        draw = step.generator(source)
        share = torch.distributions.Beta(self.beta, self.beta)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=draw)))
            mix = share.sample().expand(len(rows))
        return interpolate(rows, rows[torch.randperm(len(rows), generator=draw)], mix.to(rows))

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {
            "labelled": self.mixed(step, step.labelled, "ict labelled"),
            "mixed": self.mixed(step, step.weak, "ict"),
        }

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        teacher = step.teacher(step.weak).logits
        step.record(pseudo_labels=teacher.argmax(1))
        target = self.mixed(step, teacher, "ict").softmax(1)
        logits = out["labelled"].logits
        labels = self.mixed(step, step.one_hot(logits), "ict labelled")
        consistency = squared_error(out["mixed"].logits.softmax(1), target)
        return {
            "labelled": cross_entropy(logits, labels),
            "unlabelled": self.weight * step.ramp(self.ramp) * consistency,
        }


class PiModelApart(PiModel):
    """The second view in a pass of its own."""

    apart: ClassVar[Mapping[str, str]] = {"second": "second"}


class PiModelAuthors(PiModel):
    """Two passes, each over labelled and unlabelled images."""

    apart: ClassVar[Mapping[str, str]] = {"second": "second", "labelled again": "second"}

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return super().inputs(step) | {"labelled again": step.view("weak", 1, of="labelled")}


Way = type[Method] | dict[str, Any]


# Name -> our method, and the other way: another class, or other settings.
CHOICES: dict[str, tuple[str, Way]] = {
    "adamatch: half": ("adamatch", AdaMatchHalf),
    "adamatch: hard": ("adamatch", AdaMatchHard),
    "adamatch: moving": ("adamatch", AdaMatchMoving),
    "adamatch: authors": ("adamatch", AdaMatchAuthors),
    "ict: apart": ("ict", ICTApart),
    "ict: authors": ("ict", ICTAuthors),
    "pi-model: apart": ("pi-model", PiModelApart),
    "pi-model: authors": ("pi-model", PiModelAuthors),
    "icl-ssl: share 0.5": ("icl-ssl", {"icl.share": 0.5}),
    "icl-ssl: share 0.25": ("icl-ssl", {"icl.share": 0.25}),
    "icl-ssl: share 0.125": ("icl-ssl", {"icl.share": 0.125}),
    "icl-ssl: fixmatch": ("icl-ssl", {"method": "fixmatch"}),
}
# The authors' way became the default: choice -> method. Our former way is in the results only.
ADOPTED = {
    "softmatch: first": "softmatch",
    "remixmatch: first": "remixmatch",
    "remixmatch: apart": "remixmatch",
    "simmatch: warm-up": "simmatch",
    "vat: entropy": "vat",
    "fixmatch: head": "fixmatch",
    "supervised: head": "supervised",
}


def run(data: str, root: str | None, choice: str, seed: int) -> dict[str, Any]:
    """One training; `choice` is the name of one, or of a method in our way."""
    torch.set_num_threads(1)
    base, way = CHOICES.get(choice, (choice, {}))
    ours = METHODS.get(base)
    if isinstance(way, type):
        METHODS[base] = way
    try:
        return {"data": data, "choice": choice, "seed": seed} | run_recipe(data, root, base, seed, way)
    finally:
        if ours is not None:
            METHODS[base] = ours  # a worker process has other runs to do


def run_recipe(data: str, root: str | None, method: str, seed: int, way: Way) -> dict[str, Any]:
    dataset = load(data, root)
    settings = dict(way) if isinstance(way, dict) else {}
    recipe = Recipe(
        data=data,
        root=root,
        labels_per_class=2,
        method=settings.pop("method", method),
        settings=settings,
        batch=64,
        mu=1,
        learning_rate=0.06,
        images=IMAGES[data],
        evaluations=1,
        seed=seed,
        device="cpu",
    )
    plan = for_images(IMAGES[data], Part(make_plan(check_recipe(recipe), dataset), dataset))
    trainer = Trainer(replace(plan, evaluations=1), dataset)
    fit(trainer)
    return {"steps": plan.steps, "hidden": hidden_accuracy(trainer, dataset), **trainer.evaluate()}


def hidden_accuracy(trainer: Trainer, dataset: Dataset) -> float:
    """On the training images whose labels were hidden, or 10,000 of them."""
    hidden = torch.ones(len(dataset.train), dtype=torch.bool)
    hidden[trainer.plan.labelled] = False
    rows = hidden.nonzero().flatten()
    rows = rows[:: -(-len(rows) // 10_000)]
    predicted = predict_probabilities(trainer.averaged(), dataset.train.inputs[rows]).argmax(1)
    return accuracy(predicted, dataset.train.labels[rows])


def differences(data: str, choice: str, measure: str = "hidden") -> list[float]:
    """The other way minus ours in points, for each seed that has both."""
    found = {(line["data"], line["choice"], line["seed"]): 100 * line[measure] for line in read_results(RESULTS)}
    base = ADOPTED.get(choice) or CHOICES[choice][0]
    seeds = sorted(s for d, c, s in found if (d, c) == (data, choice) and (data, base, s) in found)
    return [found[data, choice, seed] - found[data, base, seed] for seed in seeds]


def mean_and_error(changes: list[float]) -> tuple[float, float]:
    return statistics.mean(changes), statistics.stdev(changes) / len(changes) ** 0.5


def failing(data: str, choice: str) -> bool:
    """Is the other way behind by more than one standard error?"""
    changes = differences(data, choice)
    if len(changes) < 2:
        return False
    mean, error = mean_and_error(changes)
    return mean < -error


def show() -> None:
    """The other way minus ours, paired over seeds."""
    print("| the other way | data | hidden labels | test images | seeds |\n|---|---|---|---|---|")
    for choice in (*CHOICES, *ADOPTED):
        for data in IMAGES:
            if len(changes := differences(data, choice)) > 1:
                columns = (mean_and_error(differences(data, choice, measure)) for measure in ("hidden", "accuracy"))
                hidden, test = (f"{mean:+.2f} ± {error:.2f}" for mean, error in columns)
                print(f"| {choice} | {data} | {hidden} | {test} | {len(changes)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(IMAGES))
    parser.add_argument("--root")
    parser.add_argument("--choices", nargs="+", default=list(CHOICES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--failing", action="store_true", help="also those on MNIST that have failed on digits")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    for data in () if options.show else options.data:
        measure(data, options)
    show()


def measure(data: str, options: argparse.Namespace) -> None:
    there = {(line["data"], line["choice"], line["seed"]) for line in read_results(RESULTS)}
    wanted = [c for c in options.choices if options.failing or data == "digits" or not failing("digits", c)]
    names = list(dict.fromkeys([*(CHOICES[choice][0] for choice in wanted), *wanted]))
    work = [(data, name, seed) for seed in options.seeds for name in names]
    task = joblib.delayed(choices.run)  # by its module, since __main__ has another name in a worker
    calls = (task(d, options.root, c, s) for d, c, s in work if (d, c, s) not in there)
    keep_results(RESULTS, calls, options.jobs)


if __name__ == "__main__":
    main()
