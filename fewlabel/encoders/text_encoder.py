"""TextEncoder: a model that turns texts into rows of features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BATCH = 64  # texts at a time
LETTERS = 20  # of a text for each word piece that an encoder reads: what lies beyond is not even split into pieces


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A model that turns texts into rows of features."""

    name: str
    encode: Callable[[Sequence[str]], NDArray[np.float32]]
    count_pieces: Callable[[str], int]  # word pieces of a text, with those that mark its beginning and end
    features: int
    longest: int  # word pieces; of longer texts the beginning counts
    digest: str  # of the weights
    licence: str = "see its model card"

    def store_key(self, backend: str) -> str:
        """A key that changes whenever its features would."""
        return f"text {self.longest} {self.digest} {backend} float32"

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode([text[: LETTERS * self.longest] for text in texts])

    def too_long(self, text: str) -> bool:
        """Whether the text is too long for the encoder."""
        if len(text) <= self.longest - 2:  # a word piece has a letter at least
            return False
        return self.count_pieces(text[: LETTERS * self.longest]) > self.longest
