"""The collapse alarm: when it sounds, when it does not, and what a user sees of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fewlabel import Recipe, train
from fewlabel.alarm import FEW_CLASSES, NONE_KEPT, advice, alarms

CLASSES = tuple("abcdefghij")


def run(steps: int, every: int, guessed: dict[int, float] | None = None, kept: float = 0.5) -> list[dict[str, Any]]:
    """Lines of metrics, every so many steps, all alike; guesses are even but for those given."""
    given = guessed or dict.fromkeys(range(10), 0.1)
    row = [given.get(c, 0.0) for c in range(10)]
    return [{"step": step, "guessed_by_class": row, "kept": kept} for step in range(every, steps + 1, every)]


@pytest.mark.parametrize(
    ("guessed", "sounds"),
    [
        ({3: 1.0}, True),
        ({3: 0.5, 7: 0.3, 1: 0.16, 2: 0.04}, True),  # three of ten hold 96%
        ({3: 0.5, 7: 0.3, 1: 0.14, 2: 0.06}, False),  # three of ten hold 94%
        (None, False),
    ],
)
def test_few_classes(guessed: dict[int, float] | None, sounds: bool) -> None:
    found = alarms(run(200, 10, guessed), 1000, CLASSES)
    assert (FEW_CLASSES in found) == sounds
    assert NONE_KEPT not in found


def test_the_message_names_the_classes() -> None:
    assert alarms(run(200, 10, {3: 0.9, 7: 0.08, 1: 0.02}), 1000, CLASSES)[FEW_CLASSES] == (
        "98% of the guesses for unlabelled images fall into 2 of 10 classes (d, h)"
    )


def test_two_classes_need_nearly_all_in_one() -> None:
    for share, sounds in ((0.9, False), (0.97, True)):
        lines = [{"step": s, "guessed_by_class": [share, 1 - share], "kept": 1.0} for s in (50, 100)]
        assert (FEW_CLASSES in alarms(lines, 500, ("no", "yes"))) == sounds


def test_what_is_brief_is_no_cause_for_alarm() -> None:
    """Runs begin with all guesses in one class: the mean over a tenth of the run counts, once there was one."""
    assert not alarms(run(90, 10, {3: 1.0}), 1000, CLASSES)
    assert FEW_CLASSES in alarms(run(100, 10, {3: 1.0}), 1000, CLASSES)
    recovered = run(100, 10, {3: 1.0}) + [{**line, "step": line["step"] + 100} for line in run(50, 10)]
    assert not alarms(recovered, 1000, CLASSES)


@pytest.mark.parametrize(("kept", "steps", "sounds"), [(0.0, 250, True), (0.0, 240, False), (0.002, 250, False)])
def test_none_kept_for_a_quarter_of_the_run(kept: float, steps: int, sounds: bool) -> None:
    assert (NONE_KEPT in alarms(run(steps, 10, kept=kept), 1000, CLASSES)) == sounds


def test_a_method_that_guesses_nothing_raises_no_alarm() -> None:
    assert not alarms([{"step": 500, "loss": {}}], 500, CLASSES)


def test_advice_names_the_settings_of_the_run() -> None:
    recipe = Recipe(settings={"fixmatch.threshold": 0.95, "fixmatch.align": False, "icl.weight": 0.5})
    assert advice(NONE_KEPT, recipe)[0] == "lower --fixmatch.threshold (now 0.95)"
    assert advice(FEW_CLASSES, recipe)[0] == "align the guesses (--fixmatch.align)"
    assert "halve the learning rate (--learning-rate 0.03)" in advice(FEW_CLASSES, recipe)
    aligned = Recipe(settings={"fixmatch.threshold": 0.95, "fixmatch.align": True})
    assert not any("align" in line for line in advice(FEW_CLASSES, aligned))


def test_a_run_says_it_on_the_terminal_in_the_metrics_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can be kept at a threshold above 1."""
    recipe = Recipe(
        method="fixmatch",
        settings={"fixmatch.threshold": 1.1},
        labels_per_class=2,
        steps=40,
        batch=8,
        out=str(tmp_path),
    )
    train(recipe)
    said = capsys.readouterr().out
    assert said.count("Warning at step") == said.count("hardly any guess") == 1
    assert "lower --fixmatch.threshold (now 1.1)" in said
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert NONE_KEPT in lines[-1]["alarms"]
    assert "alarms" not in lines[0]
    page = (tmp_path / "report.html").read_text()
    assert 'class="warning"' in page and "lower --fixmatch.threshold (now 1.1)" in page
    assert "alarms" not in (tmp_path / "floor/metrics.jsonl").read_text()


def test_a_healthy_run_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Recipe(method="pi-model", labels_per_class=2, steps=60, batch=16, floor=False, out=str(tmp_path))
    train(recipe)
    assert "Warning" not in capsys.readouterr().out
    assert 'class="warning"' not in (tmp_path / "report.html").read_text()
