"""The feature store: what is added is found again, also after a kill in the middle of a write."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from fewlabel.encoders import Encoder
from fewlabel.encoders.store import FeatureStore, content_digest

FEATURES = 6


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))


def encoder(digest: str = "a", size: int = 8) -> Encoder:
    return Encoder("some", torch.nn.Identity(), size, (0.0,) * 3, (1.0,) * 3, FEATURES, digest)


def rows(first: int, count: int) -> tuple[list[bytes], np.ndarray]:
    digests = [bytes([first + n]) * 32 for n in range(count)]
    return digests, np.arange(first, first + count, dtype=np.float32)[:, None].repeat(FEATURES, 1)


def found(store: FeatureStore) -> list[float]:
    where = store.positions()
    assert sorted(where.values()) == list(range(len(store)))
    return sorted(store.read(list(where.values()))[:, 0].tolist())


def test_rows_come_back_in_another_process_too() -> None:
    FeatureStore(encoder()).add(*rows(0, 3))
    FeatureStore(encoder()).add(*rows(3, 2))
    store = FeatureStore(encoder())
    assert found(store) == [0, 1, 2, 3, 4]
    digests, features = rows(0, 5)
    positions = store.positions()
    np.testing.assert_array_equal(store.read([positions[digest] for digest in digests]), features)
    assert store.read([]).shape == (0, FEATURES)


def test_another_encoder_size_or_backend_has_a_store_of_its_own() -> None:
    FeatureStore(encoder()).add(*rows(0, 3))
    for other in (FeatureStore(encoder("b")), FeatureStore(encoder(size=9)), FeatureStore(encoder(), "onnxruntime")):
        assert len(other) == 0


@pytest.mark.parametrize("cut", ["features", "digests", "both", "garbage"])
def test_a_write_that_was_killed(cut: str) -> None:
    """Half a row, or rows whose digests were not written: the next writer removes them."""
    store = FeatureStore(encoder())
    store.add(*rows(0, 3))
    features, digests = store.folder / "features.f32", store.folder / "digests"
    if cut in ("features", "both"):
        os.truncate(features, features.stat().st_size - 7)
    if cut in ("digests", "both"):
        os.truncate(digests, digests.stat().st_size - 7)
    if cut == "garbage":
        with open(features, "ab") as file:
            file.write(b"x" * 50)
    left = 3 if cut == "garbage" else 2
    assert found(FeatureStore(encoder())) == list(range(left))
    store.add(*rows(10, 2))
    assert found(store) == [*range(left), 10, 11]
    assert (features.stat().st_size, digests.stat().st_size) == ((left + 2) * 24, (left + 2) * 32)


def test_it_is_private() -> None:
    store = FeatureStore(encoder())
    assert store.folder.stat().st_mode & 0o077 == 0
    assert store.folder.parent.stat().st_mode & 0o077 == 0


def test_a_picture_is_known_by_its_content(tmp_path: Path) -> None:
    for name, content in (("a.png", b"same"), ("b.png", b"same"), ("c.png", b"other")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (content_digest(tmp_path / name) for name in ("a.png", "b.png", "c.png"))
    assert a == b != c
    assert len(a) == 32
