"""Every random draw comes from a generator seeded by (seed, step, name of the source).

That one rule gives exact resume without saving generator states, lets a term be added to a method without changing a
single number that the method draws, and, drawn for a whole batch before any of it is taken, makes a run on several
processes the same run as on one.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

GLOBAL = threading.Lock()  # for the one generator that all threads share


def seed_of(seed: int, step: int, source: str) -> int:
    """A 63-bit seed for one source of randomness at one step; the same on every platform."""
    digest = hashlib.blake2b(f"{seed}/{step}/{source}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, step: int, source: str) -> torch.Generator:
    """A fresh CPU generator; draws are made on the CPU so that every device sees the same numbers."""
    return torch.Generator().manual_seed(seed_of(seed, step, source))


@contextmanager
def seeded(seed: int, source: str) -> Iterator[None]:
    """Torch's global generator, from which layers draw their first weights, is seeded within and as before after it."""
    with GLOBAL, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, 0, source))
        yield


def beta(concentration: float, count: int, generator: torch.Generator) -> Tensor:
    """`count` draws from Beta(concentration, concentration), float32."""
    seed = int(torch.randint(2**62, (1,), generator=generator))
    draws = np.random.default_rng(seed).beta(concentration, concentration, count)
    return torch.from_numpy(draws.astype(np.float32))


class Draws:
    """Random numbers for some rows of a batch, drawn for all `count` of them: so each row has the same in any part."""

    def __init__(self, generator: torch.Generator, count: int, rows: slice = slice(None)) -> None:
        self._generator, self._count, self._rows = generator, count, rows

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers between 0 and 1, of that shape for each row."""
        return torch.rand(self._count, *shape, generator=self._generator)[self._rows]

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Integers from `low` to `high` - 1."""
        return torch.randint(low, high, (self._count, *shape), generator=self._generator)[self._rows]

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(self._count, *shape, generator=self._generator)[self._rows]
