"""Suggest examples to label first: typical ones of groups without a label.

Rows are divided into as many groups as there are labels and suggestions together (k-means on rows of length 1). Groups
without a label come first, the largest first, and each is represented by its most typical row, the one with the nearest
neighbours: TypiClust, Hacohen et al., https://arxiv.org/abs/2202.02794. With probabilities of a model it turns to
examples that are uncertain and diverse: of the least certain ones, those nearest to the centres of as many groups.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .data import NAMED, UNLABELLED, Dataset, Examples, Roles, load_for
from .data.labels import LabelFiles, as_paths
from .encoders import NONE, PHOTOS
from .errors import UserError
from .guessing import Prepared, nearest, parts_of
from .model import load_model
from .predictions import write_sheet
from .runs import RunDirectory
from .runs.audited import audited_before
from .runs.choose import choose_encoder
from .runs.resume import load_data
from .terminal import Terminal
from .training import Recipe, check_recipe

MOST_GROUPS = 500
SMALLEST = 5  # rows of a group that is worth a label
NEIGHBOURS = 20  # by which a row is typical
SAME = 0.995  # cosine similarity from which on two rows are near-duplicates
SAMPLE = 20_000  # rows by which groups are found, at most
CANDIDATES = 20_000  # of a group, at most: of a larger one evenly spaced rows are looked at
NO_CLASSES = "If subfolders are not classes: --no-subfolders."
UNCERTAIN = 10  # times as many uncertain examples as suggestions are looked at


class Suggestions(NamedTuple):
    positions: NDArray[np.int64]  # best first
    groups: int  # of similar examples
    covered: int  # groups that hold a label already


def suggest(rows: Any, n: int, labels: Any = None, seed: int = 0) -> NDArray[np.int64]:
    """Positions of the n rows whose labels would help most, best first.

    `rows` are features or other numbers (N, D) in which like examples lie together; `labels`, where there are any, are
    one for each row, -1 for unlabelled.

    >>> suggest([[0.0, 1.0], [0.1, 1.0], [0.2, 1.1], [5.0, 0.0], [5.1, 0.2]], 2).tolist()
    [0, 3]
    """
    return find_suggestions(rows, n, labels, seed=seed).positions


def find_suggestions(
    rows: Any, n: int, labels: Any = None, probabilities: NDArray[np.float64] | None = None, seed: int = 0
) -> Suggestions:
    """Like `suggest`, with details; with a model's `probabilities`, uncertain rows are suggested."""
    array = np.asarray(rows, dtype=np.float32)
    if array.ndim != 2 or not all(np.isfinite(part).all() for part in parts_of(array)):
        raise UserError("the rows must be numbers (N, D), without NaN and infinity.")
    labelled = np.zeros(len(array), bool) if labels is None else np.asarray(labels) != UNLABELLED
    if len(labelled) != len(array):
        raise UserError(f"there are {len(array)} rows and {len(labelled)} labels.")
    if n < 1:
        raise UserError(f"the number of suggestions must be at least 1, not {n}.")
    free = np.flatnonzero(~labelled)
    if not len(free):
        raise UserError("every example already has a label: there is nothing to suggest.")
    whole = Prepared(array).reduced(np.float32)
    if probabilities is not None:
        return uncertain_and_diverse(whole, labelled, probabilities, n, seed)
    return typical(whole, labelled, n, seed)


def typical(rows: NDArray[np.float32], labelled: NDArray[np.bool_], n: int, seed: int) -> Suggestions:
    """Groups by fewest labels, then largest; of each the most typical row that is not labelled."""
    count = min(MOST_GROUPS, int(labelled.sum()) + n, len(rows))
    group = groups_of(rows, count, seed)
    known = np.bincount(group[labelled], minlength=count)
    found = [by_typicality(rows, np.flatnonzero(group == g)) for g in range(count)]
    ranked, size = [members for members, _ in found], [distinct for _, distinct in found]
    smallest = SMALLEST if len(rows) >= 2 * SMALLEST * count else 1  # in small sets every group counts
    worth = [g for g in range(count) if size[g] >= smallest]
    order = sorted(worth, key=lambda g: (known[g], -size[g], g))
    chosen: list[int] = []
    taken = [*np.flatnonzero(labelled).tolist()]
    while len(chosen) < n and any(len(ranked[g]) for g in order):
        for g in order:
            while len(ranked[g]):
                position, ranked[g] = int(ranked[g][0]), ranked[g][1:]
                if not labelled[position] and not has_duplicate(rows, position, taken):
                    chosen.append(position)
                    taken.append(position)
                    break
            if len(chosen) == n:
                break
    return Suggestions(np.array(chosen, np.int64), len(worth), int((known[worth] > 0).sum()))


