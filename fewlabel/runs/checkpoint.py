"""Checkpoints: tensors and metadata in one file with a checksum; after a kill, the previous one is intact."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import safetensors.torch

from ..files import write_atomically
from ..run_files import LAST, NEW, PREVIOUS
from ..training.trainer import Checkpoint

MAGIC = b"fewlabel checkpoint 1\n"
DIGEST = 32  # bytes of the SHA-256 that follows


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """A new last.ckpt; the one before becomes previous.ckpt."""
    tensors, facts = checkpoint
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    payload = safetensors.torch.save(tensors, {"facts": json.dumps(facts)})
    write_atomically(directory / NEW, MAGIC + hashlib.sha256(payload).digest() + payload)
    if (directory / LAST).exists():
        os.replace(directory / LAST, directory / PREVIOUS)
    os.replace(directory / NEW, directory / LAST)


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None."""
    for name in (LAST, PREVIOUS):
        if (directory / name).exists() and (content := read_checkpoint(directory / name)):
            return content
    return None


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Tensors and facts of a checkpoint, or None if it was cut off or changed."""
    content = path.read_bytes()
    start = len(MAGIC) + DIGEST
    payload = content[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(payload).digest() != content[len(MAGIC) : start]:
        return None
    header = int.from_bytes(payload[:8], "little")  # safetensors: length of a JSON header, the header, the numbers
    facts: dict[str, Any] = json.loads(json.loads(payload[8 : 8 + header])["__metadata__"]["facts"])
    return safetensors.torch.load(payload), facts
