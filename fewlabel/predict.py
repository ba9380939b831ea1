"""Labels for pictures that have none, as a table."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from .data.folder import read_unlabelled
from .errors import UserError
from .evaluate import CHUNK, probabilities
from .files import write_csv
from .networks import Classifier


def predict(network: Classifier, path: Path, size: int) -> tuple[list[str], Tensor, dict[str, str]]:
    """Names and class probabilities of the pictures of a folder, and why others could not be read.

    The next pictures are decoded while the network looks at these.
    """
    names, guesses, skipped = list[str](), list[Tensor](), dict[str, str]()
    for images in read_unlabelled(path, size, CHUNK, title="Labelling"):
        names += images.names
        skipped |= images.skipped
        if len(images):
            guesses.append(probabilities(network, images.pixels))
    if not names:
        name, reason = next(iter(skipped.items()))
        raise UserError(f"none of the {len(skipped)} pictures in {path} can be read, beginning with {name} ({reason}).")
    return names, torch.cat(guesses), skipped


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
