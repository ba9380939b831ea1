"""Inputs from Python: arrays, tensors, PIL images, lists of picture files."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..errors import UserError

SLACK = 1.001  # by which a resampled image may exceed white


def as_pictures(inputs: Any) -> list[Path | Image.Image]:
    """Files and PIL images, where the inputs are one or a list of such; else an empty list."""
    if isinstance(inputs, str | Path | Image.Image):
        inputs = [inputs]
    if isinstance(inputs, np.ndarray) and inputs.ndim == 1 and inputs.dtype.kind in "UO":
        inputs = inputs.tolist()
    if not isinstance(inputs, list | tuple) or not all(isinstance(item, str | Path | Image.Image) for item in inputs):
        return []
    return [item if isinstance(item, Image.Image) else Path(item) for item in inputs]


def as_array(inputs: Any) -> NDArray[Any]:
    """The inputs as an array of numbers with a batch dimension."""
    try:
        array = inputs.detach().cpu().numpy() if isinstance(inputs, Tensor) else np.asarray(inputs)
    except ValueError as error:  # of rows of several lengths
        raise UserError(f"the inputs are not an array ({error}).") from error
    if array.size == 0:
        raise UserError("there are no inputs.")
    if array.dtype.kind not in "biuf":
        raise UserError("the inputs are neither numbers nor pictures: give arrays, PIL images, files or a folder.")
    return array


def channels_first(array: NDArray[Any]) -> NDArray[Any] | None:
    """(N, C, H, W) of (N, H, W), (N, H, W, C) or (N, C, H, W); None where those are no squares of 1 or 3 channels."""
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in (1, 3) and array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    fits = array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[2] == array.shape[3]
    return array if fits else None


def brightest(array: NDArray[Any]) -> int:
    """The value of white in these images: 1 for booleans and for floats up to 1, else 255."""
    floats_to_1 = array.dtype.kind == "f" and np.nan_to_num(array).max(initial=0) <= SLACK
    return 1 if floats_to_1 or array.dtype.kind == "b" else 255


def as_pixels(array: NDArray[Any], white: int) -> Tensor:
    """Convert any common array of images to uint8 (N, C, H, W); `white` is the largest value."""
    if array.ndim < 3:
        raise UserError(f"an array of shape {array.shape} is not a batch of images: give (N, H, W) or (N, H, W, 3).")
    ordered = channels_first(array)
    if ordered is None:
        raise UserError(f"images must be square and of one or three channels, not of shape {array.shape[1:]}.")
    if ordered.dtype != np.uint8:
        values = ordered.astype(np.float64)
        if not np.isfinite(values).all():
            raise UserError("the images contain NaN or infinity.")
        if values.size and (values.min() < 0 or values.max() > SLACK * white):
            raise UserError(f"pixel values must be between 0 and {white}, but some are outside this range.")
        ordered = (values * (255 / white)).round().clip(0, 255).astype(np.uint8)
    return torch.from_numpy(np.ascontiguousarray(ordered))
