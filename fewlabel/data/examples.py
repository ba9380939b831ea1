"""Examples: inputs with their labels, class names and file names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from ..randomness import Draws
from .kind import Kind

UNLABELLED = -1


class Original(Protocol):
    """The original examples behind the inputs, to show to a person."""

    def show(self, position: int) -> bytes | str:
        """One example: a PNG picture, or text."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Training or test examples. A label of -1 means unlabelled."""

    inputs: Tensor  # (N, ...), in memory or memory-mapped
    labels: Tensor  # int64 (N,)
    classes: tuple[str, ...]
    names: Sequence[str]  # file names, or positions where there are none
    kind: Kind
    skipped: dict[str, str] = field(default_factory=dict)  # unreadable file -> reason
    source: str = ""  # of files: changes when a file does
    original: Original | None = None  # where the inputs are not what a person wants to see
    views: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)  # "weak", "strong": inputs made beforehand

    def __post_init__(self) -> None:
        self.kind.check(self.inputs)
        assert self.labels.dtype == torch.int64 and len(self.labels) == len(self.inputs) == len(self.names)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def pixels(self) -> Tensor:
        """The inputs, by the name that suits images."""
        return self.inputs

    @property
    def channels(self) -> int:
        """The channels of images, or the columns of vectors."""
        return self.kind.shape[0]

    @property
    def size(self) -> int:
        """The side of images, which are square."""
        return self.kind.shape[-1]

    def fitting(self, others: "Examples") -> "Examples":
        """Other examples converted to this kind, for example colour pictures to grey ones."""
        if others.kind.shape == self.kind.shape:
            return others
        return replace(others, inputs=self.kind.adapt(others.inputs), kind=self.kind)

    def rows_of_view(self, name: str, index: Tensor, draws: Draws) -> Tensor:
        """The inputs of a view: the examples, or one view of each if views were made beforehand."""
        stored = self.views.get(name) or self.views.get("strong")
        if not stored:
            return self.inputs.index_select(0, index)  # many times faster than [index]
        which = draws.integers(0, len(stored))
        rows = torch.empty(len(index), *self.kind.shape, dtype=self.inputs.dtype)
        for number, inputs in enumerate(stored):
            rows[which == number] = inputs.index_select(0, index[which == number])
        return rows

    def show(self, position: int) -> bytes | str:
        """One example for a person to look at: a PNG picture, or text."""
        if self.original is not None:
            return self.original.show(position)
        return self.kind.show(self.inputs[position])

    @property
    def known(self) -> int:
        """The number of labelled examples."""
        return int((self.labels != UNLABELLED).sum())

    @property
    def class_counts(self) -> list[int]:
        """The number of labelled examples of each class."""
        return self.labels[self.labels != UNLABELLED].bincount(minlength=len(self.classes)).tolist()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training examples and, optionally, held-out test examples, as `load` returns them."""

    name: str
    train: Examples
    test: Examples | None
    flip: bool  # is the mirror image of a picture still the same thing? never for digits
    notes: tuple[str, ...] = ()  # messages about what was read
    no_class: tuple[str, ...] = ()  # names of examples labelled (none); they are left out


def numbered(part: str, count: int) -> list[str]:
    """Names for unnamed examples: train/00000, train/00001, ..."""
    return [f"{part}/{i:05d}" for i in range(count)]