def uncertain_and_diverse(
    rows: NDArray[np.float32], labelled: NDArray[np.bool_], probabilities: NDArray[np.float64], n: int, seed: int
) -> Suggestions:
    """The rows nearest to cluster centres, among unlabelled rows with the smallest margin of the best two classes."""
    free = np.flatnonzero(~labelled)
    two = np.sort(probabilities[free], axis=1)[:, -2:]
    unsure = free[np.argsort(two[:, 1] - two[:, 0], kind="stable")[: UNCERTAIN * n]]
    group = groups_of(rows[unsure], min(n, len(unsure)), seed)
    chosen: list[int] = []
    for g in np.argsort(-np.bincount(group), kind="stable"):
        members = unsure[group == g]
        centre = rows[members].mean(0)
        for position in members[np.argsort(-(rows[members] @ centre), kind="stable")].tolist():
            if not has_duplicate(rows, position, chosen):
                chosen.append(position)
                break
    return Suggestions(np.array(chosen, np.int64), int(group.max()) + 1, 0)


def groups_of(rows: NDArray[np.float32], count: int, seed: int) -> NDArray[np.int64]:
    """A group for each row, by k-means on at most SAMPLE of them."""
    from sklearn.cluster import KMeans  # slow to import

    sample = rows[:: -(-len(rows) // SAMPLE)]
    found = KMeans(min(count, len(sample)), n_init=1, max_iter=50, random_state=seed).fit(sample)
    return found.predict(rows).astype(np.int64)


def by_typicality(rows: NDArray[np.float32], members: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """Members of a group, the most typical first, and how many of them are distinct.

    Typical are those whose nearest neighbours in the group are nearest. Near-duplicates do not count as neighbours:
    copies of one picture would look most typical of all.
    """
    if len(members) < 2:
        return members, float(len(members))
    step = -(-len(members) // CANDIDATES)
    members = members[::step]
    inside = rows[members].astype(np.float64)
    count = min(len(members) - 1, 3 * NEIGHBOURS)
    _, similarity = nearest(inside, inside, count, skip_self=True)
    wanted = max(1, min(NEIGHBOURS, len(members) // 2))
    same = similarity >= SAME
    similarity = np.where(same, -1.0, similarity)
    best = -np.sort(-similarity, axis=1)[:, :wanted]
    distance = np.sqrt(np.maximum(2 - 2 * best, 0)).mean(1)
    return members[np.argsort(distance, kind="stable")], step * float((1 / (1 + same.sum(1))).sum())


def has_duplicate(rows: NDArray[np.float32], position: int, others: list[int]) -> bool:
    return bool(others) and bool((rows[others] @ rows[position]).max() >= SAME)


# ---- of a folder or a data set


def suggest_examples(
    data: str,
    n: int,
    *,
    labels: LabelFiles = None,
    subfolders: bool | None = None,
    encoder: str | None = None,
    run: str | None = None,
    root: str | None = None,
    seed: int = 0,
    known: Collection[str] | None = None,
    roles: Roles | None = None,
    value_range: str | None = None,
    terminal: Terminal | None = None,
) -> tuple[Examples, Suggestions]:
    """Examples of a folder, a file or a named set, and which of them to label first; with a run, next.

    `known` are names of examples that count as labelled, instead of those in label files and subfolders.
    `roles` name the columns of a file of rows; with a run, they are those of its training.
    Messages about what was read go to the `terminal`.
    """
    if run is not None and value_range is not None:
        raise UserError("--range cannot be used with --run, whose model has its own range.")
    if run is not None:
        return suggest_next(data, n, RunDirectory(run), labels, subfolders, root, seed, known)
    examples, rows = comparable_examples(data, labels, encoder, root, roles, value_range, subfolders, terminal)
    before = known_labels(data, examples, known)
    labelled = before != UNLABELLED
    by_folder = known is None and labels is None and subfolders is None and Path(data).is_dir() and data not in NAMED
    if by_folder and labelled.all():
        raise UserError(f"all {examples.kind.noun} lie in subfolders, which are their labels. {NO_CLASSES}")
    if by_folder and labelled.any() and terminal:
        terminal.say(f"What is in subfolders counts as labelled. {NO_CLASSES}")
    leave_out(before, examples, audited_before(source_of(data)))  # `train` would refuse them
    return examples, find_suggestions(rows, n, before, seed=seed)


def comparable_examples(
    data: str,
    labels: LabelFiles = None,
    encoder: str | None = None,
    root: str | None = None,
    roles: Roles | None = None,
    value_range: str | None = None,
    subfolders: bool | None = None,
    terminal: Terminal | None = None,
) -> tuple[Examples, NDArray[np.float32]]:
    """Examples, and rows of numbers in which like ones lie together."""
    files = None if labels is None else [str(path) for path in as_paths(labels)]
    columns = {} if roles is None else roles.as_settings()
    recipe = check_recipe(
        Recipe(data=data, labels=files, subfolders=subfolders, encoder=encoder, root=root, range=value_range, **columns)
    )
    quiet = Terminal(quiet=True)
    dataset = load_data(recipe, choose_encoder(recipe, None, None, quiet))
    examples = dataset.train
    introduce(terminal or quiet, dataset)
    rows = examples.kind.comparable_rows(examples.inputs)
    if rows is None:
        raise UserError(
            f"to compare {examples.kind.describe()} an encoder is needed: {PHOTOS}, give one with --encoder, or a "
            "finished run with --run."
        )
    return examples, rows.numpy()


def introduce(terminal: Terminal, dataset: Dataset) -> None:
    """Print what was read."""
    for note in dataset.notes:
        terminal.say(note)
    if skipped := dataset.train.skipped:
        name, reason = next(iter(skipped.items()))
        more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        terminal.say(f"{len(skipped)} {dataset.train.kind.noun} could not be read: {name} ({reason}){more}.")


def suggest_next(
    data: str,
    n: int,
    run: RunDirectory,
    labels: LabelFiles,
    subfolders: bool | None,
    root: str | None,
    seed: int,
    names: Collection[str] | None = None,
) -> tuple[Examples, Suggestions]:
    """Suggest examples after a run: uncertain and diverse ones."""
    model = load_model(run.path)
    frozen = model.encoder if model.kind.encoder != NONE else NONE
    examples = load_for(model.kind, data, root, labels=labels, subfolders=subfolders, encoder=frozen)
    probabilities = model.predict_proba(examples)
    rows = examples.kind.rows(examples.inputs)
    features = model.features(examples) if rows is None else rows.numpy()
    known = known_labels(data, examples, names)
    leave_out(known, examples, {*run.labelled_names(), *audited_before(source_of(data), run)})
    return examples, find_suggestions(features, n, known, probabilities, seed)


def source_of(data: str) -> str:
    """The data as recipes of runs name them."""
    return data if data in NAMED else str(Path(data).resolve())


def leave_out(known: NDArray[np.int64], examples: Examples, names: Collection[str]) -> None:
    """Let examples of these names count as labelled."""
    if names:
        known[[position for position, name in enumerate(examples.names) if name in names]] = 0


def known_labels(data: str, examples: Examples, names: Collection[str] | None = None) -> NDArray[np.int64]:
    """Known labels; none for a named data set, although all of its labels exist."""
    if names is not None:
        return np.array([0 if name in names else UNLABELLED for name in examples.names])
    known = examples.labels.numpy().copy()
    if data in NAMED:
        known[:] = UNLABELLED
    return known


def write_suggestions(path: Path, examples: Examples, positions: NDArray[np.int64]) -> Path:
    """A CSV file with empty labels, best first, and beside it a page that shows the examples in that order."""
    title = f"{len(positions)} {examples.kind.noun} to label, the most useful first"
    advice = f"Write the class of each into the column label of {path.name}, then give that file as --labels."
    return write_sheet(path, examples, positions.tolist(), title, advice)
