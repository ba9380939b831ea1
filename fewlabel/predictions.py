"""CSV files for people: predictions to correct, and sheets of examples whose label is to be filled in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from .data import Examples
from .data.labels import normal
from .files import write_csv
from .pages import Shown, write_page

FILE, LABEL, *_ = COLUMNS = ("file", "label", "guess", "confirmed", "confidence")


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
        places = positions.tolist()
        texts = [self.texts[i] for i in places] if self.texts else ()
        names = [self.names[i] for i in places]
        return replace(self, names=names, probabilities=self.probabilities[positions], skipped={}, texts=texts)

    def split(self, min_confidence: float) -> tuple["Predictions", "Predictions"]:
        """The confident ones in their order, and the others, least confident first."""
        confidence = self.confidence
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
        best = self.probabilities.argmax(1)
        for place, name in enumerate(self.names):
            row, label = self.probabilities[place].tolist(), self.classes[int(best[place])]
            yield [
                name,
                label,
                label,
                "",
                f"{max(row):.4f}",
                *(f"{p:.4f}" for p in row),
                *self.texts[place : place + 1],
            ]
        for name in self.skipped:
            yield [name] + [""] * (4 + len(self.classes))


def texts_of(examples: Examples, positions: Sequence[int]) -> list[str]:
    """The text of examples, for a column of a CSV file; empty for pictures."""
    return [str(examples.show(position)) for position in positions] if examples.kind.shown_column else []


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
