"""Arrays in an .npz file: x_train, y_train and, where there are any, x_test, y_test."""

from pathlib import Path

import numpy as np
import torch

from ..errors import UserError
from .images import UNLABELLED, Dataset, Images, numbered


def read_npz(path: Path) -> Dataset:
    """Pictures are uint8, (N, H, W), (N, H, W, C) or (N, C, H, W); y_train holds -1 for an unlabelled one."""
    try:
        with open(path, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            arrays = {name: content[name] for name in content.files}
    except Exception as error:  # a damaged archive can raise anything
        raise UserError(f"{path} cannot be read as arrays ({error}).") from error
    if "x_train" not in arrays or "y_train" not in arrays:
        raise UserError(f"{path} holds {', '.join(arrays) or 'nothing'}: it needs x_train and y_train.")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise UserError(f"{path} holds one of x_test and y_test: it needs both or none.")
    parts = [part for part in ("train", "test") if f"x_{part}" in arrays]
    labels = {part: label_array(path, f"y_{part}", arrays[f"y_{part}"]) for part in parts}
    values = np.unique(np.concatenate([y[y != UNLABELLED] for y in labels.values()]))
    classes = tuple(str(value) for value in values)

    def images(part: str) -> Images:
        pixels, y = pixel_array(path, f"x_{part}", arrays[f"x_{part}"]), labels[part]
        if len(pixels) != len(y):
            raise UserError(f"{path}: x_{part} has {len(pixels)} pictures, y_{part} {len(y)} labels.")
        number = np.where(y == UNLABELLED, UNLABELLED, np.searchsorted(values, y))
        return Images(torch.from_numpy(pixels), torch.from_numpy(number), classes, numbered(part, len(y)))

    return Dataset(path.stem, images("train"), images("test") if "test" in parts else None, flip=True, own=True)


def label_array(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise UserError(f"{path}: {name} must be one row of whole numbers, -1 for unlabelled.")
    return array.astype(np.int64)


def pixel_array(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise UserError(f"{path}: {name} must be uint8 of (N, H, W), (N, H, W, C) or (N, C, H, W).")
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[3] in (1, 3) and array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.shape[1] not in (1, 3) or array.shape[2] != array.shape[3]:
        raise UserError(f"{path}: {name} must hold square pictures of one or three channels.")
    return np.ascontiguousarray(array)
