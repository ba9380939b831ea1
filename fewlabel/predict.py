"""Labels for pictures that have none, as a table."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from .files import write_csv


def write_predictions(
    path: Path, names: Sequence[str], guesses: Tensor, classes: Sequence[str], skipped: dict[str, str]
) -> None:
    """file, label, confidence and one column for each class; a picture that could not be read has empty ones."""
    confidence, label = guesses.max(1) if len(names) else (torch.empty(0), torch.empty(0, dtype=torch.long))
    rows: list[list[str]] = [
        [name, classes[k], f"{c:.4f}", *(f"{p:.4f}" for p in row)]
        for name, k, c, row in zip(names, label.tolist(), confidence.tolist(), guesses.tolist(), strict=True)
    ]
    rows += [[name] + [""] * (2 + len(classes)) for name in skipped]
    write_csv(path, ("file", "label", "confidence", *classes), rows)
