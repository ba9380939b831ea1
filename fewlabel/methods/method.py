"""What a method is: it says which images it looks at, then what it asks of the network's answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from .. import randomness
from ..augment import VIEWS
from ..data.batches import Batches
from ..networks import Classifier, Output, norms_frozen

Outputs = Mapping[str, Output]  # what the network said, under the names that `inputs` gave


@dataclass(frozen=True)
class Problem:
    """The sizes a method may need before it starts."""

    classes: int
    features: int  # length of f(x)
    labels: Tensor  # of the labelled images
    unlabelled: int  # how many unlabelled images there are
    batch: int  # labelled images a step
    mu: int  # unlabelled images a step, as a multiple of `batch`
    steps: int


class Step:
    """One step of training as a method sees it. Views are made when they are asked for, and once."""

    def __init__(
        self,
        index: int,
        steps: int,
        seed: int,
        pixels: Tensor,
        labels: Tensor,
        batches: Batches,
        flip: bool,
        network: Classifier,
        teacher: Classifier,
    ) -> None:
        self.index, self.steps = index, steps
        self.labelled_index = batches.labelled_index(index)
        self.unlabelled_index = batches.unlabelled_index(index)
        self.records: dict[str, Tensor] = {}
        self.images_seen = 0
        self._seed, self._flip, self._pixels, self._batches = seed, flip, pixels, batches
        self._network, self._teacher = network, teacher
        self._device = network.mean.device
        self.labels = labels[self.labelled_index].to(self._device)
        self._views: dict[tuple[str, int, str], Tensor] = {}
        self._fetched: dict[str, Tensor] = {}

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

    def view(self, kind: str, n: int = 0, of: str = "unlabelled") -> Tensor:
        """The n-th independent view of that kind, of the "labelled", "unlabelled" or a "second" unlabelled batch."""
        key = (kind, n, of)
        if key not in self._views:
            view = VIEWS[kind](self._batch(of), self.generator(f"{of}/{kind}/{n}"), self._flip)
            self._views[key] = self._network.normalise(view.to(self._device))
        return self._views[key]

    def generator(self, source: str) -> torch.Generator:
        """The random numbers of one named source at this step; no other source shares them."""
        return randomness.generator(self._seed, self.index, source)

    def look(self, images: Tensor) -> Output:
        """A further look at the network: batch statistics are used, the running ones stay untouched."""
        self.images_seen += len(images)
        with norms_frozen(self._network):
            return self._network(images)

    @torch.no_grad()
    def teacher(self, images: Tensor) -> Output:
        """What the average of the weights (EMA) says, in evaluation mode, without gradient."""
        self.images_seen += len(images)
        return self._teacher(images)

    def record(self, pseudo_labels: Tensor, kept: Tensor) -> None:
        """Tell progress and report what was guessed for the unlabelled batch, and which guesses were used."""
        self.records = {"pseudo_labels": pseudo_labels.detach(), "kept": kept.detach()}

    def _batch(self, of: str) -> Tensor:
        """The pixels of a batch, fetched once."""
        if of not in self._fetched:
            index = {"labelled": self.labelled_index, "unlabelled": self.unlabelled_index}.get(of)
            if index is None:
                index = self._batches.unlabelled_index(self.index, source=of)
            pixels = self._pixels[index]
            if self._device.type != "mps":  # which has no float64; views need it to agree with Pillow to the bit
                pixels = pixels.to(self._device)
            self._fetched[of] = pixels
        return self._fetched[of]


class Method(nn.Module):
    """A semi-supervised method. Settings are keyword arguments of `__init__`; whatever is remembered is a buffer.

    A setting is declared as `name: Annotated[type, "what it does"] = default`; the command line, the estimator and
    `fewlabel methods` read it from there.
    """

    paper: ClassVar[str] = ""  # link
    uses_embedding: ClassVar[bool] = False  # does it read `out[...].embedding`?

    def build(self, problem: Problem) -> None:
        """Once, before any state is loaded: make heads and buffers whose sizes the data decides."""

    def inputs(self, step: Step) -> dict[str, Tensor]:
        """The image batches to look at, by names of the method's own. The very same tensor is computed once."""
        raise NotImplementedError

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        """Named, already weighted terms; the loop sums them."""
        raise NotImplementedError


class Term(Method):
    """A method that only adds to others: it may follow a `+`."""
