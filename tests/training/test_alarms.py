"""The collapse alarm: when it sounds, when it does not, and what a user sees of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fewlabel import Recipe, Setting, load, make_method, pretrain, train
from fewlabel.data import Dataset, Images
from fewlabel.networks import make_classifier
from fewlabel.runs.report import alarm_boxes
from fewlabel.training import Plan, check_recipe, make_plan
from fewlabel.training.alarms import FEW_CLASSES, NONE_KEPT, advice, alarms
from tests.methods.steps import BATCH, MU, make_problem, make_step_and_passes
from tests.methods.steps import CLASSES as CLASSES_OF_STEPS

CLASSES = tuple("abcdefghij")


def run(steps: int, every: int, guessed: dict[int, float] | None = None, kept: float = 0.5) -> list[dict[str, Any]]:
    """Lines of metrics, every so many steps, all alike; guesses are even but for those given."""
    given = guessed or dict.fromkeys(range(10), 0.1)
    row = [given.get(c, 0.0) for c in range(10)]
    return [{"step": step, "predicted_by_class": row, "kept": kept} for step in range(every, steps + 1, every)]


@pytest.mark.parametrize(
    ("guessed", "sounds"),
    [
        ({3: 1.0}, True),
        ({3: 0.5, 7: 0.2, 1: 0.16, 2: 0.1, 4: 0.04}, True),  # four of ten hold 96%
        ({3: 0.5, 7: 0.2, 1: 0.14, 2: 0.1, 4: 0.06}, False),  # four of ten hold 94%
        (None, False),
    ],
)
def test_few_classes(guessed: dict[int, float] | None, sounds: bool) -> None:
    found = alarms(run(200, 10, guessed), 1000, CLASSES)
    assert (FEW_CLASSES in found) == sounds
    assert NONE_KEPT not in found


def test_the_message_names_the_classes() -> None:
    assert alarms(run(200, 10, {3: 0.9, 7: 0.08, 1: 0.02}), 1000, CLASSES)[FEW_CLASSES] == (
        "98% of the predictions for unlabelled images fall into 2 of 10 classes (d, h)"
    )


def test_two_classes_need_nearly_all_in_one() -> None:
    for share, sounds in ((0.9, False), (0.97, True)):
        lines = [{"step": s, "predicted_by_class": [share, 1 - share], "kept": 1.0} for s in (50, 100)]
        assert (FEW_CLASSES in alarms(lines, 500, ("no", "yes"))) == sounds


def test_what_is_brief_is_no_cause_for_alarm() -> None:
    """Runs begin with all guesses in one class: the mean over a tenth of the run counts, once there was one."""
    assert not alarms(run(190, 10, {3: 1.0}), 2000, CLASSES)
    assert FEW_CLASSES in alarms(run(200, 10, {3: 1.0}), 2000, CLASSES)
    recovered = run(200, 10, {3: 1.0}) + [{**line, "step": line["step"] + 200} for line in run(100, 10)]
    assert not alarms(recovered, 2000, CLASSES)


def test_a_short_run_is_all_beginning() -> None:
    """A tenth of 400 steps is too little to judge by: 100 steps at least."""
    assert not alarms(run(90, 10, {3: 1.0}, kept=0.0), 400, CLASSES)
    assert list(alarms(run(100, 10, {3: 1.0}, kept=0.0), 400, CLASSES)) == [FEW_CLASSES]
    assert list(alarms(run(300, 10, {3: 1.0}, kept=0.0), 400, CLASSES)) == [FEW_CLASSES, NONE_KEPT]


@pytest.mark.parametrize(("kept", "steps", "sounds"), [(0.0, 500, True), (0.0, 490, False), (0.002, 500, False)])
def test_none_kept_for_a_quarter_of_the_run(kept: float, steps: int, sounds: bool) -> None:
    assert (NONE_KEPT in alarms(run(steps, 10, kept=kept), 2000, CLASSES)) == sounds


@pytest.mark.parametrize("name", ["fixmatch", "remixmatch", "adamatch", "comatch", "simmatch"])
def test_aligned_guesses_do_not_hide_a_collapsed_network(name: str) -> None:
    """The network says class 2 for every image: alignment spreads the guesses, but the alarm sees the network."""
    method = make_method(name, **({"align": 1} if name == "fixmatch" else {}))
    network = make_classifier("mlp", (1, 8, 8), CLASSES_OF_STEPS, projector=False, seed=0)
    method.build(replace(make_problem(), features=network.features))
    step, passes = make_step_and_passes(network=network)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias[2] = 1.0
    method.loss(step, passes.forward_all(method.inputs(step)))
    assert step.records["predictions"].tolist() == [2] * (MU * BATCH)


def test_a_method_that_guesses_nothing_raises_no_alarm() -> None:
    assert not alarms([{"step": 500, "loss": {}}], 500, CLASSES)


def test_advice_names_the_settings_of_the_run() -> None:
    def plan(method: str, **settings: float) -> Plan:
        digits = load("digits")
        recipe = Recipe(labels_per_class=2, method=method, settings=settings, learning_rate=0.06)
        return make_plan(recipe, digits)

    usual = plan("icl-ssl")
    assert advice(NONE_KEPT, usual)[0] == "lower --fixmatch.threshold (now 0.95)"
    assert advice(FEW_CLASSES, usual)[0] == "align the pseudo-labels (--fixmatch.align 0.5)"
    assert "(--mixmatch.ramp, now 500)" in advice(FEW_CLASSES, plan("mixmatch", ramp=500))[0]
    assert "halve the learning rate (--learning-rate 0.03)" in advice(FEW_CLASSES, usual)
    assert not any("align" in line for line in advice(FEW_CLASSES, plan("fixmatch", align=0.5)))
    assert advice(NONE_KEPT, usual, flags=False)[0] == "lower fixmatch.threshold (now 0.95)"  # as in Python


def test_a_run_says_it_on_the_terminal_in_the_metrics_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be kept at a threshold above 1. It is said once, also where the run is stopped and resumed."""
    monkeypatch.setattr(Setting, "check_bounds", lambda *_: None)
    recipe = Recipe(
        method="fixmatch",
        settings={"fixmatch.threshold": 1.1},
        labels_per_class=2,
        network="mlp",
        steps=320,
        batch=4,
        out=str(tmp_path),
    )
    train(recipe)
    said = capsys.readouterr().out
    assert said.count("Warning at step") == said.count("hardly any pseudo-label") == 1
    assert "lower --fixmatch.threshold (now 1.1)" in said
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"alarms" in line for line in lines if line["step"] < 300} == {False}
    assert {NONE_KEPT in line["alarms"] for line in lines if line["step"] >= 300} == {True}
    page = (tmp_path / "report.html").read_text()
    assert 'class="warning"' in page
    assert "lower --fixmatch.threshold (now 1.1)" in page
    assert "alarms" not in (tmp_path / "floor/metrics.jsonl").read_text()
    train(recipe, resume=True)
    assert "Warning" not in capsys.readouterr().out
    assert (tmp_path / "report.html").read_text() == page


