"""MNIST's idx files, with or without gzip."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from ..errors import UserError

IMAGES, LABELS = 2051, 2049  # magic numbers: uint8 in three dimensions, uint8 in one


def read_idx(path: Path, magic: int) -> np.ndarray:
    """The uint8 array in an idx file whose magic number must be `magic`."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is an incomplete gzip file: download it again.") from error
    dimensions = magic % 256
    header = 4 + 4 * dimensions
    if len(content) < header or struct.unpack(">I", content[:4])[0] != magic:
        raise UserError(f"{path} is not the expected idx file (its magic number is not {magic}): download it again.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise UserError(
            f"{path} holds {len(content) - header} bytes of data, but its header says {math.prod(shape)}: download it "
            "again."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
