"""Encode pictures in parallel and once; resumable, because each chunk of features is stored as soon as it is ready."""

import hashlib
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..cluster import on_cluster
from ..decode import Index, cache_folder, cache_key, decode, read_index, square, why_unreadable, write_index
from ..errors import UserError
from ..files import new_folder
from ..interrupts import deaf_to_ctrl_c
from ..terminal import with_progress
from ..value_range import ValueRange
from .encoder import Encoder, View
from .find import find_encoder
from .store import FeatureStore, cannot_keep, content_digest

FEATURES = "features.f32"
CHUNK = 32  # pictures that one worker encodes at a time
FEW = 5  # chunks that are encoded sooner than other processes have started
# A processor's cache holds the activations of few pictures: on one core EfficientNet-Lite0 is three times as fast with
# batches of 4 as with batches of 20; `python -m bench.encode` compares them again.
BATCH = 4
SMALL = 128  # rows of numbers at a time, which are no pictures

Picture = Path | np.ndarray  # a file, or pixels (C, H, W) in uint8


@dataclass(frozen=True)
class Encoded:
    """Features of some pictures."""

    features: Tensor  # (N, features), memory-mapped
    rows: list[int]  # which of the pictures they are of
    skipped: dict[int, str]  # unreadable picture -> reason
    key: str  # changes when a picture or the encoder does


def encode_folder(encoder: Encoder, folder: Path, files: Sequence[str], jobs: int | None = None) -> Encoded:
    """Features of all pictures that can be read; a second call is immediate."""
    store = FeatureStore(encoder)
    key = f"{cache_key(folder, files, encoder.size or 0)}-{store.folder.name[:16]}"
    place = cache_folder() / "sets" / key
    found = read_encoded(place, encoder, len(files))
    if found is None:
        paths = [folder / name for name in files]
        found = encode_into(place, store, encoder, paths, [readable_digest(path) for path in paths], jobs)
    if not found.rows:
        shutil.rmtree(place)
        position, reason = next(iter(found.skipped.items()))
        raise UserError(
            f"none of the {len(files)} pictures in {folder} can be read, beginning with {files[position]} ({reason})."
        )
    return found


def encode_pictures(encoder: Encoder, pictures: Sequence[Picture], jobs: int | None = None) -> Encoded:
    """Features of files and of pixels; these are resized as files are."""
    store = FeatureStore(encoder)
    digests = [readable_digest(picture) for picture in pictures]
    whole = hashlib.sha256(b"".join(digest or b"-" for digest in digests)).hexdigest()
    place = cache_folder() / "sets" / f"{whole[:32]}-{store.folder.name[:16]}"
    found = read_encoded(place, encoder, len(pictures))
    return found or encode_into(place, store, encoder, pictures, digests, jobs)


def features_of(encoder: Encoder, inputs: Tensor, title: str = "") -> Tensor:
    """Features of inputs in memory: kept on disk where the encoder has a name, else made anew, some at a time."""
    if encoder.by_name:
        return encode_pictures(encoder, [row.numpy() for row in inputs]).features
    device = next((parameter.device for parameter in encoder.module.parameters()), torch.device("cpu"))
    parts = inputs.split(BATCH if len(inputs.shape) > 2 and device.type == "cpu" else SMALL)
    shown = with_progress(parts, len(parts), title) if title else parts
    return torch.cat([encoder(part.to(device)).cpu() for part in shown])


def encode_into(
    place: Path,
    store: FeatureStore,
    encoder: Encoder,
    pictures: Sequence[Picture],
    digests: Sequence[bytes | None],
    jobs: int | None,
) -> Encoded:
    fill_store(store, encoder, pictures, digests, jobs)
    shutil.rmtree(place, ignore_errors=True)
    assemble(place, store, pictures, digests)
    found = read_encoded(place, encoder, len(pictures))
    assert found is not None
    return found


def fill_store(
    store: FeatureStore,
    encoder: Encoder,
    pictures: Sequence[Picture],
    digests: Sequence[bytes | None],
    jobs: int | None,
) -> None:
    """Encode the pictures that are not in the store yet, and store them chunk by chunk."""
    known = store.positions()
    missing: dict[bytes, Picture] = {}
    for picture, digest in zip(pictures, digests, strict=True):
        if digest is not None and digest not in known:
            missing.setdefault(digest, picture)
    items = list(missing.items())
    chunks = [items[first : first + CHUNK] for first in range(0, len(items), CHUNK)]
    encoded = encode_chunks(encoder, [[picture for _, picture in chunk] for chunk in chunks], jobs)
    shown = with_progress(encoded, len(chunks), title_of(encoder, len(missing)))
    try:
        for chunk, results in zip(chunks, shown, strict=True):
            found = [(digest, row) for (digest, _), row in zip(chunk, results, strict=True) if not isinstance(row, str)]
            if found:
                store.add([digest for digest, _ in found], np.stack([row for _, row in found]))
    except KeyboardInterrupt as stop:
        done = len(store) - len(known)
        raise KeyboardInterrupt(
            f"stopped; the features of {done} pictures are kept: run the same command to continue."
        ) from stop


