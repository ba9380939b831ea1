"""Encoding pictures: in parallel, once, and resumable, since every chunk of features is kept as soon as it is there."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np
import torch
from torch import Tensor

from ..data.decode import cache_folder, cache_key, decode
from ..errors import UserError
from ..files import new_folder
from ..terminal import with_progress
from . import find_encoder
from .encoder import Encoder
from .store import FeatureStore, cannot_keep, content_digest

CHUNK = 32  # pictures that one worker encodes at a time
# A processor's cache holds the activations of few pictures: on one core EfficientNet-Lite0 is three times as fast with
# batches of 4 as with batches of 20.
BATCH = 4


@dataclass(frozen=True)
class Encoded:
    """Features of the pictures of a folder."""

    features: Tensor  # (N, features), memory-mapped
    rows: list[int]  # which of the files they are of
    skipped: dict[str, str]  # unreadable file -> reason
    key: str  # changes when a file or the encoder does


def encode_folder(encoder: Encoder, folder: Path, files: Sequence[str], jobs: int | None = None) -> Encoded:
    """Features of all pictures that can be read; a second call is immediate."""
    store = FeatureStore(encoder)
    key = f"{cache_key(folder, files, encoder.size)}-{store.folder.name[:16]}"
    place = cache_folder() / "sets" / key
    if not (place / "index.json").exists():
        digests = {name: readable_digest(folder / name) for name in files}
        fill_store(store, encoder, folder, digests, jobs)
        shutil.rmtree(place, ignore_errors=True)
        assemble(place, store, folder, digests)
    index = json.loads((place / "index.json").read_text())
    if not index["rows"]:
        shutil.rmtree(place)
        name, reason = next(iter(index["skipped"].items()))
        raise UserError(f"none of the {len(files)} pictures in {folder} can be read, beginning with {name} ({reason}).")
    shape = (len(index["rows"]), encoder.features)
    features = np.memmap(place / "features.f32", np.float32, mode="c", shape=shape)
    return Encoded(torch.from_numpy(features), index["rows"], index["skipped"], key)


def fill_store(
    store: FeatureStore, encoder: Encoder, folder: Path, digests: dict[str, bytes | None], jobs: int | None
) -> None:
    """Encode what the store does not hold yet, and keep it chunk by chunk."""
    known = store.positions()
    missing: dict[bytes, str] = {}
    for name, digest in digests.items():
        if digest is not None and digest not in known:
            missing.setdefault(digest, name)
    chunks = [list(missing.items())[first : first + CHUNK] for first in range(0, len(missing), CHUNK)]
    encoded = encode_chunks(encoder, folder, [[name for _, name in chunk] for chunk in chunks], jobs)
    shown = with_progress(encoded, len(chunks), f"Encoding {len(missing)} pictures with {encoder.name}")
    for chunk, results in zip(chunks, shown, strict=True):
        found = [(digest, row) for (digest, _), row in zip(chunk, results, strict=True) if not isinstance(row, str)]
        if found:
            store.add([digest for digest, _ in found], np.stack([row for _, row in found]))


def encode_chunks(
    encoder: Encoder, folder: Path, chunks: Sequence[Sequence[str]], jobs: int | None
) -> Iterator[list[np.ndarray | str]]:
    """The features of each chunk of files, in order; several processes with one thread each where that pays."""
    workers = min(jobs or joblib.cpu_count(), len(chunks))
    if workers <= 1:
        yield from (encode_files(encoder, str(folder), chunk) for chunk in chunks)
        return
    parallel = joblib.Parallel(workers, return_as="generator", pre_dispatch="2*n_jobs")
    yield from parallel(joblib.delayed(encode_by_name)(encoder.name, str(folder), chunk) for chunk in chunks)


def encode_by_name(name: str, folder: str, files: Sequence[str]) -> list[np.ndarray | str]:
    """In another process, which loads the encoder itself."""
    torch.set_num_threads(1)
    return encode_files(find_encoder(name), folder, files)


def encode_files(encoder: Encoder, folder: str, files: Sequence[str]) -> list[np.ndarray | str]:
    """The features of each picture, or why it cannot be read."""
    found: list[np.ndarray | str] = []
    pixels: list[np.ndarray] = []
    for name in files:
        try:
            pixels.append(decode(Path(folder, name), encoder.size))
            found.append("")
        except Exception as error:  # decoders raise whatever a damaged file makes them raise
            found.append(str(error) or type(error).__name__)
    places = [place for place, reason in enumerate(found) if reason == ""]
    for first in range(0, len(pixels), BATCH):
        features = encoder(torch.from_numpy(np.stack(pixels[first : first + BATCH]))).numpy()
        for place, row in zip(places[first : first + BATCH], features, strict=True):
            found[place] = row
    return found


def readable_digest(path: Path) -> bytes | None:
    try:
        return content_digest(path)
    except OSError:
        return None


def assemble(place: Path, store: FeatureStore, folder: Path, digests: dict[str, bytes | None]) -> None:
    """The features of these files in their order, in a new folder that appears under its name when it is complete."""
    positions, rows, skipped = store.positions(), list[int](), dict[str, str]()
    found: list[int] = []
    for number, (name, digest) in enumerate(digests.items()):
        if digest in positions:
            rows.append(number)
            found.append(positions[digest])
        else:
            skipped[name] = reason_of(folder / name)
    try:
        with new_folder(place) as folder_to_fill:
            with open(folder_to_fill / "features.f32", "wb") as file:
                for first in range(0, len(found), 4096):
                    file.write(store.read(found[first : first + 4096]).tobytes())
            (folder_to_fill / "index.json").write_text(json.dumps({"rows": rows, "skipped": skipped}))
    except OSError as error:
        raise cannot_keep(place.parent, error) from error


def reason_of(path: Path) -> str:
    """Why a picture cannot be read."""
    try:
        decode(path, 8)
    except Exception as error:  # decoders raise whatever a damaged file makes them raise
        return str(error) or type(error).__name__
    return "it was changed while it was read"
