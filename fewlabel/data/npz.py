"""Arrays in an .npz file: x_train, y_train and, where there are any, x_test, y_test."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import torch

from ..errors import UserError
from .arrays import channels_first
from .examples import UNLABELLED, Dataset, Examples, numbered
from .images import Images
from .vectors import Vectors

MAP_FROM = 1 << 28  # bytes; smaller arrays are read, and their checksums with them
PART = 4096  # rows that are checked at a time, so that a mapped file is never in memory as a whole
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(path: Path) -> Dataset:
    """Images are uint8, (N, H, W), (N, H, W, C) or (N, C, H, W); vectors are numbers, (N, D).

    y_train holds -1 for an unlabelled example.
    """
    arrays = read_arrays(path)
    if "x_train" not in arrays:
        raise UserError(f"{path} holds {', '.join(arrays) or 'nothing'}: it needs x_train and y_train.")
    arrays.setdefault("y_train", np.full(len(arrays["x_train"]), UNLABELLED))
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise UserError(f"{path} holds only one of x_test and y_test: add the other, or remove it.")
    parts = [part for part in ("train", "test") if f"x_{part}" in arrays]
    labels = {part: label_array(path, f"y_{part}", arrays[f"y_{part}"]) for part in parts}
    values = np.unique(np.concatenate([y[y != UNLABELLED] for y in labels.values()]))

    def examples(part: str) -> Examples:
        inputs, y = arrays[f"x_{part}"], labels[part]
        if len(inputs) != len(y):
            raise UserError(f"{path}: x_{part} has {len(inputs)} examples, but y_{part} has {len(y)} labels.")
        number = torch.from_numpy(np.where(y == UNLABELLED, UNLABELLED, np.searchsorted(values, y)))
        classes, names = tuple(str(value) for value in values), numbered(part, len(y))
        source = ""
        if isinstance(inputs, np.memmap):
            status = path.stat()
            source = f"{status.st_size} {status.st_mtime_ns}"
        if inputs.ndim == 2:
            return Vectors(row_array(path, f"x_{part}", inputs), number, classes, names, source=source)
        return Images(pixel_array(path, f"x_{part}", inputs), number, classes, names, source=source)

    train, test = examples("train"), examples("test") if "test" in parts else None
    if test is not None and test.kind != train.kind:
        raise UserError(f"{path}: x_test has examples of shape {test.kind.shape}, x_train of {train.kind.shape}.")
    colour = train.kind.shape[0] > 1  # pictures of one channel may be digits or letters, which have no mirror images
    return Dataset(path.stem, train, test, flip=colour)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with open(path, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            return {name: mapped(path, content, name) for name in content.files}
    except Exception as error:  # a damaged archive can raise anything
        raise UserError(f"{path} cannot be read as arrays ({error}).") from error


def read_rows(path: Path) -> torch.Tensor:
    """Vectors to predict: the array x, else x_test, else x_train."""
    if path.suffix != ".npz":
        raise UserError(f"{path} is not an .npz file, which this model of rows of numbers needs.")
    arrays = read_arrays(path)
    for name in ("x", "x_test", "x_train"):
        if name in arrays:
            return row_array(path, name, arrays[name])
    raise UserError(f"{path} holds {', '.join(arrays) or 'nothing'}: it needs x.")


def mapped(path: Path, content: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    """An array of the archive; a large uncompressed one is memory-mapped."""
    entry = content.zip.getinfo(f"{name}.npy")  # type: ignore[union-attr]
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size < MAP_FROM:
        return content[name]
    with open(path, "rb") as file:
        file.seek(entry.header_offset + 26)
        lengths = struct.unpack("<HH", file.read(4))  # of the name and of what else precedes the content
        file.seek(entry.header_offset + 30 + sum(lengths))
        read_header = HEADERS[np.lib.format.read_magic(file)]
        shape, fortran_order, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError("it holds objects")
        return np.memmap(path, dtype, "c", file.tell(), shape, "F" if fortran_order else "C")


def label_array(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise UserError(f"{path}: {name} must be a one-dimensional array of whole numbers, with -1 for unlabelled.")
    if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
        raise UserError(f"{path}: {name} holds {array.max()}: number the classes from 0.")
    if len(array) and array.min() < UNLABELLED:
        raise UserError(f"{path}: {name} holds {array.min()}: classes are numbered from 0, and -1 is for unlabelled.")
    return array.astype(np.int64)


def row_array(path: Path, name: str, array: np.ndarray) -> torch.Tensor:
    if array.dtype.kind not in "iufb" or array.ndim != 2 or array.shape[1] == 0:
        raise UserError(f"{path}: {name} must be numbers of shape (N, D).")
    rows = torch.from_numpy(np.ascontiguousarray(array, np.float32))
    if not all(part.isfinite().all() for part in rows.split(PART)):
        raise UserError(f"{path}: {name} contains NaN or infinity.")
    return rows


def pixel_array(path: Path, name: str, array: np.ndarray) -> torch.Tensor:
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise UserError(
            f"{path}: {name} must be images, uint8 of (N, H, W), (N, H, W, C) or (N, C, H, W), or vectors (N, D)."
        )
    ordered = channels_first(array)
    if ordered is None:
        raise UserError(f"{path}: {name} must hold square pictures of one or three channels.")
    return torch.from_numpy(ordered if isinstance(ordered, np.memmap) else np.ascontiguousarray(ordered))
