"""Which form of ICL pays? Candidates against FixMatch at equal images through the network; the protocol is docs/icl.md.

    python -m bench.forms screen --root DIR --sentences FILE --features DIR     seeds 0 to 4, all candidates
    python -m bench.forms confirm --root DIR --sentences FILE --features DIR    seeds 5 to 14, the announced one
    python -m bench.forms show

`--features` is a folder with runs of `fewlabel pretrain svhn` and `fewlabel pretrain cifar10`, called svhn and cifar10:
the first stage that all candidates share. `--sentences` is made by `python -m bench.sentences`. Every result is added
to docs/results/forms.jsonl, and what is there is not run again. One thread for each run. Candidates are chosen by the
hidden labels of training examples, and confirmed on test examples.
"""

import argparse
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import joblib
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bench import forms
from bench.choices import hidden_accuracy
from bench.results import FOLDER, keep_results, read_results
from fewlabel import METHODS, Dataset, Recipe, load
from fewlabel.data import FeatureKind
from fewlabel.data.examples import Examples, numbered
from fewlabel.evaluate import features_by
from fewlabel.guessing import Guess, first_guess
from fewlabel.losses import interpolate, interpolation_contrast
from fewlabel.methods import TERMS, Method, Outputs, Problem, Step, Term
from fewlabel.methods.fixmatch import FixMatch
from fewlabel.methods.icl import ICL
from fewlabel.methods.memory import Recent
from fewlabel.networks.saved import load_network
from fewlabel.training import Trainer, check_recipe, make_plan
from fewlabel.training.length import Part, for_images

RESULTS = FOLDER / "forms.jsonl"
# Labels per class and images through the network, the same for all.
SETS = {
    "digits": (2, 100_000),
    "sentences": (2, 150_000),
    "mnist": (1, 160_000),
    "svhn": (25, 200_000),
    "cifar10": (4, 200_000),
}
CHOOSE, CONFIRM = range(5), range(5, 15)
CONFIRMED = "by kind of data"  # the candidate that was announced


# ---- candidates: each is a term behind fixmatch, or a method of its own


def embeddings(out: Outputs, *names: str) -> list[Tensor]:
    found = [out[name].embedding for name in names]
    return [rows for rows in found if rows is not None]


class Contrasted(ICL):
    """The mix of embeddings is a constant of unit length, which the embedding of the mix must find among all mixes."""

    renormalise: ClassVar[bool] = True
    constant: ClassVar[bool] = True

    def targets(self, step: Step, out: Outputs) -> Tensor:
        (z,) = embeddings(out, "weak")
        return z

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        (mixed,) = embeddings(out, "mixed")
        z = self.targets(step, out)
        target = self.mix(step, z, z)
        target = F.normalize(target, dim=1) if self.renormalise else target
        target = target.detach() if self.constant else target
        similarity = mixed @ target.T / self.temperature
        return {"contrast": self.weight * F.cross_entropy(similarity, torch.arange(len(mixed), device=mixed.device))}


class ContrastedByTeacher(Contrasted):
    """The same with embeddings of the averaged network."""

    def targets(self, step: Step, out: Outputs) -> Tensor:
        z = step.teacher(step.view(self.views)).embedding
        assert z is not None
        return z


class Renormalised(ICL):
    """ICL as it is, with the mix of embeddings brought back to unit length."""

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z, mixed = embeddings(out, "weak", "mixed")
        target = F.normalize(self.mix(step, z, z), dim=1)
        anchors = torch.arange(self.count(len(z)), device=z.device)
        return {"contrast": self.weight * interpolation_contrast(target, mixed, z, self.temperature, None, anchors)}


class TeacherTargets(ICL):
    """ICL with constant targets: the mix of the averaged network's embeddings."""

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z, mixed = embeddings(out, "weak", "mixed")
        target = step.teacher(step.view(self.views)).embedding
        assert target is not None
        anchors = torch.arange(self.count(len(z)), device=z.device)
        wanted = self.mix(step, target, target)
        return {"contrast": self.weight * interpolation_contrast(wanted, mixed, z, self.temperature, None, anchors)}


