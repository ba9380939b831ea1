"""Step: one training step as a method sees it. It offers batches, views, random numbers and further forward passes."""

import math
from typing import Protocol

import torch
from torch import Tensor

from .. import randomness
from ..losses import interpolate
from ..networks import Output


class Views(Protocol):
    """Makes the views of one step's batches, normalised."""

    labels: Tensor  # of the labelled batch
    labelled_index: Tensor  # which training examples the labelled batch holds
    unlabelled_index: Tensor

    def make(self, name: str, n: int, of: str) -> Tensor: ...


class Passes(Protocol):
    """Forward passes through the network and its average."""

    @property
    def exact(self) -> bool: ...

    def apart(self, images: Tensor, exact: bool = False) -> Output: ...

    def teacher(self, images: Tensor) -> Output: ...


class Step:
    """One step of training. Views are made when they are asked for, and once."""

    def __init__(self, index: int, steps: int, seed: int, views: Views, passes: Passes) -> None:
        self.index, self.steps = index, steps
        self.labels, self.labelled_index, self.unlabelled_index = (
            views.labels,
            views.labelled_index,
            views.unlabelled_index,
        )
        self.records: dict[str, Tensor] = {}
        self._seed, self._views, self._passes = seed, views, passes
        self._made: dict[tuple[str, int, str], Tensor] = {}

    # ---- views

    @property
    def labelled(self) -> Tensor:
        """Weak view of the labelled batch (B rows)."""
        return self.view("weak", of="labelled")

    @property
    def weak(self) -> Tensor:
        """Weak view of the unlabelled batch (mu B rows)."""
        return self.view("weak")

    @property
    def strong(self) -> Tensor:
        """Strong view of the unlabelled batch."""
        return self.view("strong")

    def view(self, name: str, n: int = 0, of: str = "unlabelled") -> Tensor:
        """The n-th independent view of that name, of the "labelled", "unlabelled" or a "second" unlabelled batch."""
        key = (name, n, of)
        if key not in self._made:
            self._made[key] = self._views.make(name, n, of)
        return self._made[key]

    # ---- random numbers, ramps and mixes

    def generator(self, source: str) -> torch.Generator:
        """The random numbers of one named source at this step; no other source shares them."""
        return randomness.generator(self._seed, self.index, source)

    def ramp(self, length: int) -> float:
        """A linear ramp from 0 at the first step to 1 after `length` steps."""
        return min(1.0, self.index / length) if length else 1.0

    def pairs(self, count: int, beta: float, source: str, shared: bool = False) -> tuple[Tensor, Tensor]:
        """How to mix `count` rows: the weight of each row in its mix, and its partner; the same at every call.

        The weight lambda is drawn from Beta(beta, beta), one for each row or one `shared` by all, and the larger of
        lambda and 1 - lambda is taken, so that a mix is mostly the row itself.
        """
        draw = self.generator(source)
        mix = randomness.beta(beta, 1 if shared else count, draw).expand(count)
        cycle = torch.randperm(count, generator=draw)
        partner = torch.empty_like(cycle)
        partner[cycle] = cycle.roll(1)  # the next one in a random cycle: never the row itself
        return torch.maximum(mix, 1 - mix).to(self.labels.device), partner.to(self.labels.device)

    def mix(self, rows: Tensor, beta: float, source: str) -> Tensor:
        """Each row, be it an image or its target, mixed with its partner as `pairs` says."""
        mix, partner = self.pairs(len(rows), beta, source)
        return interpolate(rows, rows[partner], mix)

    def one_hot(self, like: Tensor) -> Tensor:
        """The labels as probabilities (B, classes), with the width and type of `like`."""
        return torch.zeros_like(like[: len(self.labels)]).scatter_(1, self.labels[:, None], 1.0)

    # ---- further forward passes

    def forward(self, images: Tensor, exact: bool = False) -> Output:
        """A pass of its own: batch norm uses the statistics of these images, and the running ones stay untouched.

        In the precision of the run or, `exact`, in float32.
        """
        return self._passes.apart(images, exact)

    def teacher(self, images: Tensor) -> Output:
        """The averaged weights (EMA) on these images, without gradient; otherwise as `forward`."""
        return self._passes.teacher(images)

    @property
    def exact(self) -> bool:
        """Whether the network computes in float32."""
        return self._passes.exact

    # ---- for progress, report and alarms

    def record(self, pseudo_labels: Tensor, kept: Tensor | None = None, predictions: Tensor | None = None) -> None:
        """Report the pseudo-labels of the unlabelled batch, and which of them the loss uses (`kept`, default all).

        `predictions` are the classes that the network itself predicts, where pseudo-labels differ from them: aligned
        pseudo-labels would hide that the network predicts one class for all images.
        """
        kept = torch.ones_like(pseudo_labels, dtype=torch.bool) if kept is None else kept
        predictions = pseudo_labels if predictions is None else predictions
        records = {"pseudo_labels": pseudo_labels, "kept": kept, "predictions": predictions}
        self.records |= {name: rows.detach() for name, rows in records.items()}

    def record_embedding(self, rows: Tensor) -> None:
        """Report how far unit embeddings (N, D) spread: 1 in all directions alike, 0 where they collapse to a point."""
        spread = rows.detach().std(0).mean() * math.sqrt(rows.shape[1])
        self.records["spread"] = torch.minimum(self.records.get("spread", spread), spread)  # of several the smallest
