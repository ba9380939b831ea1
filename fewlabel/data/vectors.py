"""Vectors: rows of numbers, such as tables, embeddings and signals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..augment.vectors import vector_view
from ..errors import UserError
from .arrays import as_array
from .examples import UNLABELLED, Examples, numbered
from .kind import Kind, Making

LIKE = 10  # ranges of columns are similar if the largest is at most this many times the median
SHOWN = 6  # numbers of a row


@dataclass(frozen=True)
class VectorKind(Kind):
    """float32 (N, columns), each column on a scale of its own.

    No augmentation of a row is safe by nature, so views are the row itself unless `noise` or `dropout` are given.
    """

    columns: int
    noise: float = 0.0  # of strong views, in standard deviations of the column; weak views have half of it
    dropout: float = 0.0  # share of columns that strong views lose: they get their mean instead

    name = "vectors"
    family = "vectors"
    noun = "rows"
    image_views = False
    input_name = "rows"
    dtype = torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.columns,)

    def describe(self) -> str:
        return f"rows of {self.columns} numbers"

    def default_network(self, device: torch.device, pretrained: bool = False) -> str:
        return "mlp"

    def statistics(self, inputs: Tensor, most: int = 10_000) -> tuple[Tensor, Tensor]:
        """Mean of each column, and its standard deviation, or one for all columns if their ranges are similar.

        Columns of a table are in units of their own. Pixels and embeddings are not: there a column that hardly varies
        hardly matters, and to make it as large as the others would blow up its noise.
        """
        sample = inputs[:: -(-len(inputs) // most)]
        std, mean = torch.std_mean(sample.double(), dim=0, correction=0)
        std = std.float()  # which may round to 0
        ranges = (sample.amax(0) - sample.amin(0))[std > 0]
        if len(ranges) and ranges.max() <= LIKE * ranges.median():
            common = std[std > 0].double().square().mean().sqrt().float()
            return mean.float(), common.repeat(len(std))
        return mean.float(), torch.where(std > 0, std, 1.0)

    def view(self, rows: Tensor, name: str, make: Making) -> Tensor:
        return make.gather(vector_view(make.scale(rows), name, make.draws, self.noise, self.dropout))

    def rows(self, inputs: Tensor) -> Tensor:
        return inputs

    def with_views(self, noise: float, dropout: float) -> "VectorKind":
        return replace(self, noise=noise or self.noise, dropout=dropout or self.dropout)

    def stream(self, path: Path, chunk: int, title: str = "") -> Iterator[Examples]:
        """The rows `x` of an .npz file (or its `x_test`, or `x_train`)."""
        from .npz import read_rows

        rows = self.adapt(read_rows(path))
        names = numbered(path.stem, len(rows))
        for first in range(0, len(rows), chunk):
            part = slice(first, first + chunk)
            labels = torch.full((len(rows[part]),), UNLABELLED)
            yield Examples(rows[part], labels, (), names[part], self)

    def read(self, inputs: Any) -> Tensor:
        try:
            array = as_array(inputs).astype(np.float32)
        except (TypeError, ValueError) as error:
            raise UserError(f"rows must be numbers ({error}).") from error
        if not np.isfinite(array).all():
            raise UserError("the rows contain NaN or infinity.")
        return self.adapt(torch.from_numpy(np.ascontiguousarray(array)))

    def show(self, row: Tensor) -> str:
        more = f", … ({self.columns} numbers)" if self.columns > SHOWN else ""
        return ", ".join(f"{value:.3g}" for value in row[:SHOWN].tolist()) + more


def Vectors(  # noqa: N802
    rows: Tensor,
    labels: Tensor,
    classes: tuple[str, ...],
    names: Sequence[str],
    noise: float = 0.0,
    dropout: float = 0.0,
    source: str = "",
) -> Examples:
    """Examples of vectors: `rows` are float32 (N, D)."""
    return Examples(rows, labels, classes, names, VectorKind(rows.shape[1], noise, dropout), source=source)
