"""RowKind: the common base of texts and table rows. One file per kind: text_kind.py, table_kind.py."""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import UserError
from ..scratch import Chosen, room, slices
from .examples import UNLABELLED, Dataset, Examples
from .labels import NO_CLASS, LabelFiles, as_paths, names_meant, read_labels, refuse_alike
from .records import open_records
from .row_files import PART, Listing, Roles, RowFile, RowLabels, is_row_file
from .vectors import VectorKind

EACH_OWN = 50  # labelled rows from which on a class for each of them is a mistake
NAMED = 20  # classes that a message lists


@dataclass(frozen=True)
class RowKind(VectorKind):
    """float32 (N, columns), made of the cells of a file of rows."""

    label_places = "with --labels, or name the column that holds them: --label-column"

    @property
    @abstractmethod
    def roles(self) -> Roles:
        """The roles of the columns of the training file."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The columns of a file that are learnt from."""

    @property
    def unused(self) -> tuple[str, ...]:
        """The input columns that are left out."""
        return ()

    @abstractmethod
    def of_cells(self, rows: Iterable[Sequence[str]], count: int) -> Tensor:
        """(count, columns) of rows of cells, one cell for each of `inputs`."""

    def stream(self, path: Path, chunk: int, title: str = "") -> Iterator[Examples]:
        """Unlabelled rows, `chunk` at a time."""
        file = self.open(path)
        listing, cells = file.listing(), file.inputs()
        first = 0
        while part := list(itertools.islice(cells, chunk)):
            places = range(first, first + len(part))
            labels, names = torch.full((len(part),), UNLABELLED), listing.names[first : first + len(part)]
            shown = listing.shown.at(places)
            yield Examples(self.of_cells(part, len(part)), labels, (), names, self, original=shown)
            first += len(part)

    def load_test(self, path: Path, classes: Sequence[str], labels: LabelFiles) -> Examples:
        """The labelled rows of a file."""
        file = self.open(path)
        if labels is None and self.roles.label is not None:
            file.records.column(self.roles.label)
        listing = file.listing()
        found = given_labels(file, listing, labels, [])[0]
        if strange := sorted(labels_in(found).keys() - set(classes)):
            known = ", ".join(classes[:NAMED])
            raise UserError(
                f"{path} has the label '{strange[0]}', which the model does not know (its classes are {known})."
            )
        if not labels_in(found):
            hint = "" if self.roles.label else " Name the column of their classes with --label-column."
            raise UserError(f"the rows of {path} have no labels: accuracy cannot be measured on them.{hint}")
        return examples_of(file, listing, self, found, classes, found.rows_without("", NO_CLASS))

    def with_label_column(self, name: str) -> "RowKind":
        return replace(self, label_column=name)  # type: ignore[call-arg]  # a field of texts and of tables

    def load_file(self, path: Path, labels: LabelFiles) -> Examples:
        return read_row_file(self.open(path), self, labels, None).train

    def open(self, path: Path) -> RowFile:
        """A file with the columns that were trained on; it needs no column of labels."""
        if not is_row_file(path):
            raise UserError(f"{path} is not a file of rows such as .csv, which this model needs.")
        roles = self.roles
        label = roles.label if roles.label in open_records(path).header else None
        return RowFile(path, Roles(roles.text, label, roles.id), self.inputs, self.unused)


def read_row_file(file: RowFile, kind: RowKind, labels: LabelFiles, test: str | Path | None) -> Dataset:
    """Rows to train on and, from another file with the same columns, to test on."""
    if test is not None and Path(test).resolve() == file.path.resolve():
        raise UserError(f"--test is the training file, {file.path}: give another file.")
    listing, notes = file.listing(), file.records.notes()
    found, source = given_labels(file, listing, labels, notes)
    classes = classes_in(file, found, source)
    kept = found.rows_without(NO_CLASS)
    no_class = () if kept is None else tuple(listing.names[i] for i, label in enumerate(found) if label == NO_CLASS)
    if no_class:
        notes.append(f"Left out of training because they are labelled {NO_CLASS}: {len(no_class)}.")
    if kept is not None and not len(kept):
        raise UserError(f"all rows of {file.path} are labelled {NO_CLASS}: give some of them a class.")
    train = examples_of(file, listing, kind, found, classes, kept)
    held_out = None if test is None else kind.load_test(Path(test), classes, None)
    return Dataset(file.path.stem, train, held_out, False, tuple(notes), no_class)


def given_labels(
    file: RowFile, listing: Listing, labels: LabelFiles, notes: list[str]
) -> tuple[RowLabels, dict[str, str]]:
    """The label of each row, by the file's own column and by label files, which win; and where each class is from."""
    found = listing.labels
    source = dict.fromkeys(found.values, f"column {file.roles.label}")
    if labels is not None:
        paths = as_paths(labels)
        said = read_labels(paths, file.path, names_meant(paths, file.path, listing.names), "row")
        place = {name: position for position, name in enumerate(listing.names) if name in said.classes}
        for name, label in said.classes.items():
            if label:
                found.set(place[name], label)
                source.setdefault(label, said.sources[name])
        notes += said.notes
    return found, source


def labels_in(labels: RowLabels) -> dict[str, int]:
    """The classes, and how many rows have each."""
    return {label: count for label, count in labels.counts.items() if count and label not in ("", NO_CLASS)}


def classes_in(file: RowFile, labels: RowLabels, source: dict[str, str]) -> tuple[str, ...]:
    counts = labels_in(labels)
    classes, known = sorted(counts), sum(counts.values())
    refuse_alike(classes, source)
    if len(classes) == known > EACH_OWN:
        first = next(label for label in labels if label in counts)
        raise UserError(
            f"each of the {known} labelled rows of {file.path} has a different class, such as "
            f"'{first[:40]}': is '{file.roles.label}' the column with the classes?"
        )
    return tuple(classes)


def examples_of(
    file: RowFile,
    listing: Listing,
    kind: RowKind,
    labels: RowLabels,
    classes: Sequence[str],
    kept: NDArray[np.int64] | None,
) -> Examples:
    """The rows at the positions that are kept, or all of them."""
    inputs = kind.of_cells(file.inputs(), len(listing.names))
    rows: Sequence[int] | NDArray[np.int64] = range(len(inputs)) if kept is None else kept
    class_of = {name: i for i, name in enumerate(classes)}
    numbers = np.array([class_of.get(label, UNLABELLED) for label in labels.values], np.int64)
    found = room((len(rows),), np.int64)
    for part in slices(len(rows), PART):
        if kept is not None:  # moved forward within the table
            inputs[part] = inputs[kept[part]]
        found[part] = numbers[labels.numbers[part if kept is None else kept[part]]]
    return Examples(
        inputs[: len(rows)],
        torch.from_numpy(found),
        tuple(classes),
        listing.names if kept is None else Chosen(listing.names, kept),
        kind,
        source=listing.digest,
        original=listing.shown.at(rows),
    )