def title_of(encoder: Encoder, count: int) -> str:
    what = f"{encoder.view.kind} view {encoder.view.number + 1} of " if encoder.view else ""
    return f"Encoding {what}{count} pictures with {encoder.name}"


def encode_chunks(
    encoder: Encoder, chunks: Sequence[Sequence[Picture]], jobs: int | None
) -> Iterator[list[np.ndarray | str]]:
    """The features of each chunk, in order; several processes with one thread each where that pays."""
    workers = jobs or joblib.cpu_count()
    if encoder.by_name and on_cluster():
        workers = -1
    elif not encoder.by_name or workers == 1 or len(chunks) < FEW:
        for chunk in chunks:
            with one_thread():  # as in other processes, so that the bits are the same
                found = encode_some(encoder, chunk)
            yield found
        return
    parallel = joblib.Parallel(workers, return_as="generator", pre_dispatch="2*n_jobs")
    with deaf_to_ctrl_c():  # this starts the processes
        shown = encoder.view, encoder.value_range
        results = parallel(joblib.delayed(encode_by_name)(encoder.name, *shown, chunk) for chunk in chunks)
    yield from results


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def encode_by_name(
    name: str, view: View | None, value_range: ValueRange | None, pictures: Sequence[Picture]
) -> list[np.ndarray | str]:
    """Encode in another process, which loads the encoder itself."""
    torch.set_num_threads(1)
    return encode_some(replace(find_encoder(name), view=view, value_range=value_range), pictures)


def encoders_of_views(encoder: Encoder, count: int, flip: bool) -> dict[str, list[Encoder]]:
    """The same encoder for each of `count` weak and strong views."""
    return {
        kind: [replace(encoder, view=View(kind, number, flip)) for number in range(count)]
        for kind in (("weak", "strong") if count else ())
    }


def encode_some(encoder: Encoder, pictures: Sequence[Picture]) -> list[np.ndarray | str]:
    """The features of each picture, or why it cannot be read."""
    warnings.filterwarnings("ignore", module="PIL")  # harmless oddities of files
    found: list[np.ndarray | str] = []
    pixels: list[np.ndarray] = []
    for picture in pictures:
        try:
            pixels.append(sized(picture, encoder.size, encoder.value_range))
            found.append("")
        except Exception as error:  # decoders raise many kinds of errors for damaged files
            found.append(why_unreadable(error))
    places = [place for place, reason in enumerate(found) if reason == ""]
    for first in range(0, len(pixels), BATCH):
        features = encoder(torch.from_numpy(np.stack(pixels[first : first + BATCH]))).numpy()
        for place, row in zip(places[first : first + BATCH], features, strict=True):
            found[place] = row
    return found


def sized(picture: Picture, size: int | None, value_range: ValueRange | None = None) -> np.ndarray:
    """RGB (3, size, size); without a size, pixels as they are."""
    if isinstance(picture, np.ndarray):
        if size is None:
            return picture
        shown = picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)
        return square(Image.fromarray(np.ascontiguousarray(shown)), size)
    assert size is not None, "an encoder without an input size takes pixels"
    return decode(picture, size, value_range)


def readable_digest(picture: Picture) -> bytes | None:
    """The digest of a file's content or of pixels; None if the file cannot be read."""
    if isinstance(picture, np.ndarray):
        return hashlib.sha256(repr(picture.shape).encode() + np.ascontiguousarray(picture).tobytes()).digest()
    try:
        return content_digest(picture)
    except OSError:
        return None


def assemble(place: Path, store: FeatureStore, pictures: Sequence[Picture], digests: Sequence[bytes | None]) -> None:
    """Their features in their order, in a new folder that appears under its name when it is complete."""
    positions, index = store.positions(), Index([], {})
    found: list[int] = []
    for number, (picture, digest) in enumerate(zip(pictures, digests, strict=True)):
        if digest in positions:
            index.rows.append(number)
            found.append(positions[digest])
        else:
            index.skipped[number] = reason_of(picture)
    try:
        with new_folder(place) as folder_to_fill:
            with open(folder_to_fill / FEATURES, "wb") as file:
                for first in range(0, len(found), 4096):
                    file.write(store.read(found[first : first + 4096]).tobytes())
            write_index(folder_to_fill, index)
    except OSError as error:
        raise cannot_keep(place.parent, error) from error


def read_encoded(place: Path, encoder: Encoder, count: int) -> Encoded | None:
    """The features of that number of pictures; None if they are incomplete."""
    assert encoder.features is not None
    index = read_index(place, count, FEATURES, 4 * encoder.features)
    if index is None:
        return None
    if not index.rows:
        return Encoded(torch.empty(0, encoder.features), *index, place.name)
    features = np.memmap(place / FEATURES, np.float32, mode="c", shape=(len(index.rows), encoder.features))
    return Encoded(torch.from_numpy(features), *index, place.name)


def reason_of(picture: Picture) -> str:
    """Why a picture cannot be read."""
    try:
        sized(picture, 8)
    except Exception as error:  # decoders raise many kinds of errors for damaged files
        return why_unreadable(error)
    return "it changed while it was being read"
