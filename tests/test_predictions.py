"""Predictions: the split by confidence, and the file."""

import csv
from pathlib import Path

import torch

from fewlabel.predictions import Predictions


def make(count: int) -> Predictions:
    draw = torch.Generator().manual_seed(0)
    probabilities = torch.rand(count, 3, generator=draw).softmax(1)
    return Predictions([f"{n}.png" for n in range(count)], probabilities, ("a", "b", "c"), {"broken.png": "cut"})


def test_split_by_confidence() -> None:
    """Against sorting by hand: confident ones in their order, the others from the least confident on."""
    whole = make(50)
    rows = list(zip(whole.names, whole.confidence.tolist(), strict=True))
    sure, unsure = whole.split(0.42)
    assert list(sure.names) == [name for name, confidence in rows if confidence >= 0.42]
    assert list(unsure.names) == [name for name, c in sorted(rows, key=lambda row: row[1]) if c < 0.42]
    assert len(sure) and len(unsure)
    assert (sure.skipped, unsure.skipped) == ({"broken.png": "cut"}, {})
    everything, nothing = whole.split(0.0)
    assert (len(everything), len(nothing)) == (50, 0)


def test_a_split_of_many_takes_no_time_to_speak_of() -> None:
    """Were every row looked at anew for each row, this would take hours."""
    sure, unsure = make(300_000).split(0.4)
    assert len(sure) + len(unsure) == 300_000


def test_the_file(tmp_path: Path) -> None:
    make(4).write(tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["file", "label", "guess", "confirmed", "confidence", "a", "b", "c"]
    for row in rows[:-1]:
        shares = {name: float(row[name]) for name in "abc"}
        assert row["label"] == row["guess"] == max(shares, key=shares.__getitem__)
        assert row["confirmed"] == ""
        assert float(row["confidence"]) == max(shares.values())
    assert rows[-1] == dict.fromkeys(rows[0], "") | {"file": "broken.png"}


def test_classes_that_are_called_like_a_column(tmp_path: Path) -> None:
    whole = Predictions(["1.png"], torch.tensor([[0.5, 0.3, 0.2]]), ("file", "Label?", "cat"))
    whole.write(tmp_path / "p.csv")
    header = (tmp_path / "p.csv").read_text(encoding="utf-8-sig").splitlines()[0]
    assert header == "file,label,guess,confirmed,confidence,file (class),Label? (class),cat"