def test_an_alarm_that_passed_is_told_as_such() -> None:
    plan = make_plan(Recipe(labels_per_class=2, settings={"fixmatch.threshold": 0.9}), load("digits"))
    on = {"alarms": {NONE_KEPT: "hardly any"}}
    history = [{"step": step, **(on if step in (10, 30, 40) else {})} for step in range(10, 60, 10)]
    (passed,), now = alarm_boxes(plan, history)["passed"], alarm_boxes(plan, history)["now"]
    assert (passed["text"], passed["since"], passed["until"], now) == ("Hardly any", "30", "40", [])
    (still,) = alarm_boxes(plan, history[:-1])["now"]
    assert (still["text"], still["since"]) == ("Hardly any", "30")
    assert "lower --fixmatch.threshold (now 0.9)" in still["advice"]
    assert alarm_boxes(plan, [{"step": 10}]) == {"now": [], "passed": []}


@pytest.mark.slow
@pytest.mark.parametrize("steps", [100, 400])
def test_a_healthy_run_says_nothing(steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Recipe(method="fixmatch", network="mlp", labels_per_class=2, steps=steps, batch=16, out=str(tmp_path))
    train(recipe)
    assert "Warning" not in capsys.readouterr().out
    assert 'class="warning"' not in (tmp_path / "report.html").read_text()


def test_a_collapse_of_the_embeddings_is_told_with_advice() -> None:
    """Once it lasts; embeddings that spread again end it."""
    history: list[dict[str, Any]] = [{"step": step, "spread": 0.02} for step in range(10, 60, 10)]
    assert alarms(history, 1000, ("a", "b")) == {}  # 100 steps at least
    history += [{"step": step, "spread": 0.02} for step in range(60, 210, 10)]
    found = alarms(history, 1000, ("a", "b"))
    assert list(found) == ["collapse"]
    assert "embeddings of all images are nearly the same (their spread is 2%)" in found["collapse"]
    history += [{"step": step, "spread": 0.8} for step in range(210, 310, 10)]
    assert alarms(history, 1000, ("a", "b")) == {}
    digits = load("digits")
    plans = {
        name: make_plan(check_recipe(Recipe(method=name, steps=9), first_stage=True), digits)
        for name in ("simclr", "simsiam")
    }
    assert any("--simclr.temperature" in text for text in advice("collapse", plans["simclr"]))
    assert any("simclr or moco" in text for text in advice("collapse", plans["simsiam"]))


def test_a_first_stage_that_collapses_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All images are the same: their embeddings are one point."""
    images = Images(
        torch.full((64, 1, 8, 8), 100, dtype=torch.uint8), torch.full((64,), -1), (), [str(i) for i in range(64)]
    )
    recipe = Recipe(method="simclr", batch=16, mu=1, steps=130, evaluations=1, network="mlp", out=str(tmp_path / "run"))
    recipe = replace(recipe, settings={"simclr.views": "weak"})
    pretrain(recipe, Dataset("blank", images, None, flip=False))
    assert "the embeddings of all images are nearly the same" in capsys.readouterr().out
    assert "nearly the same" in (tmp_path / "run/report.html").read_text()
