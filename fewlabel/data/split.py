"""Choose the few images that are labelled."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ..errors import UserError
from .examples import UNLABELLED


def few_label_split(labels: Tensor | np.ndarray | Sequence[int], per_class: int, seed: int) -> np.ndarray:
    """The positions of `per_class` images of every class, in ascending order.

    The raw stream of PCG64 is fixed by its definition, so the same seed gives the same split on every platform.

    >>> few_label_split([0, 1, 0, 1, 0, 1], per_class=1, seed=0).tolist()
    [2, 3]
    """
    labels = np.asarray(labels)
    if per_class < 1:
        raise UserError(f"labels per class must be at least 1, not {per_class}.")
    order = np.argsort(np.random.PCG64(seed).random_raw(len(labels)), kind="stable")
    chosen = []
    for label in np.unique(labels[labels != UNLABELLED]):
        of_class = order[labels[order] == label]
        if len(of_class) < per_class:
            raise UserError(f"class {label} has {len(of_class)} labelled images, {per_class} per class were asked for.")
        chosen.append(of_class[:per_class])
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)
