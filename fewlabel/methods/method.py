"""What a method is: it says which images it looks at, then what it asks of the network's answers."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from .. import randomness
from ..augment import VIEWS
from ..augment.vectors import vector_view
from ..data.batches import Batches
from ..data.images import Images
from ..data.vectors import Vectors
from ..losses import interpolate
from ..networks import Classifier, Output, norms_frozen
from ..ranks import ALONE, Ranks

Outputs = Mapping[str, Output]  # what the network said, under the names that `inputs` gave


@dataclass(frozen=True)
class Problem:
    """The sizes a method may need before it starts."""

    classes: int
    features: int  # length of f(x)
    labelled: Tensor  # positions of the labelled images
    labels: Tensor  # of the labelled images
    images: int  # how many training images there are; `Step.unlabelled_index` counts them from 0
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
        images: Images,
        batches: Batches,
        without: Collection[str],
        network: Classifier,
        teacher: Classifier,
        precision: torch.dtype = torch.float32,
        ranks: Ranks = ALONE,
    ) -> None:
        self.index, self.steps = index, steps
        self.records: dict[str, Tensor] = {}
        self.images_seen = self.passes = 0  # through the network, in this step
        self._seed, self._without, self._images, self._batches = seed, without, images, batches
        self._network, self._teacher, self._precision, self._ranks = network, teacher, precision, ranks
        self._device = network.mean.device
        self._rows = {"labelled": batches.labelled_index(index), "unlabelled": batches.unlabelled_index(index)}
        self.labelled_index, self.unlabelled_index = (rows.to(self._device) for rows in self._rows.values())
        self.labels = images.labels[self._rows["labelled"]].to(self._device)
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
            count = len(self._index(of))
            draws = randomness.Draws(self.generator(f"{of}/{kind}/{n}"), count, self._ranks.rows())
            if isinstance(self._images, Vectors):
                rows = self._network.normalise(self._batch(of))
                view = vector_view(rows, kind, draws, self._images.noise, self._images.dropout)
                self._views[key] = self._ranks.gather(view, count)
            else:
                view = VIEWS[kind](self._batch(of), draws, self._without)
                self._views[key] = self._network.normalise(self._ranks.gather(view.to(self._device), count))
        return self._views[key]

    def generator(self, source: str) -> torch.Generator:
        """The random numbers of one named source at this step; no other source shares them."""
        return randomness.generator(self._seed, self.index, source)

    def ramp(self, length: int) -> float:
        """From 0 at the first step to 1 after `length` steps: how much of a term's weight is given already."""
        return min(1.0, self.index / length) if length else 1.0

    def pairs(self, count: int, beta: float, source: str, shared: bool = False) -> tuple[Tensor, Tensor]:
        """How to mix `count` rows: each row's share of its mix, and the other row in it; the same at every call.

        The share is drawn from Beta(beta, beta), one for each row or one `shared` by all, and the larger of it and 1
        minus it taken, so that a mix is mostly the row itself.
        """
        draw = self.generator(source)
        mix = randomness.beta(beta, 1 if shared else count, draw).expand(count)
        cycle = torch.randperm(count, generator=draw)
        partner = torch.empty_like(cycle)
        partner[cycle] = cycle.roll(1)  # the next one in a random round: never the row itself
        return torch.maximum(mix, 1 - mix).to(self._device), partner.to(self._device)

    def mix(self, rows: Tensor, beta: float, source: str) -> Tensor:
        """Each row, be it an image or its target, mixed with another one as `pairs` says."""
        mix, partner = self.pairs(len(rows), beta, source)
        return interpolate(rows, rows[partner], mix)

    def through(self, network: Callable[[Tensor], Output], images: Tensor) -> Output:
        """What a network says of the images, which are counted; several processes take a part of them each."""
        self.images_seen += len(images)
        self.passes += 1
        if self._ranks.count == 1:
            return network(images)
        output = network(self._ranks.part(images))
        there = [column for column in output if column is not None]
        whole = self._ranks.gather(torch.cat(there, 1), len(images))  # in one message
        columns = iter(whole.split([column.shape[1] for column in there], 1))
        return Output(*(None if column is None else next(columns) for column in output))  # type: ignore[arg-type]

    def look(self, images: Tensor, exact: bool = False) -> Output:
        """A further look at the network: batch statistics are used, the running ones stay untouched.

        In the precision of the run or, `exact`, in float32.
        """
        with norms_frozen(self._network), self.autocast(enabled=not exact):
            return self.through(self._network, images)

    @torch.no_grad()
    def teacher(self, images: Tensor) -> Output:
        """What the average of the weights (EMA) says, without gradient; batch statistics are used, as in `look`.

        The running statistics are of the raw weights: they would not suit the averaged ones.
        """
        with norms_frozen(self._teacher), self.autocast():
            return self.through(self._teacher, images)

    @property
    def exact(self) -> bool:
        """Does the network compute in float32?"""
        return self._precision == torch.float32

    def autocast(self, enabled: bool = True) -> torch.autocast:
        """In which the network is called, be it here or by the loop."""
        return torch.autocast(self._device.type, self._precision, enabled=enabled and not self.exact)

    def one_hot(self, like: Tensor) -> Tensor:
        """The labels as probabilities (B, classes), as wide as `like` and of its kind."""
        return torch.zeros_like(like[: len(self.labels)]).scatter_(1, self.labels[:, None], 1.0)

    def record(self, pseudo_labels: Tensor, kept: Tensor | None = None, predictions: Tensor | None = None) -> None:
        """Tell progress, report and alarm what was guessed for the unlabelled batch, and which guesses were used.

        All are unless `kept` says otherwise. `predictions` are the classes the network itself says, where guesses are
        not those: an aligned guess hides that the network takes all images for the same.
        """
        kept = torch.ones_like(pseudo_labels, dtype=torch.bool) if kept is None else kept
        predictions = pseudo_labels if predictions is None else predictions
        records = {"pseudo_labels": pseudo_labels, "kept": kept, "predictions": predictions}
        self.records = {name: rows.detach() for name, rows in records.items()}

    def _batch(self, of: str) -> Tensor:
        """The pixels of a batch, or of this process's part of it, fetched once."""
        if of not in self._fetched:
            index = self._index(of)[self._ranks.rows()]
            pixels = self._images.pixels.index_select(0, index)  # many times faster than [index]
            if self._device.type != "mps":  # which has no float64; views need it to agree with Pillow to the bit
                pixels = pixels.to(self._device)
            self._fetched[of] = pixels
        return self._fetched[of]

    def _index(self, of: str) -> Tensor:
        """Which images a batch holds."""
        assert of in ("labelled", "unlabelled", "second"), f"there is no batch '{of}': labelled, unlabelled or second"
        if of not in self._rows:
            self._rows[of] = self._batches.unlabelled_index(self.index, source=of)
        return self._rows[of]


class Method(nn.Module):
    """A semi-supervised method. Settings are keyword arguments of `__init__`; whatever is remembered is a buffer.

    A setting is declared as `name: Annotated[type, "what it does"] = default`; the command line, the estimator and
    `fewlabel methods` read it from there.
    """

    paper: ClassVar[str] = ""  # link
    uses_embedding: ClassVar[bool] = False  # does it read `out[...].embedding`?
    targets: ClassVar[Collection[str]] = ()  # the inputs that only say what others shall learn: they need no gradient
    labelled_among_unlabelled: ClassVar[bool] = True  # do unlabelled batches hold the labelled images too?
    for_vectors: ClassVar[Mapping[str, object]] = {}  # settings that suit rows of numbers better than the defaults

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
