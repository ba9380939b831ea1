"""The base class of methods: a method names its inputs, then turns the network's outputs into a loss."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from torch import Tensor, nn

from ..networks import Output
from ..settings import Setting
from .step import Step

Outputs = Mapping[str, Output]  # of the network, under the names that `inputs` gave


@dataclass(frozen=True)
class Problem:
    """Sizes of the problem, for `build`."""

    classes: int
    features: int  # length of f(x)
    labelled: Tensor  # positions of the labelled examples
    labels: Tensor  # of the labelled examples
    images: int  # how many training examples there are; `Step.unlabelled_index` counts them from 0
    batch: int  # labelled examples a step
    mu: int  # unlabelled examples a step, as a multiple of `batch`
    steps: int
    rows: Tensor | None = None  # all training examples, where they are rows of numbers


class Method(nn.Module):
    """A semi-supervised method. Settings are parameters of `__init__`; state between steps is kept in buffers.

    A setting is declared as `name: Annotated[type, Setting("what it does", least=0)] = default`; the command line, the
    estimator and `fewlabel methods` read it from there. A plain annotation works too.
    """

    paper: ClassVar[str] = ""  # link
    uses_embedding: ClassVar[bool] = False  # does it read `out[...].embedding`?
    apart: ClassVar[Mapping[str, str]] = {}  # input -> batch-norm group: computed in a pass of that group alone
    labelled_among_unlabelled: ClassVar[bool] = True  # do unlabelled batches hold the labelled examples too?
    kinds: ClassVar[Collection[str]] = ("images", "vectors", "features")  # of data that it works on
    defaults_for: ClassVar[Mapping[str, Mapping[str, object]]] = {}  # kind of data -> settings that suit it better
    first_stage: ClassVar[Mapping[str, object]] = {}  # settings that suit it better as a first stage
    steady: ClassVar[Collection[str]] = ()  # parts of it whose learning rate does not decay

    def build(self, problem: Problem) -> None:
        """Called once, before any state is loaded: make heads and buffers whose sizes depend on the data."""

    def inputs(self, step: Step) -> dict[str, Tensor]:
        """Named batches for the network. The same tensor under two names is computed once."""
        raise NotImplementedError

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        """Named, weighted terms of the loss, which are summed."""
        raise NotImplementedError


class Term(Method):
    """A term that is added to other methods: it may follow a `+`. All of its inputs are in `apart`."""


ViewName = Annotated[Literal["weak", "strong", "simclr", "small"], Setting("which views of the unlabelled images")]


class TwoViews(Term):
    """A term that compares two views of each unlabelled image and needs no labels, so it can be a first stage too."""

    views: str

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {"first": step.view(self.views), "second": step.view(self.views, 1)}
