"""MiniLM-L6 for sentences: a small BERT whose word vectors are averaged and scaled to length 1.

Wang et al., https://arxiv.org/abs/2002.10957; the weights are those of sentence-transformers/all-MiniLM-L6-v2, in a
package that works offline. They are opened as tensors only and checked against the digest below.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import UserError
from .listed import LICENCE, MINILM, MINILM_PACKAGE, TEXT, is_installed, package_folder
from .text_encoder import BATCH, TextEncoder

FEATURES, MEGABYTES = 384, 87
DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, INNER, WORDS, POSITIONS, EPSILON = 6, 12, 1536, 30522, 512, 1e-12
LONGEST = 256  # word pieces, as it was trained


class Layer(nn.Module):
    """Attention, then two linear layers; each is added to its input and normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(FEATURES, FEATURES) for _ in range(4))
        self.attention_norm = nn.LayerNorm(FEATURES, EPSILON)
        self.inner, self.outer = nn.Linear(FEATURES, INNER), nn.Linear(INNER, FEATURES)
        self.norm = nn.LayerNorm(FEATURES, EPSILON)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        """(N, pieces, FEATURES); `present` (N, 1, 1, pieces) is False where a text has ended."""
        query, key, value = (
            part(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=present)
        x = self.attention_norm(x + self.output(attended.transpose(1, 2).flatten(2)))
        return self.norm(x + self.outer(F.gelu(self.inner(x))))


class MiniLM(nn.Module):
    """Word pieces (N, pieces) to sentence embeddings (N, FEATURES) of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, FEATURES), nn.Embedding(POSITIONS, FEATURES)
        self.kinds = nn.Embedding(2, FEATURES)  # of BERT's two sentences; there is one
        self.norm = nn.LayerNorm(FEATURES, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, pieces: Tensor, present: Tensor) -> Tensor:
        places = torch.arange(pieces.shape[1], device=pieces.device)
        x = self.norm(self.words(pieces) + self.positions(places) + self.kinds.weight[0])
        for layer in self.layers:
            x = layer(x, present[:, None, None])
        share = present[:, :, None].to(x.dtype)
        return F.normalize((x * share).sum(1) / share.sum(1), dim=1)

    def load_weights(self, tensors: dict[str, Tensor]) -> None:
        """Load the published weights, with the parameter names of BERT."""
        names = {"words": "word_embeddings", "positions": "position_embeddings", "kinds": "token_type_embeddings"}
        places = {f"{ours}.weight": f"embeddings.{theirs}.weight" for ours, theirs in names.items()}
        places |= {f"norm.{part}": f"embeddings.LayerNorm.{part}" for part in ("weight", "bias")}
        parts = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value"}
        parts |= {"output": "attention.output.dense", "attention_norm": "attention.output.LayerNorm"}
        parts |= {"inner": "intermediate.dense", "outer": "output.dense", "norm": "output.LayerNorm"}
        for number in range(LAYERS):
            for ours, theirs in parts.items():
                for part in ("weight", "bias"):
                    places[f"layers.{number}.{ours}.{part}"] = f"encoder.layer.{number}.{theirs}.{part}"
        self.load_state_dict({ours: tensors[theirs] for ours, theirs in places.items()})


def model_folder() -> Path | None:
    """The folder of the model; None if it is not installed."""
    package = package_folder(MINILM_PACKAGE)
    return None if package is None else package / "model"


@cache
def load_minilm() -> TextEncoder:
    folder = model_folder()
    if folder is None or not is_installed(MINILM):
        raise UserError(f"the encoder {MINILM} is not installed: {TEXT}.")
    from tokenizers import Tokenizer

    try:
        content = (folder / "model.safetensors").read_bytes()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises nothing more specific
        raise UserError(f"the encoder {MINILM} cannot be read from {folder} ({error}): {TEXT}.") from error
    if hashlib.sha256(content).hexdigest() != DIGEST:
        raise UserError(f"{folder} does not hold the published weights of {MINILM}: install it again.")
    network = MiniLM().eval().requires_grad_(False)
    network.load_weights(safetensors.torch.load(content))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def count_pieces(text: str) -> int:
        return len(tokenizer.encode(text).ids)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        tokenizer.enable_truncation(LONGEST)
        found = [torch.tensor(one.ids) for one in tokenizer.encode_batch(list(texts))]
        tokenizer.no_truncation()
        parts = []
        for first in range(0, len(found), BATCH):
            some = found[first : first + BATCH]
            lengths = torch.tensor([len(ids) for ids in some])
            pieces = nn.utils.rnn.pad_sequence(some, batch_first=True)
            with torch.inference_mode():
                parts.append(network(pieces, torch.arange(pieces.shape[1]) < lengths[:, None]))
        return torch.cat(parts).numpy()

    return TextEncoder(MINILM, encode, count_pieces, FEATURES, LONGEST, DIGEST, LICENCE)
