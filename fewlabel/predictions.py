"""Predictions: class probabilities of examples by name, and predictions.csv."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from .data.labels import normal
from .files import write_csv

COLUMNS = ("file", "label", "guess", "confirmed", "confidence")


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model predicts for some examples."""

    names: Sequence[str]
    probabilities: Tensor  # (N, classes)
    classes: tuple[str, ...]
    skipped: dict[str, str] = field(default_factory=dict)  # unreadable file -> reason

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
        """Those at some positions, without the skipped files."""
        return Predictions([self.names[i] for i in positions.tolist()], self.probabilities[positions], self.classes)

    def split(self, min_confidence: float) -> tuple["Predictions", "Predictions"]:
        """The confident ones in their order, and the others, least confident first."""
        confidence = self.confidence
        order = confidence.argsort()
        unsure = order[confidence[order] < min_confidence]
        sure = self.at((confidence >= min_confidence).nonzero().flatten())
        return replace(sure, skipped=self.skipped), self.at(unsure)

    def write(self, path: Path) -> None:
        """For a person to correct: label is the guess at first, and whoever agrees writes yes under confirmed.

        Then the confidence and one column per class. A picture that could not be read has empty columns.
        """
        rows: list[list[str]] = [
            [name, label, label, "", f"{confidence:.4f}", *(f"{p:.4f}" for p in row)]
            for name, label, confidence, row in zip(
                self.names, self.labels, self.confidence.tolist(), self.probabilities.tolist(), strict=True
            )
        ]
        rows += [[name] + [""] * (4 + len(self.classes)) for name in self.skipped]
        classes = [f"{name} (class)" if normal(name) in COLUMNS else name for name in self.classes]
        write_csv(path, (*COLUMNS, *classes), rows)
