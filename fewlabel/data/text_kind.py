"""Features of texts from an encoder. The network gets the features; people see the texts."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..encoders.text_encoder import TextEncoder
from ..encoders.texts import encode_texts, find_text_encoder
from ..errors import UserError
from ..scratch import room
from .row_files import Roles, RowFile
from .row_kind import RowKind

CHUNK = 4096  # texts in memory at a time


@dataclass(frozen=True)
class TextKind(RowKind):
    """float32 (N, columns), computed from texts by an encoder."""

    encoder: str = ""  # its name
    digest: str = ""  # of its weights
    text_column: str = "text"
    label_column: str | None = None
    id_column: str | None = None
    given: TextEncoder | None = field(default=None, compare=False, repr=False)  # the encoder itself, once it is loaded

    name = "texts"
    noun = "texts"
    family = "features"
    input_name = "features"
    shown_column = "text"

    def describe(self) -> str:
        return f"texts as {self.columns} features of {self.encoder}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.name, **{name: value for name, value in vars(self).items() if name != "given"}}

    @property
    def roles(self) -> Roles:
        return Roles(self.text_column, self.label_column, self.id_column)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.text_column,)

    def find(self) -> TextEncoder:
        """The encoder, whose weights must be those that computed the features."""
        encoder = self.given or find_text_encoder(self.encoder)
        if encoder.digest != self.digest:
            raise UserError(
                f"the encoder {self.encoder} has other weights than in training: restore the original weights, or "
                "train again."
            )
        return encoder

    def licence(self) -> str:
        return self.find().licence

    def export_note(self) -> str:
        return f"The file holds the classifier only: encode texts with {self.encoder} first."

    def of_cells(self, rows: Iterable[Sequence[str]], count: int) -> Tensor:
        encoder, texts = self.find(), (cells[0] for cells in rows)
        found = room((count, self.columns), np.float32)
        for first in range(0, count, CHUNK):
            part = list(itertools.islice(texts, CHUNK))
            found[first : first + len(part)] = encode_texts(encoder, part)
        return torch.from_numpy(found)

    def read(self, inputs: Any) -> Tensor:
        """A list of texts, which are encoded; or a table of features."""
        texts = [inputs] if isinstance(inputs, str) else inputs
        if not isinstance(texts, Tensor) and len(texts) and all(isinstance(text, str) for text in texts):
            return self.of_cells([(text,) for text in texts], len(texts))
        return super().read(inputs)


def text_kind(file: RowFile, encoder_name: str) -> tuple[TextKind, list[str]]:
    """Features of texts, and messages about long and empty texts."""
    encoder = find_text_encoder(encoder_name)
    cut = empty = 0
    for (text,) in file.inputs():
        cut += encoder.too_long(text)
        empty += not text
    notes = []
    if cut:
        notes.append(f"{cut} texts are longer than {encoder.longest} word pieces: only their beginning is read.")
    if empty:
        notes.append(f"{empty} texts are empty; they are used for training like the others.")
    assert file.roles.text is not None
    kind = TextKind(
        encoder.features,
        encoder=encoder_name,
        digest=encoder.digest,
        text_column=file.roles.text,
        label_column=file.roles.label,
        id_column=file.roles.id,
        given=encoder,
    )
    return kind, notes
