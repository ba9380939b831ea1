"""How the numbers of a table are scaled, and which defaults it has."""

import numpy as np
import torch

from fewlabel.data import TableKind, VectorKind
from fewlabel.data.columns import find_form
from fewlabel.guessing import first_guess
from fewlabel.methods import full_settings


def kind_and_rows(header: list[str], cells: list[list[str]]) -> tuple[TableKind, torch.Tensor]:
    form, count = find_form(header, cells)
    kind = TableKind(form.width, form=form)
    return kind, kind.of_cells(cells, count)


def test_numbers_are_standardised_and_zeros_and_ones_stay() -> None:
    cells = [["1", "red", "100"], ["3", "", ""], ["5", "red", "9000"], ["7", "blue", "500"], ["9", "red", "0"]]
    kind, rows = kind_and_rows(["a", "colour", "b"], cells)
    assert kind.form.numbers == [0, 4]  # a, blue, red, other, b, is b missing?
    mean, std = kind.statistics(rows)
    torch.testing.assert_close(mean, rows.mean(0))
    torch.testing.assert_close(std[[0, 4]], rows.std(0, correction=0)[[0, 4]])
    assert std[[1, 2, 3, 5]].tolist() == [1, 1, 1, 1]
    torch.testing.assert_close(kind.rows(rows), (rows - mean) / std)


def test_categories_alone() -> None:
    kind, rows = kind_and_rows(["a"], [["x"], ["y"], ["y"], ["x"]])
    assert kind.form.numbers == []
    mean, std = kind.statistics(rows)
    assert (mean.tolist(), std.tolist()) == ([0.5, 0.5, 0.0], [1, 1, 1])


def test_numbers_alone_are_scaled_as_vectors_are() -> None:
    cells = [[str(value) for value in row] for row in np.random.default_rng(0).normal(0, [1, 1, 5000], (50, 3))]
    kind, rows = kind_and_rows(["a", "b", "c"], cells)
    for found, expected in zip(kind.statistics(rows), VectorKind(3).statistics(rows), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_column_of_large_numbers_does_not_hide_the_others() -> None:
    """The class is in two columns of small numbers; a third one is noise, a thousand times as large."""
    draw, labels = np.random.default_rng(0), np.arange(120) % 2
    table = np.column_stack([draw.normal(4 * labels, 1), draw.normal(4 * labels, 1), draw.normal(0, 1000, 120)])
    kind, inputs = kind_and_rows(["a", "b", "noise"], [[str(value) for value in row] for row in table])
    labelled = np.arange(6)

    def accuracy(rows: torch.Tensor) -> float:
        guess = first_guess(rows.numpy(), labelled, labels[labelled]).probabilities.argmax(1)
        return float((guess == labels).mean())

    assert accuracy(kind.rows(inputs)) > 0.9
    assert accuracy(inputs) < 0.7
    assert full_settings("icl-ssl", {}, kind.family)["fixmatch.guess"] == 1
    assert full_settings("icl-ssl", {}, VectorKind.family)["fixmatch.guess"] == 0
