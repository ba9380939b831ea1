"""The tasks of the background process, which holds the features of the pictures."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..data import Examples, Roles
from ..errors import UserError
from ..guessing import Prepared, nearest
from ..runs import RunDirectory
from ..suggesting import SAME, comparable_examples, suggest_examples
from ..suspicious import suspicious_labels

Columns = dict[str, Any] | None  # roles of the columns of a file, as settings
LIKE_THIS = 60  # pictures that are shown as similar
NEAR = 10  # neighbours among which duplicates are looked for


def suggest(
    data: str, known: list[str], encoder: str | None, run: str | None, n: int, columns: Columns = None
) -> dict[str, Any]:
    """Names of the pictures to label next, best first, and those that cannot be read."""
    examples, found = suggest_examples(data, n, encoder=encoder, run=run, known=set(known), roles=as_roles(columns))
    names = [examples.names[position] for position in found.positions]
    return {"names": names, "groups": found.groups, "covered": found.covered, "unreadable": dict(examples.skipped)}


def similar(data: str, encoder: str | None, name: str, columns: Columns = None) -> dict[str, Any]:
    """Names of the pictures that are most like one, the most similar first."""
    examples, rows = compared(data, encoder, as_roles(columns))
    if name not in examples.names:
        raise UserError(f"{name} cannot be read, so nothing can be compared with it.")
    position = examples.names.index(name)
    places, _ = nearest(rows[[position]], rows, min(LIKE_THIS + 1, len(rows)))
    return {"names": [examples.names[place] for place in places[0] if place != position]}


def duplicates(data: str, encoder: str | None, columns: Columns = None) -> dict[str, Any]:
    """Groups of pictures that are nearly the same."""
    examples, rows = compared(data, encoder, as_roles(columns))
    near, similarity = nearest(rows, rows, min(NEAR, len(rows) - 1), skip_self=True)
    start, place = np.nonzero(similarity >= SAME)
    pairs = csr_array((np.ones(len(start)), (start, near[start, place])), shape=(len(rows), len(rows)))
    _, group = connected_components(pairs, directed=False)
    groups: dict[int, list[str]] = {}
    for name, number in zip(examples.names, group.tolist(), strict=True):
        groups.setdefault(number, []).append(name)
    return {"groups": [names for names in groups.values() if len(names) > 1]}


def suspicious(run: str) -> dict[str, Any]:
    """Labels of a run that the other labels contradict, least likely first."""
    return {"labels": [one._asdict() for one in suspicious_labels(RunDirectory(run))]}


def as_roles(columns: Columns) -> Roles | None:
    return None if columns is None else Roles.of(**columns)


@lru_cache(maxsize=1)
def compared(data: str, encoder: str | None, roles: Roles | None) -> tuple[Examples, NDArray[np.float64]]:
    examples, rows = comparable_examples(data, encoder=encoder, roles=roles)
    return examples, Prepared(rows).reduced()


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "suggest": suggest,
    "similar": similar,
    "duplicates": duplicates,
    "suspicious": suspicious,
}
