"""The feature store: features on disk, indexed by the content of each picture.

One folder per encoder, decoder and size. It holds two files that only grow: digests, of 32 bytes each, and features, a
row of float32 each. A kill leaves at most an incomplete last row, which the next writer removes. So encoding continues
where it was, a known picture under any name costs nothing, and a hundred new ones cost a hundred.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from ..decode import cache_folder
from ..errors import UserError
from ..scratch import room
from .encoder import Encoder
from .text_encoder import TextEncoder

FORMAT = 2  # raise it when features are made in another way, so that old ones are not used
DIGEST = 32  # bytes of a SHA-256
RECENT = 100_000  # features that were added since the others were sorted, at most


def content_digest(path: Path) -> bytes:
    """The digest of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


class FeatureStore:
    """Features (rows of float32) of one encoder, by the digest of the picture file or of the text."""

    def __init__(self, encoder: Encoder | TextEncoder, backend: str = "torch") -> None:
        key = f"{FORMAT} {encoder.store_key(backend)}"
        assert encoder.features is not None
        self.features = encoder.features
        self.folder = cache_folder() / "features" / hashlib.sha256(key.encode()).hexdigest()[:32]
        self.digests, self._rows = self.folder / "digests", self.folder / "features.f32"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.parent.chmod(0o700)
        except OSError as error:
            raise cannot_keep(self.folder, error) from error

    @property
    def row_bytes(self) -> int:
        return 4 * self.features

    def __len__(self) -> int:
        """Whole rows of both files."""
        sizes = [path.stat().st_size if path.exists() else 0 for path in (self.digests, self._rows)]
        return min(sizes[0] // DIGEST, sizes[1] // self.row_bytes)

    def positions(self) -> dict[bytes, int]:
        """Digest -> row of all stored features."""
        count = len(self)
        content = self.digests.read_bytes()[: count * DIGEST] if count else b""
        return {content[DIGEST * i : DIGEST * (i + 1)]: i for i in range(count)}

    def read(self, rows: Sequence[int] | NDArray[np.int64]) -> np.ndarray:
        """A copy of those rows (N, features)."""
        if not len(rows):
            return np.empty((0, self.features), np.float32)
        stored = np.memmap(self._rows, np.float32, "r", shape=(len(self), self.features))
        return stored[np.asarray(rows)]

    def add(self, digests: Sequence[bytes], features: np.ndarray) -> None:
        """Append rows; several processes may do so, one after the other. A row counts once its digest is there."""
        assert features.shape == (len(digests), self.features) and features.dtype == np.float32
        try:
            with FileLock(self.folder / ".lock"):
                count = len(self)
                append(self._rows, count * self.row_bytes, np.ascontiguousarray(features).tobytes())
                append(self.digests, count * DIGEST, b"".join(digests))
        except OSError as error:
            raise cannot_keep(self.folder, error) from error


class StoredPositions:
    """Rows of a store by digest, in 16 bytes each; `FeatureStore.positions` takes ten times as much.

    Sorted by the first 8 bytes of the digests. What is added later lies in a dictionary, until it is much.
    """

    def __init__(self, store: FeatureStore) -> None:
        self._store, self._recent, self._count, self._seen = store, dict[bytes, int](), 0, 0
        self._sort()

    def _digests(self) -> NDArray[np.uint64]:
        count = len(self._store)
        if not count:
            return np.empty((0, DIGEST // 8), np.uint64)
        return np.memmap(self._store.digests, np.uint64, "r", shape=(count, DIGEST // 8))

    def _sort(self) -> None:
        digests = self._digests()
        self._count, self._seen, self._recent = len(digests), len(digests), {}
        order = np.argsort(digests[:, 0], kind="stable")
        self._keys, self._rows = room((len(order),), np.uint64), room((len(order),), np.int64)
        self._keys[:], self._rows[:] = digests[order, 0], order

    def update(self) -> None:
        """Take in what was added since, by whomever."""
        digests = self._digests()
        if len(digests) < self._seen or len(digests) - self._count > RECENT:
            self._sort()
        else:
            self._recent |= {row.tobytes(): self._seen + i for i, row in enumerate(digests[self._seen :])}
            self._seen = len(digests)

    def find(self, wanted: Sequence[bytes]) -> NDArray[np.int64]:
        """The row of each digest; -1 where it is not there."""
        digests = self._digests()
        asked = np.frombuffer(b"".join(wanted), np.uint64).reshape(-1, DIGEST // 8)
        places = np.searchsorted(self._keys, asked[:, 0])
        found = np.full(len(wanted), -1, np.int64)
        for number, place in enumerate(places.tolist()):
            while place < len(self._keys) and self._keys[place] == asked[number, 0]:
                if (digests[self._rows[place]] == asked[number]).all():
                    found[number] = self._rows[place]
                    break
                place += 1
            row = self._recent.get(wanted[number], -1)
            if found[number] < 0 <= row < len(digests) and digests[row].tobytes() == wanted[number]:
                found[number] = row
        return found


def append(path: Path, at: int, content: bytes) -> None:
    """Write at a position, and remove what an interrupted writer left after it."""
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.seek(at)
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def cannot_keep(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot keep features in {folder} ({error.strerror}): "
        "free some space, or name another folder in the environment variable FEWLABEL_CACHE."
    )
