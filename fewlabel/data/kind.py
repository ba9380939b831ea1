"""Kind: everything that depends on what the inputs are. One file per kind: images.py, vectors.py."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from ..encoders import NONE, Encoder
from ..errors import UserError
from ..randomness import Draws
from ..value_range import ValueRange
from .labels import LabelFiles

if TYPE_CHECKING:
    from .examples import Examples


@dataclass(frozen=True)
class Making:
    """The random numbers, settings and functions for making a view."""

    draws: Draws  # random numbers, for each row its own
    without: Collection[str]  # augmentations to leave out
    scale: Callable[[Tensor], Tensor]  # subtracts the mean and divides by the standard deviation
    gather: Callable[[Tensor], Tensor]  # adds the rows of other processes


class Kind(ABC):
    """How inputs of one kind are checked, scaled, augmented, read and shown. Subclasses are frozen dataclasses."""

    name: ClassVar[str]  # in model.json
    family: ClassVar[str]  # images, vectors or features: whose defaults of methods it takes
    noun: ClassVar[str]  # in messages, plural
    image_views: ClassVar[bool]  # are its views augmentations of images?
    input_name: ClassVar[str]  # in ONNX files
    dtype: ClassVar[torch.dtype]  # of the inputs
    encoder: str = NONE  # that made the inputs, by its name
    label_places: ClassVar[str] = "with --labels, in one subfolder per class, or in y_train of an .npz file"
    shown_column: ClassVar[str] = ""  # of CSV files that people read: what the example is, where it is text
    value_range: ValueRange | None = None  # of pictures with more than 8 bits, where there were such

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @abstractmethod
    def describe(self) -> str:
        """A description for messages, such as `images of 8x8`."""

    @abstractmethod
    def default_network(self, device: torch.device, pretrained: bool = False) -> str:
        """The default network for these inputs on a device, in a run with a first stage or without."""

    @abstractmethod
    def statistics(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The mean to subtract and the standard deviation to divide by, shaped so that both apply to a batch."""

    @abstractmethod
    def view(self, rows: Tensor, name: str, make: Making) -> Tensor:
        """A view ("weak", "strong", "simclr") of some rows, scaled for the network."""

    def with_views(self, noise: float, dropout: float) -> "Kind":
        """This kind with noise and dropout in its views, for vectors only."""
        if noise or dropout:
            raise UserError(f"--noise and --dropout are for vectors, not for {self.describe()}.")
        return self

    @abstractmethod
    def read(self, inputs: Any) -> Tensor:
        """Convert a user's inputs to a batch of this kind; raises UserError if they do not fit."""

    def accepts(self, other: "Kind") -> bool:
        """Whether a model of this kind can predict inputs of the other kind."""
        return self.shape == other.shape

    @abstractmethod
    def show(self, row: Tensor) -> bytes | str:
        """One input to show to a person: a PNG picture, or text."""

    def stream(self, path: Path, chunk: int, title: str = "") -> Iterator["Examples"]:
        """The unlabelled examples of a folder, `chunk` at a time; with a `title` a bar shows the progress."""
        raise UserError(f"{path} is given as pictures, but the model is for {self.describe()}.")

    def load_test(self, folder: Path, classes: Sequence[str], labels: LabelFiles) -> "Examples":
        """A folder of labelled examples to evaluate a model on."""
        raise UserError(f"{folder} is a folder, but the model is for {self.describe()}.")

    def with_label_column(self, name: str) -> "Kind":
        """This kind, with the labels of a file in that column."""
        raise UserError(f"--label-column is for files of rows; the model is for {self.describe()}.")

    def load_file(self, path: Path, labels: LabelFiles) -> "Examples":
        """All rows of a file, with the labels that are known."""
        raise UserError(f"{path} is a file of rows, but the model is for {self.describe()}.")

    def rows(self, inputs: Tensor) -> Tensor | None:
        """The inputs, if they are rows of numbers in which similar examples are close; else None."""
        return None

    def comparable_rows(self, inputs: Tensor) -> Tensor | None:
        """Rows of numbers for finding similar examples; None if the inputs do not allow that."""
        return self.rows(inputs)

    def encoded(self, examples: "Examples", encoder: Encoder, views: int = 0, flip: bool = True) -> "Examples":
        """Features of examples of this kind, and of the given number of weak and strong views of each."""
        raise UserError(f"--encoder is for pictures, not for {self.describe()}.")

    def licence(self) -> str:
        """The licence of the frozen encoder behind the inputs."""
        return ""

    def export_metadata(self) -> dict[str, str]:
        """Metadata about the inputs, for programs that use an exported model."""
        return {}

    def export_note(self) -> str:
        """A note about the inputs of an exported model."""
        return ""

    def exported(self) -> tuple[nn.Module, tuple[int, ...], torch.dtype]:
        """The preprocessing of an exported model, and the shape and type of one input."""
        return nn.Identity(), self.shape, self.dtype

    def adapt(self, inputs: Tensor) -> Tensor:
        """Convert a batch of an accepted kind to this kind."""
        if tuple(inputs.shape[1:]) != self.shape:
            raise UserError(f"inputs of shape {tuple(inputs.shape[1:])} do not fit a model of {self.describe()}.")
        return inputs

    def check(self, inputs: Tensor) -> None:
        assert inputs.dtype == self.dtype, f"{self.noun} are {self.dtype}, not {inputs.dtype}"
        assert tuple(inputs.shape[1:]) == self.shape, f"{self.noun} of {self.shape}, not {tuple(inputs.shape[1:])}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.name, **without_range(asdict(self))}  # type: ignore[call-overload]

    def identity(self) -> dict[str, Any]:
        """What must be equal in data that a run can go on with."""
        return self.to_dict()


def without_range(description: dict[str, Any]) -> dict[str, Any]:
    """The fields without an empty range of values, the usual case."""
    return {name: value for name, value in description.items() if name != "value_range" or value is not None}
