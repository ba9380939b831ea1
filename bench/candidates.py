"""The candidate forms of ICL of `python -m bench.forms`: each is a term behind fixmatch, or a method of its own."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabel.losses import interpolate, interpolation_contrast
from fewlabel.methods import Method, Outputs, Problem, Step
from fewlabel.methods.fixmatch import FixMatch
from fewlabel.methods.icl import ICL
from fewlabel.methods.memory import Recent

CONFIRMED = "by kind of data"  # the candidate that was announced


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
