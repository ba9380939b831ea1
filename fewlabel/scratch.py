"""What grows with the rows of a large file lies in temporary files: arrays, and strings in their order.

Mapped files are not in the way of other memory: the system writes them to disk and drops them when memory is needed.
The files have no name, so that they are gone when the process ends, however it ends.
"""

import itertools
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .errors import UserError

LARGE = 1 << 25  # bytes from which on an array lies in a temporary file
BLOCK = 4096  # strings that are read at a time
BUFFER = 1 << 12  # numbers that are written at a time
BYTES, OVERHEAD = 1 << 16, 80  # of strings that are written at a time, and of each besides its letters


def room(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array to fill: in memory, or in a temporary file if it is large."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        try:
            if hasattr(os, "posix_fallocate"):  # a full disk would end the process when it is written to
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "w+", shape=shape)
        except OSError as error:
            raise no_room(error) from error


def no_room(error: OSError) -> UserError:
    return UserError(
        f"cannot write temporary files into {tempfile.gettempdir()} ({error.strerror}): free some space, or name "
        "another folder in the environment variable TMPDIR."
    )


def slices(count: int, size: int) -> Iterator[slice]:
    """Consecutive parts of `count` rows."""
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


class Growing:
    """An array of unknown length that rows or single numbers are appended to."""

    def __init__(self, dtype: DTypeLike, *shape: int) -> None:
        self._dtype, self._shape = np.dtype(dtype), shape  # of one row
        self._file: IO[bytes] | None = None
        self._pending: list[Any] = []
        self._written = 0  # rows

    def __len__(self) -> int:
        return self._written + len(self._pending)

    def append(self, value: Any) -> None:
        self._pending.append(value)
        if len(self._pending) == BUFFER:
            self.extend(())

    def extend(self, rows: Any) -> None:
        """Several rows; those that were appended one by one come before them."""
        pending, self._pending = self._pending, []
        for part in (pending, rows):
            if len(part):
                self._write(np.asarray(part, self._dtype))

    def _write(self, part: NDArray[Any]) -> None:
        if self._file is None:
            self._file = temporary_file(self)
        try:
            self._file.write(np.ascontiguousarray(part).data)
        except OSError as error:
            raise no_room(error) from error
        self._written += len(part)

    def array(self) -> NDArray[Any]:
        """All rows so far."""
        self.extend(())
        shape = (self._written, *self._shape)
        if self._file is None:
            return np.empty(shape, self._dtype)
        self._file.flush()
        found = np.memmap(self._file, self._dtype, "r+", shape=shape)
        return found if found.nbytes >= LARGE else np.array(found)


def temporary_file(owner: object) -> IO[bytes]:
    """A file that lives as long as its owner."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    weakref.finalize(owner, file.close)
    return file


class Strings(Sequence[str]):
    """Strings that are appended, in temporary files. It equals a list of the same strings."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._content, self._ends = temporary_file(self), temporary_file(self)
        self._pending: list[bytes] = []
        self._pending_ends: list[int] = []
        self._count = self._end = self._pending_size = 0
        self.extend(texts)

    def __len__(self) -> int:
        return self._count

    def append(self, text: str) -> None:
        content = text.encode("utf-8", "surrogatepass")
        self._end += len(content)
        self._pending_size += len(content) + OVERHEAD
        self._count += 1
        self._pending.append(content)
        self._pending_ends.append(self._end)
        if self._pending_size >= BYTES:
            self.flush()

    def extend(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.append(text)

    def flush(self) -> None:
        """Write what is pending; reading does so itself."""
        if not self._pending:
            return
        try:
            for file, content in (
                (self._content, b"".join(self._pending)),
                (self._ends, np.array(self._pending_ends, np.int64).tobytes()),
            ):
                file.seek(0, os.SEEK_END)
                file.write(content)
                file.flush()
        except OSError as error:
            raise no_room(error) from error
        self._pending, self._pending_ends, self._pending_size = [], [], 0

    def _read(self, first: int, last: int) -> list[str]:
        """Those from `first` up to, but not including, `last`."""
        if first >= last:
            return []
        self.flush()
        before = min(first, 1)  # the end of the one before is where the first begins
        stored = read_at(self._ends, 8 * (last - first + before), 8 * (first - before))
        ends = np.frombuffer(stored, np.int64).tolist()
        ends = ends if before else [0, *ends]
        content = read_at(self._content, ends[-1] - ends[0], ends[0])
        return [
            content[a - ends[0] : b - ends[0]].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(ends)
        ]

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            first, last, step = place.indices(self._count)
            return self._read(first, last) if step == 1 else [self[i] for i in range(first, last, step)]
        position = range(self._count)[place]
        return self._read(position, position + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for part in slices(self._count, BLOCK):
            yield from self._read(part.start, part.stop)

    def __eq__(self, other: object) -> bool:
        return same_strings(self, other)

    __hash__ = None  # type: ignore[assignment]


def read_at(file: IO[bytes], size: int, first: int) -> bytes:
    if hasattr(os, "pread"):  # several threads may read
        return os.pread(file.fileno(), size, first)
    file.seek(first)
    return file.read(size)


class Chosen(Sequence[str]):
    """Some of the strings of a sequence, in the order of their positions."""

    def __init__(self, whole: Sequence[str], positions: "Sequence[int] | NDArray[np.int64]") -> None:
        self._whole, self._positions = whole, positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._whole[int(position)] for position in self._positions[place]]
        return self._whole[int(self._positions[place])]

    def __iter__(self) -> Iterator[str]:
        for part in slices(len(self), BLOCK):
            yield from self[part]

    def __eq__(self, other: object) -> bool:
        return same_strings(self, other)

    __hash__ = None  # type: ignore[assignment]


def same_strings(some: Sequence[str], other: object) -> bool:
    if not isinstance(other, Sequence) or isinstance(other, str):
        return False
    return len(some) == len(other) and all(a == b for a, b in zip(some, other, strict=True))


def first_repeated(strings: Sequence[str], hashes: NDArray[np.uint64], most: int = 1 << 20) -> tuple[int, int] | None:
    """The first string that came before: where, and where it came first. Of each one a hash is given.

    Only a part of the hashes is sorted at a time.
    """
    parts = -(-len(hashes) // most)
    found: list[tuple[int, int]] = []
    for number in range(parts):
        positions = np.concatenate(
            [
                part.start + np.flatnonzero(hashes[part] % np.uint64(parts) == number)
                for part in slices(len(hashes), most)
            ]
        )
        own = hashes[positions]
        order = np.argsort(own, kind="stable")
        own, positions = own[order], positions[order]
        again = np.flatnonzero(own[1:] == own[:-1]) + 1
        for place in again[np.argsort(positions[again])].tolist():
            if strings[int(positions[place])] == strings[int(positions[place - 1])]:  # hashes may be equal by chance
                found.append((int(positions[place]), int(positions[place - 1])))
                break
    return min(found, default=None)
