"""Read CIFAR's pickles with an unpickler that builds only arrays, strings, numbers and containers."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError


def _latin1(text: str, encoding: str) -> bytes:
    """Stands in for `_codecs.encode`, by which Python 3 writes bytes in old protocols."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
}
for _package in ("numpy.core", "numpy._core"):  # the official files name the first, today's writers the second
    for _name in ("_reconstruct", "scalar"):
        ALLOWED[f"{_package}.multiarray", _name] = getattr(np._core.multiarray, _name)  # type: ignore[attr-defined]
    ALLOWED[f"{_package}.numeric", "_frombuffer"] = np._core.numeric._frombuffer  # type: ignore[attr-defined]


class RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}") from None


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR file, its keys as text."""
    try:
        with open(path, "rb") as file:
            content = RestrictedUnpickler(file, encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError("it does not hold a dictionary")
        return {_text(key): value for key, value in content.items()}
    except OSError:
        raise
    except Exception as error:  # a broken pickle can raise anything
        raise UserError(f"{path} was refused as a CIFAR file ({error}): download the official one again.") from error


def read_batch(path: Path, label_key: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 3, 32, 32) and labels (N,) of one file."""
    content = read_pickle(path)
    if "data" not in content or label_key not in content:
        raise UserError(
            f"{path} has no '{label_key}' or no 'data', so it is not the expected CIFAR file: download it again."
        )
    pixels = np.asarray(content["data"])
    try:
        labels = np.asarray(content[label_key], np.int64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise UserError(
            f"{path} has '{label_key}' that are not whole numbers, so it is not the expected CIFAR file: download it "
            "again."
        ) from None
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072):
        raise UserError(
            f"{path} holds no pictures of 3 x 32 x 32 bytes, so it is not the expected CIFAR file: download it again."
        )
    return pixels.reshape(-1, 3, 32, 32), labels


def read_names(path: Path, key: str) -> tuple[str, ...]:
    content = read_pickle(path)
    if key not in content:
        raise UserError(f"{path} has no '{key}', so it is not the expected CIFAR file: download it again.")
    try:
        return tuple(_text(name) for name in content[key])
    except (TypeError, UnicodeDecodeError):
        raise UserError(
            f"{path} has no names in '{key}', so it is not the expected CIFAR file: download it again."
        ) from None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
