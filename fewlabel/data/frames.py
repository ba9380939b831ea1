"""More inputs from Python: lists of texts and pandas DataFrames."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..decode import SUFFIXES
from ..encoders.listed import MINILM
from ..encoders.texts import find_text_encoder, is_text_encoder
from ..errors import UserError
from .columns import find_form
from .records import as_cell
from .row_kind import RowKind
from .table_kind import TableKind
from .text_kind import TextKind

NUMBERS = "biuf"  # kinds of numpy's types that are numbers
DATES = "Mm"
SHOWN = 40  # letters of a text in a message


def row_kind(inputs: Any, encoder: object, tuned: bool = False) -> RowKind | None:
    """The kind of a list of texts, or of a table with categories or missing values; None for everything else.

    `encoder` is what the user gave: a name, a module or None.
    """
    texts = as_texts(inputs)
    if isinstance(encoder, str) and is_text_encoder(encoder):
        if texts and not (encoder.startswith("hf/") and is_picture_file(texts[0])):
            if tuned:
                raise UserError(f"the encoder {encoder} of texts cannot be tuned: leave out tune.")
            found = find_text_encoder(encoder)
            return TextKind(found.features, encoder=encoder, digest=found.digest)
        if not encoder.startswith("hf/"):  # where there are encoders of pictures too
            raise UserError(f"the encoder {encoder} is for texts: give a list of strings, none of them missing.")
    if texts and not is_picture_file(texts[0]):
        raise UserError(
            f"X holds texts, such as '{texts[0][:SHOWN]}', which need an encoder of texts: encoder=\"{MINILM}\"."
        )
    if not is_table(inputs):
        return None
    if encoder is not None:
        raise UserError("an encoder cannot be used on a table with categories or missing values.")
    return frame_kind(inputs)


def read_cells(kind: RowKind, inputs: Any) -> Tensor:
    """Texts or rows of a table, as numbers."""
    if isinstance(kind, TableKind):
        return kind.of_cells(frame_cells(inputs), len(inputs))
    texts = as_texts(inputs)
    if not texts:
        raise UserError("X must be a list of texts, as it was in fit.")
    return kind.of_cells(((text,) for text in texts), len(texts))


def as_texts(inputs: Any) -> list[str]:
    """The strings of a list, an array or a column of pandas that holds nothing else; else an empty list."""
    if isinstance(inputs, str):
        return [inputs]
    if hasattr(inputs, "tolist") and getattr(inputs, "ndim", 0) == 1:
        inputs = inputs.tolist()
    if not isinstance(inputs, list | tuple) or not all(isinstance(item, str) for item in inputs):
        return []
    return list(inputs)


def is_picture_file(text: str) -> bool:
    return Path(text).suffix.lower() in SUFFIXES or os.path.exists(text)


# ---- tables of pandas


def is_table(inputs: Any) -> bool:
    """A table of pandas that is not all numbers: it has other columns, or missing values."""
    if not (hasattr(inputs, "iloc") and hasattr(inputs, "columns")):
        return False
    return any(dtype.kind not in NUMBERS for dtype in inputs.dtypes) or bool(inputs.isna().to_numpy().any())


def frame_kind(frame: Any) -> TableKind:
    """How each column of a DataFrame is used."""
    names = [str(name) for name in frame.columns]
    for name, dtype, place in zip(names, frame.dtypes, range(len(names)), strict=True):
        if dtype.kind in DATES:
            raise UserError(f"column '{name}' holds dates or times: drop it, or turn it into numbers.")
        if dtype.kind == "f" and np.isinf(frame.iloc[:, place].to_numpy(np.float64, na_value=np.nan)).any():
            raise UserError(f"column '{name}' contains infinity.")
    categories = {name for name, dtype in zip(names, frame.dtypes, strict=True) if dtype.name == "category"}
    form, _ = find_form(names, frame_cells(frame), categories, from_python=True)
    return TableKind(form.width, form=form)


def frame_cells(inputs: Any) -> Iterator[Sequence[str]]:
    """The rows of a table of pandas or of an array, as they would stand in a CSV file."""
    if not hasattr(inputs, "iloc"):
        return ([as_cell(value) for value in row] for row in np.asarray(inputs, dtype=object))
    columns = (inputs.iloc[:, place] for place in range(inputs.shape[1]))
    return zip(*([as_cell(value) for value in column] for column in columns), strict=True)