class Queued(ICL):
    """ICL with the embeddings of the last batches as further negatives."""

    def build(self, problem: Problem) -> None:
        width = max(problem.features // 4, 8)
        self.memory = Recent(min(1024, problem.images), width)

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z, mixed = embeddings(out, "weak", "mixed")
        count = self.count(len(z))
        before = self.memory.rows[: int(self.memory.pushed.clamp(max=len(self.memory.rows)))].clone()
        self.memory.push(z.detach())
        own = z[:count] @ z.T / self.temperature
        own = own.masked_fill(torch.eye(count, len(z), dtype=torch.bool, device=z.device), -1e9)
        pushes = torch.cat([own, z[:count] @ before.T / self.temperature], 1).logsumexp(1)
        pull = (self.mix(step, z, z) * mixed).sum(1) / self.temperature
        return {"contrast": self.weight * (pushes - pull).mean()}


class Decaying(ICL):
    """ICL whose weight falls to 0 over the run."""

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        return {name: (1 - step.index / step.steps) * term for name, term in super().loss(step, out).items()}


class WithLabelled(ICL):
    """Each mix is of an unlabelled and a labelled image."""

    apart = {**ICL.apart, "labelled": "labelled"}  # noqa: RUF012

    def inputs(self, step: Step) -> dict[str, Tensor]:
        plain, labelled = step.view(self.views), step.labelled
        return {"weak": plain, "labelled": labelled, "mixed": self.mixed(step, plain, labelled)}

    def mixed(self, step: Step, first: Tensor, second: Tensor) -> Tensor:
        count = min(self.count(len(first)), len(second))
        mix, _ = step.pairs(len(first), self.beta, "icl")
        return interpolate(first[:count], second[:count], mix[:count])

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z, labelled, mixed = embeddings(out, "weak", "labelled", "mixed")
        target = self.mixed(step, z, labelled)
        anchors = torch.arange(len(mixed), device=z.device)
        return {"contrast": self.weight * interpolation_contrast(target, mixed, z, self.temperature, None, anchors)}


class Prototypes(ICL):
    """The embedding of a mix of two confident images lies between the prototypes of their classes, away from others."""

    momentum: ClassVar[float] = 0.99
    prototypes: Tensor

    def build(self, problem: Problem) -> None:
        width = max(problem.features // 4, 8)
        self.register_buffer("prototypes", torch.zeros(problem.classes, width))

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        z, mixed = embeddings(out, "weak", "mixed")
        guess, kept = step.records["pseudo_labels"], step.records["kept"].to(z.dtype)  # as fixmatch has them
        with torch.no_grad():
            for c in range(len(self.prototypes)):
                rows = z[(guess == c) & (kept > 0)]
                if len(rows):
                    started = bool(self.prototypes[c].any())
                    share = 1 - self.momentum if started else 1.0
                    self.prototypes[c] = F.normalize(self.prototypes[c].lerp(rows.mean(0), share), dim=0)
        mix, partner = step.pairs(len(z), self.beta, "icl")
        count = self.count(len(z))
        logs = (mixed @ self.prototypes.clone().T / self.temperature).log_softmax(1)
        own = -logs.gather(1, guess[:count, None])[:, 0] * kept[:count]
        other = -logs.gather(1, guess[partner][:count, None])[:, 0] * kept[partner][:count]
        return {"contrast": self.weight * (mix[:count] * own + (1 - mix[:count]) * other).mean()}


class FixMix(FixMatch):
    """FixMatch whose strong views are mixed in pairs; each asks for both pseudo-labels, by their shares."""

    every: ClassVar[int] = 1  # which strong views are mixed: all, or every second

    def pairs(self, step: Step, rows: int) -> tuple[Tensor, Tensor]:
        """The share of each image in its mix, 1 where it stays as it is, and its partner."""
        mix, partner = step.pairs(rows, 0.75, "fixmix")
        mixed = torch.arange(rows, device=mix.device) % self.every == 0
        return torch.where(mixed, mix, torch.ones_like(mix)), partner

    def inputs(self, step: Step) -> dict[str, Tensor]:
        mix, partner = self.pairs(step, len(step.strong))
        mixed = interpolate(step.strong, step.strong[partner], mix)
        return {"labelled": step.labelled, "weak": step.weak, "strong": mixed}

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        terms = super().loss(step, out)
        logits = out["strong"].logits
        guess, kept = step.records["pseudo_labels"], step.records["kept"].to(logits.dtype)
        mix, partner = self.pairs(step, len(logits))
        logs = -logits.log_softmax(1)
        own = logs.gather(1, guess[:, None])[:, 0] * kept
        other = logs.gather(1, guess[partner][:, None])[:, 0] * kept[partner]
        return terms | {"unlabelled": self.weight * (mix * own + (1 - mix) * other).mean()}


class HalfMix(FixMix):
    """The same with every second strong view as it was."""

    every: ClassVar[int] = 2


FROM_SCRATCH = ("digits", "mnist")
ON_FEATURES = {
    "icl.negatives": "other-class",
    "icl.temperature": 0.2,
    "icl.weight": 0.1,
    "icl.share": 0.5,
    "icl.classes": 3.0,
}
# Defaults of `icl` before the confirmation, from scratch or not: what a candidate does not set.
AS_IT_WAS: dict[bool, dict[str, Any]] = {
    True: {"icl.weight": 0.5},
    False: {"icl.weight": 0.1, "icl.temperature": 1.0, "icl.share": 1.0, "icl.negatives": "all", "icl.classes": 0.0},
}
# name -> the method, its class in place of `icl` or as a method of its own, settings, other changes of the recipe
Candidate = tuple[str, type[Method] | None, dict[str, Any], dict[str, Any]]
CANDIDATES: dict[str, Candidate] = {
    "fixmatch": ("fixmatch", None, {}, {}),
    "icl as it is": ("fixmatch+icl", None, {}, {}),
    "paper's reading, whole batch": ("fixmatch+icl", None, {"icl.share": 1.0}, {}),
    "authors' reading": ("fixmatch+icl", None, {"icl.reading": "authors", "icl.share": 1.0}, {}),
    "authors' reading, mu 5": ("fixmatch+icl", None, {"icl.reading": "authors", "icl.share": 1.0}, {"mu": 5}),
    "other-class negatives, T 0.5": (
        "fixmatch+icl",
        None,
        {"icl.negatives": "other-class", "icl.temperature": 0.5},
        {},
    ),
    "other-class negatives, T 0.2": (
        "fixmatch+icl",
        None,
        {"icl.negatives": "other-class", "icl.temperature": 0.2},
        {},
    ),
    "re-normalised": ("fixmatch+icl", Renormalised, {}, {}),
    "targets of the average": ("fixmatch+icl", TeacherTargets, {}, {}),
    "weight 0.03": ("fixmatch+icl", None, {"icl.weight": 0.03}, {}),
    "weight 0.1": ("fixmatch+icl", None, {"icl.weight": 0.1}, {}),
    "weight 0.3": ("fixmatch+icl", None, {"icl.weight": 0.3}, {}),
    "weight 1": ("fixmatch+icl", None, {"icl.weight": 1.0}, {}),
    "weight 3": ("fixmatch+icl", None, {"icl.weight": 3.0}, {}),
    "re-normalised, weight 1": ("fixmatch+icl", Renormalised, {"icl.weight": 1.0}, {}),
    "other-class negatives, T 0.2, weight 1": (
        "fixmatch+icl",
        None,
        {"icl.negatives": "other-class", "icl.temperature": 0.2, "icl.weight": 1.0},
        {},
    ),
    "queue": ("fixmatch+icl", Queued, {}, {}),
    "decaying": ("fixmatch+icl", Decaying, {"icl.share": 1.0}, {}),
    "with labelled": ("fixmatch+icl", WithLabelled, {"icl.share": 0.5}, {}),
    "contrasted, T 0.2": ("fixmatch+icl", Contrasted, {"icl.share": 0.5, "icl.temperature": 0.2}, {}),
    "contrasted, T 1": ("fixmatch+icl", Contrasted, {"icl.share": 0.5}, {}),
    "contrasted by the average, T 0.2": (
        "fixmatch+icl",
        ContrastedByTeacher,
        {"icl.share": 0.5, "icl.temperature": 0.2},
        {},
    ),
    "prototypes, T 0.2": ("fixmatch+icl", Prototypes, {"icl.share": 0.5, "icl.temperature": 0.2}, {}),
    "prototypes, T 0.1": ("fixmatch+icl", Prototypes, {"icl.share": 0.5, "icl.temperature": 0.1}, {}),
    "prototypes, T 0.1, an eighth": ("fixmatch+icl", Prototypes, {"icl.share": 0.125, "icl.temperature": 0.1}, {}),
    "to classes": ("fixmatch+icl", None, {"icl.share": 0.5, "icl.weight": 0.0, "icl.classes": 0.5}, {}),
    "to classes, weight 1": ("fixmatch+icl", None, {"icl.share": 0.5, "icl.weight": 0.0, "icl.classes": 1.0}, {}),
    "to classes, weight 3": ("fixmatch+icl", None, {"icl.share": 0.5, "icl.weight": 0.0, "icl.classes": 3.0}, {}),
    "to embeddings and classes": (
        "fixmatch+icl",
        None,
        {"icl.negatives": "other-class", "icl.temperature": 0.2, "icl.weight": 1.0, "icl.classes": 1.0},
        {},
    ),
    "to embeddings, weight 0.1, and classes": (
        "fixmatch+icl",
        None,
        {"icl.negatives": "other-class", "icl.temperature": 0.2, "icl.weight": 0.1, "icl.classes": 1.0},
        {},
    ),
    "to embeddings, weight 0.1, and classes, weight 3": (
        "fixmatch+icl",
        None,
        {"icl.negatives": "other-class", "icl.temperature": 0.2, "icl.weight": 0.1, "icl.classes": 3.0},
        {},
    ),
    "the same, half of the batch": (
        "fixmatch+icl",
        None,
        {**ON_FEATURES},
        {},
    ),
    CONFIRMED: ("fixmatch+icl", None, {}, {}),  # from scratch "weight 0.03", else "the same, half of the batch"
    "comatch": ("comatch", None, {}, {}),
    "comatch with icl": ("comatch+icl", None, {}, {}),
    "simmatch": ("simmatch", None, {}, {}),
    "simmatch with icl": ("simmatch+icl", None, {}, {}),
    "mixed strong views": ("fixmix", FixMix, {}, {}),
    "half of the strong views mixed": ("fixmix", HalfMix, {}, {}),
}
BASES = {"comatch with icl": "comatch", "simmatch with icl": "simmatch"}  # others: fixmatch


# ---- data


@cache
def data_of(name: str, root: str | None, sentences: str | None, features: str | None) -> Dataset:
    if name in ("digits", "mnist"):
        return load(name, root)
    if name == "sentences":
        assert sentences is not None, "give --sentences"
        table = np.load(sentences)
        order = np.random.default_rng(0).permutation(len(table["y"]))
        parts = order[:8000], order[8000:12000]
        classes = tuple(str(label) for label in np.unique(table["y"]))

        def rows(part: Any, title: str) -> Examples:
            inputs, labels = torch.from_numpy(table["x"][part]), torch.from_numpy(table["y"][part])
            kind = FeatureKind(inputs.shape[1], encoder="minilm")  # whose defaults are those of texts
            return Examples(inputs, labels, classes, numbered(title, len(part)), kind)

        return Dataset("sentences", rows(parts[0], "train"), rows(parts[1], "test"), flip=False)
    assert features is not None, "give --features"
    images, (_, network) = load(name, root), load_network(Path(features) / name)

    def encoded(examples: Examples) -> Examples:
        rows = features_by(network, examples.inputs)
        kind = FeatureKind(rows.shape[1], encoder=name)
        return Examples(rows, examples.labels, examples.classes, examples.names, kind)

    assert images.test is not None
    return replace(images, train=encoded(images.train), test=encoded(images.test))


# ---- runs

_guesses: dict[bytes, Guess] = {}


def guess_once(rows: NDArray[np.float32], labelled: NDArray[np.int64], labels: NDArray[np.int64]) -> Guess:
    """The first guess, which is the same for all candidates: on 70,000 rows it takes longer than the training."""
    key = labelled.tobytes() + labels.tobytes() + rows[:10].tobytes()
    if key not in _guesses:
        _guesses.clear()
        _guesses[key] = first_guess(rows, labelled, labels)
    return _guesses[key]


def run(data: str, candidate: str, seed: int, places: tuple[str | None, ...]) -> dict[str, Any]:
    """One training: to choose by hidden labels of training examples, or to confirm on test examples."""
    torch.set_num_threads(1)
    method, form, settings, changes = CANDIDATES[candidate]
    if candidate == CONFIRMED:
        settings = {"icl.weight": 0.03} if data in FROM_SCRATCH else ON_FEATURES
    if "+icl" in method:
        settings = AS_IT_WAS[data in FROM_SCRATCH] | settings
    before = {**TERMS}
    if form is not None and issubclass(form, Term):
        TERMS["icl"] = form
    elif form is not None:
        METHODS[method] = form
    dataset = data_of(data, *places)
    labels, images = SETS[data]
    try:
        recipe = Recipe(
            data=data, labels_per_class=labels, method=method, settings=settings, seed=seed, images=images, device="cpu"
        )
        usual: dict[str, Any] = {"batch": 64, "mu": 1, "evaluations": 1}
        recipe = check_recipe(replace(recipe, **(usual | changes)))
        with patch("fewlabel.methods.fixmatch.first_guess", guess_once):
            trainer = Trainer(for_images(images, Part(make_plan(recipe, dataset), dataset)), dataset)
        for index in range(trainer.plan.steps):  # without the evaluation at the end of `fit`
            trainer.step(index)
        found = {"hidden": hidden_accuracy(trainer, dataset)}
        if seed in CONFIRM:
            found["accuracy"] = trainer.evaluate()["accuracy"]
    finally:
        TERMS.update(before)  # a worker has other runs to do
    return {"data": data, "candidate": candidate, "seed": seed, "steps": trainer.plan.steps, **found}


def differences(data: str, candidate: str, seeds: Any, measure: str) -> list[float]:
    """The candidate minus its base in points, for each seed that has both."""
    lines = [line for line in read_results(RESULTS) if measure in line]
    found = {(line["data"], line["candidate"], line["seed"]): 100 * line[measure] for line in lines}
    base = BASES.get(candidate, "fixmatch")
    return [
        found[data, candidate, seed] - found[data, base, seed]
        for seed in seeds
        if (data, candidate, seed) in found and (data, base, seed) in found
    ]


def show(seeds: Any, measure: str) -> str:
    lines = [f"| candidate | {' | '.join(SETS)} |", "|---" * (1 + len(SETS)) + "|"]
    for candidate in CANDIDATES:
        cells = []
        for data in SETS:
            changes = differences(data, candidate, seeds, measure)
            error = f" ± {statistics.stdev(changes) / len(changes) ** 0.5:.1f}" if len(changes) > 1 else ""
            cells.append(f"{statistics.mean(changes):+.1f}{error}" if changes else "")
        lines.append(f"| {candidate} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("screen", "confirm", "show"))
    parser.add_argument("--root")
    parser.add_argument("--sentences")
    parser.add_argument("--features")
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES), choices=CANDIDATES)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(CHOOSE), help="of the screen")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.part != "show":
        confirm = options.part == "confirm"
        if confirm and not CONFIRMED:
            parser.error("no candidate has been announced: see CONFIRMED in bench/forms.py.")
        names = [BASES.get(CONFIRMED, "fixmatch"), CONFIRMED] if confirm else options.candidates
        there = {(line["data"], line["candidate"], line["seed"]) for line in read_results(RESULTS)}
        places = (options.root, options.sentences, options.features)
        work = [(d, c, s) for d in options.data for s in (CONFIRM if confirm else options.seeds) for c in names]
        task = joblib.delayed(forms.run)  # by its module, since __main__ has another name in a worker
        keep_results(RESULTS, (task(*one, places) for one in work if one not in there), options.jobs)
    print(show(CHOOSE, "hidden"))
    if CONFIRMED:
        print(show(CONFIRM, "accuracy"))


if __name__ == "__main__":
    main()
