from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fewlabel import few_label_split
from fewlabel.errors import UserError

FOUR = [i % 4 for i in range(40)]


@pytest.mark.parametrize(
    ("labels", "per_class", "seed", "chosen"),
    [
        (FOUR, 2, 0, [2, 3, 11, 13, 18, 20, 21, 32]),
        (FOUR, 2, 1, [2, 9, 16, 18, 21, 31, 36, 39]),
        ([0, 1, -1, 2] * 10, 3, 7, [20, 21, 23, 24, 32, 33, 35, 37, 39]),
    ],
)
def test_the_same_on_every_platform(labels: list[int], per_class: int, seed: int, chosen: list[int]) -> None:
    """Pinned: a change here would make every published split irreproducible."""
    assert few_label_split(labels, per_class, seed).tolist() == chosen


@pytest.mark.parametrize("per_class", [1, 4, 25])
@pytest.mark.parametrize("seed", [0, 3])
def test_class_balanced(per_class: int, seed: int) -> None:
    labels = np.random.default_rng(5).permutation(np.repeat([0, 1, 2, 3, 4], [25, 40, 60, 100, 300]))
    chosen = few_label_split(labels, per_class, seed)
    assert np.bincount(labels[chosen]).tolist() == [per_class] * 5
    assert (np.diff(chosen) > 0).all(), "ascending, none of them twice"


def test_deterministic_and_seeded() -> None:
    labels = np.arange(1000) % 10
    splits = [few_label_split(labels, 4, seed).tolist() for seed in (0, 0, 1, 2)]
    assert splits[0] == splits[1]
    assert len({tuple(split) for split in splits}) == 3


def test_every_image_of_a_class_has_the_same_chance() -> None:
    counts = np.zeros(20)
    for seed in range(1000):
        counts[few_label_split(np.arange(20) % 2, 1, seed)] += 1
    assert counts.sum() == 2000
    assert counts.min() > 60 and counts.max() < 145  # 100 expected, standard deviation 9.5


@pytest.mark.parametrize("kind", [list, tuple, np.asarray, torch.tensor], ids=lambda kind: kind.__name__)
def test_kinds_of_labels(kind: Callable[[list[int]], Any]) -> None:
    assert few_label_split(kind(FOUR), 2, 0).tolist() == [2, 3, 11, 13, 18, 20, 21, 32]


def test_unlabelled_images_are_never_chosen() -> None:
    labels = np.where(np.arange(60) < 40, -1, np.arange(60) % 2)
    chosen = few_label_split(labels, 10, 0)
    assert chosen.tolist() == list(range(40, 60))


@pytest.mark.parametrize("labels", [[], [-1, -1, -1]])
def test_nothing_labelled(labels: list[int]) -> None:
    chosen = few_label_split(labels, 2, 0)
    assert chosen.tolist() == []
    assert np.issubdtype(chosen.dtype, np.integer)


def test_too_few_of_a_class() -> None:
    with pytest.raises(UserError, match="class 7 has 2 labelled images, 3 per class"):
        few_label_split([1, 1, 1, 7, 7, -1, -1], 3, 0)


@pytest.mark.parametrize("per_class", [0, -1])
def test_no_labels_asked_for(per_class: int) -> None:
    with pytest.raises(UserError, match=f"at least 1, not {per_class}"):
        few_label_split(FOUR, per_class, 0)
