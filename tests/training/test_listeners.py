from typing import Any

import pytest
import torch

from fewlabel import Recipe, load
from fewlabel.terminal import Terminal
from fewlabel.training import Listener, StepResult, Trainer, check_recipe, fit, make_plan
from fewlabel.training.listeners import Clock, DivergenceCheck, History, ProgressBar, describe
from fewlabel.training.meter import Meter


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


def test_meter_notices_nan() -> None:
    meter = Meter(2, torch.device("cpu"))
    meter.add({"labelled": torch.tensor(1.0)}, {}, torch.tensor([0]))
    assert meter.finite()
    meter.add({"labelled": torch.tensor(float("nan"))}, {}, torch.tensor([0]))
    assert not meter.finite()


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    digits = load("digits")
    recipe = Recipe(labels_per_class=2, method="fixmatch", network="mlp", batch=8, steps=10, evaluations=2)
    return Trainer(make_plan(check_recipe(recipe), digits), digits)


def test_what_listeners_hear(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step, a line of metrics where one is due, and the end; without a terminal a plain line per evaluation."""
    heard: list[tuple[int, bool]] = []
    ended: list[bool] = []

    class Ear(Listener):
        def after_step(self, trainer: Trainer, step: int, result: StepResult, line: dict[str, Any] | None) -> None:
            heard.append((step, line is not None))
            assert line is None or {"seconds", "images_per_second"} <= line.keys()

        def end(self) -> None:
            ended.append(True)

    history = History()
    fit(trainer, [DivergenceCheck(), Clock(), history, ProgressBar("fixmatch", Terminal()), Ear()], lines=5)
    assert heard == [(step, step in (2, 4, 5, 6, 8, 10)) for step in range(1, 11)]
    assert ended == [True]
    assert [line["step"] for line in history.lines] == [2, 4, 5, 6, 8, 10]
    assert ["accuracy" in line for line in history.lines] == [False, False, True, False, False, True]
    out = capsys.readouterr().out
    assert out.count("\n") == 2
    assert "fixmatch: step 10/10, test " in out
    assert "\x1b" not in out


def test_listeners_are_told_of_the_end_whatever_happens(trainer: Trainer) -> None:
    class Stop(History):
        ended = False

        def after_step(self, *_: Any) -> None:
            raise KeyboardInterrupt

        def end(self) -> None:
            self.ended = True

    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        fit(trainer, [stop])
    assert stop.ended


def test_describe() -> None:
    line = {"loss": {"total": 3.0, "labelled": 1.0, "contrast": 2.0}, "kept": 0.9, "kept_accuracy": 0.5}
    assert describe(line | {"images_per_second": 12.3}) == (
        "pseudo-labels 90% (50.0% correct), labelled 1.000, contrast 2.000, 12 examples/s"
    )
    assert describe({**line, "accuracy": 0.75}).startswith("test 75.00%, ")
