"""Fingerprints of data, to compare them with earlier data or those of another machine."""

import hashlib
import zlib

import numpy as np

from ..scratch import slices
from .examples import Dataset

NAMES = 4096  # at a time


def data_digest(dataset: Dataset) -> str:
    """A digest of sizes, classes, kind, labels and names, independent of the location of the files."""
    digest = hashlib.sha256()
    for examples in filter(None, (dataset.train, dataset.test)):
        digest.update(repr((tuple(examples.inputs.shape), examples.classes, examples.kind.identity())).encode())
        digest.update(np.ascontiguousarray(examples.labels.numpy()).data)
        before = ""
        for part in slices(len(examples.names), NAMES):
            digest.update((before + "\n".join(examples.names[part])).encode("utf-8", "surrogateescape"))
            before = "\n"
    return digest.hexdigest()


def data_fingerprint(dataset: Dataset) -> str:
    """Changes when examples are changed, added, removed, renamed, resized or labelled differently."""
    digest = hashlib.sha256(data_digest(dataset).encode())
    for examples in filter(None, (dataset.train, dataset.test)):
        digest.update(examples.source.encode())  # of a folder: the sizes and times of its files
        if not examples.source:
            checksum = 0
            for part in examples.inputs.split(4096):
                checksum = zlib.crc32(part.contiguous().numpy(), checksum)
            digest.update(checksum.to_bytes(4, "little"))
    return digest.hexdigest()
