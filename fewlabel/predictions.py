"""CSV files for people: predictions to correct, and sheets of examples whose label is to be filled in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .data import Examples
from .data.labels import normal
from .files import write_csv
from .pages import Shown, write_page
from .scratch import Chosen, slices

FILE, LABEL, *_ = COLUMNS = ("file", "label", "guess", "confirmed", "confidence")
ROWS = 1024  # written at a time


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of a model for some examples."""

    names: Sequence[str]
    probabilities: Tensor  # (N, classes)
    classes: tuple[str, ...]
    skipped: dict[str, str] = field(default_factory=dict)  # unreadable file -> reason
    texts: Sequence[str] = ()  # what the examples are, where they are texts or rows of a table
    text_column: str = ""  # its header

    def __len__(self) -> int:
        return len(self.names)

    @property
    def confidence(self) -> Tensor:
        """The probability of the predicted class."""
        return self.probabilities.amax(1)

    @property
    def labels(self) -> list[str]:
        return [self.classes[k] for k in self.probabilities.argmax(1).tolist()]

    def at(self, positions: Tensor) -> "Predictions":
        """The predictions at some positions, without the skipped files."""
        places = positions.numpy()
        texts = Chosen(self.texts, places) if self.texts else ()
        names = Chosen(self.names, places)
        return replace(self, names=names, probabilities=self.probabilities[positions], skipped={}, texts=texts)

    def split(self, min_confidence: float) -> tuple["Predictions", "Predictions"]:
        """The confident ones in their order, and the others, least confident first."""
        confidence = self.confidence
        if bool((confidence >= min_confidence).all()):
            return self, self.at(torch.empty(0, dtype=torch.int64))
        order = confidence.argsort()
        unsure = order[confidence[order] < min_confidence]
        sure = self.at((confidence >= min_confidence).nonzero().flatten())
        return replace(sure, skipped=self.skipped), self.at(unsure)

    def write(self, path: Path) -> None:
        """For a person to correct: label is the guess at first, and whoever agrees writes yes under confirmed.

        Then the confidence and one column per class; of texts and rows of a table, what they are. A picture that could
        not be read has empty columns.
        """
        last = [self.text_column] if self.texts else []
        taken = (*COLUMNS, *last)
        classes = [f"{name} (class)" if normal(name) in taken else name for name in self.classes]
        write_csv(path, (*COLUMNS, *classes, *last), self._rows())

    def _rows(self) -> Iterator[list[str]]:
        """The rows, one at a time: there may be millions."""
        for part in slices(len(self), ROWS):
            probabilities, names, texts = self.probabilities[part], self.names[part], self.texts[part]
            rows, best = probabilities.tolist(), probabilities.argmax(1).tolist()
            for place, (name, row, number) in enumerate(zip(names, rows, best, strict=True)):
                label = self.classes[number]
                shown = (f"{p:.4f}" for p in row)
                yield [name, label, label, "", f"{max(row):.4f}", *shown, *texts[place : place + 1]]
        for name in self.skipped:
            yield [name] + [""] * (4 + len(self.classes))


class Texts(Sequence[str]):
    """What examples at some positions are, read when it is asked for."""

    def __init__(self, examples: Examples, positions: Sequence[int] | NDArray[np.int64]) -> None:
        self._examples, self._positions = examples, positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [str(self._examples.show(int(position))) for position in self._positions[place]]
        return str(self._examples.show(int(self._positions[place])))


def texts_of(examples: Examples, positions: Sequence[int] | NDArray[np.int64]) -> Sequence[str]:
    """The text of examples, for a column of a CSV file; empty for pictures."""
    return Texts(examples, positions) if examples.kind.shown_column else ()


def write_sheet(path: Path, examples: Examples, positions: Sequence[int], title: str, advice: str) -> Path:
    """A CSV file whose labels are to be filled in, and beside it a page that shows the examples in that order."""
    names, texts = [examples.names[position] for position in positions], texts_of(examples, positions)
    header = (FILE, LABEL, examples.kind.shown_column) if texts else (FILE, LABEL)
    write_csv(path, header, [(name, "", *texts[i : i + 1]) for i, name in enumerate(names)])
    page = path.with_suffix(".html")
    shown = [
        Shown(name, examples.show(position), str(rank))
        for rank, (name, position) in enumerate(zip(names, positions, strict=True), 1)
    ]
    write_page(page, "to-label.html.jinja", {"title": title, "advice": advice, "examples": shown})
    return page
