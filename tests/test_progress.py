import json
from pathlib import Path

import pytest
import torch

from fewlabel.progress import Meter, Reporter, describe, kept_lines


def test_meter_against_counting_by_hand() -> None:
    meter = Meter(3, torch.device("cpu"))
    steps = [
        ([0, 1, 1, 2], [True, True, False, False], [1, 1, 1, 2], [0, 2, 1, 2], 2.0),
        ([0, 0, 1, 2], [True, False, False, True], [0, 0, 1, 1], [0, 0, -1, -1], 4.0),
    ]
    for guess, kept, predicted, truth, loss in steps:
        records = {
            "pseudo_labels": torch.tensor(guess),
            "kept": torch.tensor(kept),
            "predictions": torch.tensor(predicted),
        }
        meter.add({"labelled": torch.tensor(loss), "unlabelled": torch.tensor(1.0)}, records, torch.tensor(truth))
    line = meter.read()
    assert line["loss"] == {"total": 4.0, "labelled": 3.0, "unlabelled": 1.0}
    assert line["kept"] == 4 / 8
    assert line["kept_accuracy"] == pytest.approx(2 / 3)  # three kept ones have a known label
    assert line["guessed_by_class"] == [3 / 8, 3 / 8, 2 / 8]
    assert line["kept_by_class"] == [2 / 8, 1 / 8, 1 / 8]
    assert line["predicted_by_class"] == [2 / 8, 5 / 8, 1 / 8]
    assert meter.sums == {}


def test_meter_notices_numbers_that_are_none() -> None:
    meter = Meter(2, torch.device("cpu"))
    meter.add({"labelled": torch.tensor(1.0)}, {}, torch.tensor([0]))
    assert meter.finite()
    meter.add({"labelled": torch.tensor(float("nan"))}, {}, torch.tensor([0]))
    assert not meter.finite()


def test_lines_after_the_checkpoint_and_half_lines_go(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    assert kept_lines(path, 2) == [{"step": 1}, {"step": 2}]
    assert kept_lines(tmp_path / "none", 2) == []


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    reporter.start("fixmatch", tmp_path / "metrics.jsonl", 0, 10, 0.0)
    reporter.tick(64)
    values = {"loss": {"total": 1.5, "labelled": 1.5}, "kept": 0.5, "kept_accuracy": None} | reporter.speed()
    reporter.line(1, values)
    reporter.line(2, values | {"accuracy": 0.75})
    reporter.stop()
    out = capsys.readouterr().out
    assert out.count("\n") == 1  # only evaluations
    assert "fixmatch: step 2/10, labelled 1.500, kept 50%, test 75.00%" in out
    assert "\x1b" not in out
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert written == reporter.history
    assert [line["step"] for line in written] == [1, 2]


def test_describe() -> None:
    line = {"loss": {"total": 3.0, "labelled": 1.0, "contrast": 2.0}, "kept": 0.9, "kept_accuracy": 0.5}
    assert describe(line | {"images_per_second": 12.3}) == (
        "labelled 1.000, contrast 2.000, kept 90% (50.0% right), 12 images/s"
    )
