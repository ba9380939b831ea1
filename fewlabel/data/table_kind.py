"""Rows of a table: numbers and categories, as columns.py says."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import UserError
from ..scratch import room, slices
from .columns import FromCells, TableForm, find_form
from .records import as_cell
from .row_files import PART, Roles, RowFile
from .row_kind import RowKind


@dataclass(frozen=True)
class TableKind(RowKind):
    """float32 (N, columns), made of the cells of a table.

    Its defaults are those of features: a first guess from labels, neighbours and clusters, see docs/compared.md.
    """

    form: TableForm = field(default_factory=lambda: TableForm(()))  # what each column of the table becomes
    label_column: str | None = None
    id_column: str | None = None

    name = "table"
    family = "features"
    shown_column = "row"

    def __post_init__(self) -> None:
        if isinstance(self.form, list):  # from model.json
            object.__setattr__(self, "form", TableForm.from_list(self.form))

    def describe(self) -> str:
        used = sum(column.width > 0 for column in self.form.columns)
        return f"rows of {used} columns, as {self.columns} numbers"

    @property
    def roles(self) -> Roles:
        return Roles(label=self.label_column, id=self.id_column)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.form.columns)

    @property
    def unused(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.form.columns if not column.width)

    def statistics(self, inputs: Tensor, most: int = 10_000) -> tuple[Tensor, Tensor]:
        """Numbers as other vectors; what is 0 or 1, of categories and missing values, keeps its size."""
        sample = inputs[:: -(-len(inputs) // most)]
        mean, std = sample.double().mean(0).float(), torch.ones(self.columns)
        places = torch.tensor(self.form.numbers)
        if len(places):
            mean[places], std[places] = super().statistics(sample[:, places], most)
        return mean, std

    def rows(self, inputs: Tensor) -> Tensor:
        """The rows in comparable units."""
        mean, std = self.statistics(inputs)
        found = torch.from_numpy(room(tuple(inputs.shape), np.float32))
        for part in slices(len(inputs), PART):
            found[part] = (inputs[part] - mean) / std
        return found

    def of_cells(self, rows: Iterable[Sequence[str]], count: int) -> Tensor:
        return torch.from_numpy(self.form.encode(rows, count))

    def read(self, inputs: Any) -> Tensor:
        """A table with named columns (of pandas, say), or rows of the numbers that columns become."""
        names = getattr(inputs, "columns", None)
        if names is None:
            return super().read(inputs)
        for name in self.inputs:
            if name not in names and name not in self.unused:
                raise UserError(f"the table has no column '{name}', which the model was trained on.")
        nothing = [""] * len(inputs)
        columns = [[as_cell(x) for x in inputs[name]] if name in names else nothing for name in self.inputs]
        return self.of_cells(list(zip(*columns, strict=True)), len(inputs))

    def export_metadata(self) -> dict[str, str]:
        """The names of the numbers of a row."""
        used = [column for column in self.form.columns if column.width]
        told = [{"name": one.name, "role": one.role, "categories": list(one.categories)} for one in used]
        return {"columns": json.dumps(told)}

    def export_note(self) -> str:
        return (
            "One number per column: NaN where it is missing, and of a category its place in the list that the file's "
            "metadata has under columns."
        )

    def exported(self) -> tuple[nn.Module, tuple[int, ...], torch.dtype]:
        """One number per column of the table; NaN where it is missing."""
        module = FromCells(self.form)
        return module, (len(module.columns),), self.dtype

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.name, **asdict(self), "form": self.form.to_list()}

    def identity(self) -> dict[str, Any]:
        """Without the words for a person."""
        form = [{name: value for name, value in column.items() if name != "why"} for column in self.form.to_list()]
        return self.to_dict() | {"form": form}


def table_kind(file: RowFile) -> tuple[TableKind, list[str]]:
    """How each column of a file is used, and messages about it."""
    form, _ = find_form(file.columns, file.inputs())
    kind = TableKind(form.width, form=form, label_column=file.roles.label, id_column=file.roles.id)
    return kind, [form.describe()]
