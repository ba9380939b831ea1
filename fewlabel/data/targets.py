"""Labels from Python."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from .examples import UNLABELLED


def numbered_labels(y: Any) -> tuple[Tensor, NDArray[Any]]:
    """Labels as class indices, -1 for unlabelled, and the sorted classes."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: give -1 for unlabelled rows.")
    # In an array of strings a NaN or -1 among them would become a string too.
    values = column_or_1d(np.array(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y), warn=True)
    if values.dtype.kind == "U" and np.isin(values, ("nan", str(UNLABELLED))).any():
        raise ValueError("y is an array of strings, in which NaN and -1 have become strings too: give a list.")
    known = np.array([not is_unlabelled(value) for value in values.tolist()], dtype=bool)
    there = values[known]
    if there.dtype == object:  # a list of strings, say, with None among them
        there = np.array(there.tolist())
    if not len(there):
        raise ValueError("y has no label: every row is unlabelled.")
    check_classification_targets(there)
    classes, positions = np.unique(there, return_inverse=True)
    labels = torch.full((len(values),), UNLABELLED)
    labels[torch.from_numpy(known)] = torch.from_numpy(positions).long()
    return labels, classes


def is_unlabelled(value: Any) -> bool:
    try:
        return bool(value is None or value == "" or value == UNLABELLED or value != value)
    except TypeError:  # pandas' NA, of which one cannot tell whether it is itself
        return True
