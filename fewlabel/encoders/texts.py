"""Encoders of texts by name: minilm, and models of sentence-transformers. Their features are cached on disk."""

import hashlib
import importlib
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError, unknown
from ..terminal import with_progress
from .encoder import weights_digest
from .listed import MINILM
from .minilm import load_minilm
from .store import FeatureStore, StoredPositions
from .text_encoder import BATCH, TextEncoder

INSTALL = "pip install sentence-transformers"
PREFIXES = ("sentence-transformers", "hf")
EXAMPLES = ("sentence-transformers/NAME", "hf/ORG/NAME")
POSITIONS: dict[Path, StoredPositions] = {}  # of the stores in use, since texts are encoded some at a time


def is_text_encoder(name: str) -> bool:
    prefix, _, rest = name.partition("/")
    return name == MINILM or (prefix in PREFIXES and bool(rest))


@cache
def find_text_encoder(name: str) -> TextEncoder:
    if not is_text_encoder(name):
        raise unknown("encoder of texts", name, (MINILM, *EXAMPLES))
    return load_minilm() if name == MINILM else load_sentence_transformer(name)


def load_sentence_transformer(name: str) -> TextEncoder:
    """A model of the Hugging Face hub, or of a folder that sentence-transformers wrote. No code of it is run."""
    hide_broken_torchvision()
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise UserError(f"the encoder {name} needs sentence-transformers: {INSTALL}.") from error
    try:
        model = SentenceTransformer(
            name.removeprefix("hf/"), device="cpu", trust_remote_code=False, model_kwargs={"use_safetensors": True}
        )
    except Exception as error:  # no network, no such model, damaged files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"the encoder {name} cannot be loaded ({reason}).") from error

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        rows = model.encode(list(texts), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(rows, np.float32)

    def count_pieces(text: str) -> int:
        return len(model.tokenizer(text, truncation=False, verbose=False)["input_ids"])

    width = int(encode([""]).shape[1])
    return TextEncoder(name, encode, count_pieces, width, int(model.max_seq_length or 512), weights_digest(model))


def hide_broken_torchvision() -> None:
    """transformers imports torchvision where it finds it, also one that does not fit the installed torch."""
    if "torchvision" not in sys.modules:
        try:
            importlib.import_module("torchvision")
        except (ImportError, RuntimeError):
            sys.modules["torchvision"] = None  # type: ignore[assignment]  # the import system's way to say: not there


def encode_texts(encoder: TextEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """(N, features); what was encoded before is read from disk."""
    store = FeatureStore(encoder)
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    known = positions_in(store)
    found = known.find(digests)
    missing = {digests[i]: texts[i] for i in np.flatnonzero(found < 0).tolist()}
    items = sorted(missing.items(), key=lambda item: len(item[1]))  # texts of like length go together
    chunks = [items[first : first + BATCH] for first in range(0, len(items), BATCH)]
    title = f"Encoding {len(missing)} texts with {encoder.name}"
    for chunk in with_progress(chunks, len(chunks), title) if chunks else ():
        store.add([digest for digest, _ in chunk], encoder([text for _, text in chunk]))
    if chunks:
        known.update()
        found = known.find(digests)
    return store.read(found)


def positions_in(store: FeatureStore) -> StoredPositions:
    if store.folder not in POSITIONS:
        POSITIONS[store.folder] = StoredPositions(store)
    POSITIONS[store.folder].update()
    return POSITIONS[store.folder]
