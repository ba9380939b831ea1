"""The verdict against a count by hand, and what it says."""

import math

import pytest
import torch

from fewlabel.verdict import Verdict, make_verdict, verdict_in_words


def made(both: int, only_run: int, only_floor: int, neither: int) -> Verdict:
    right = [(1, 1)] * both + [(1, 0)] * only_run + [(0, 1)] * only_floor + [(0, 0)] * neither
    truth = torch.tensor([1] * len(right) + [-1])
    run, floor = (torch.tensor([pair[k] for pair in right] + [1]) for k in (0, 1))
    return make_verdict(truth, run, floor, 0.9)


def test_counts_and_interval() -> None:
    found = made(60, 20, 5, 15)
    assert (found.tested, found.right, found.floor_right, found.only_run, found.only_floor) == (100, 80, 65, 20, 5)
    mean, low, high = found.difference
    differences = [1.0] * 20 + [-1.0] * 5 + [0.0] * 75
    by_hand = sum(differences) / 100
    spread = math.sqrt(sum((d - by_hand) ** 2 for d in differences) / 100 / 100)
    assert mean == pytest.approx(100 * by_hand)
    assert (low, high) == pytest.approx((100 * (by_hand - 1.96 * spread), 100 * (by_hand + 1.96 * spread)), abs=0.01)
    assert Verdict.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            (60, 20, 5, 15),
            "The unlabelled images helped: 80.0% of 100 test images are right, with the 8 labels alone 65.0%",
        ),
        ((60, 6, 5, 29), "The unlabelled images made no clear difference"),
        ((60, 5, 20, 15), "The unlabelled images lowered the accuracy"),
        ((990, 4, 0, 6), "The unlabelled images made no clear difference"),  # four may be chance
        ((100, 0, 0, 0), "The unlabelled images made no clear difference"),
    ],
)
def test_words(counts: tuple[int, int, int, int], said: str) -> None:
    first, second = verdict_in_words(made(*counts), "images", 8, "runs/x")
    assert first.startswith(said)
    assert "`fewlabel suggest DATA --run runs/x`" in second
    command = "fewlabel suggest photos --run runs/x"
    assert f"`{command}`" in verdict_in_words(made(*counts), "images", 8, "runs/x", command)[1]


def test_what_is_not_known() -> None:
    sentences = verdict_in_words(make_verdict(None, None, None, 0.875), "images", 8, "runs/x")
    assert sentences[0] == "Without a test set, the accuracy of the predictions is unknown."
    assert "12.5% of the unlabelled images" in sentences[1]
    assert "fewlabel audit runs/x -n 30 -o x-audit.csv" in sentences[2]
    found = make_verdict(None, None, None, 0.875)
    complete = verdict_in_words(made(60, 20, 5, 15), "images", 8, "runs/x", unlabelled=False)
    assert len(complete) == 1 and complete[0].startswith("80.0% of 100 test images are right, with the 8 labels alone")
    measured = verdict_in_words(found, "images", 8, "runs/x", measured=["90% are right."])
    assert measured[0] == "90% are right." and "fewlabel suggest DATA --run runs/x" in measured[1]
    assert len(verdict_in_words(make_verdict(None, None, None, None), "images", 8, "runs/x")) == 2
    alone = make_verdict(torch.tensor([0, 1]), torch.tensor([0, 0]), None, None)
    assert verdict_in_words(alone, "images", 8, "r")[0] == "50.0% of 2 test images are right."
