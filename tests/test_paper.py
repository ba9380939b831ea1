"""The paper's tables and figures: what is declared, what is run, what is shown."""

import json
import math
import os
import re
import shutil
import signal
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image

from fewlabel import Recipe, grid
from fewlabel.charts import BLUE, ORANGE
from fewlabel.commands.main import main
from fewlabel.data import load
from fewlabel.drift import DRIFTS
from fewlabel.errors import UserError
from fewlabel.grid import Result, name_of, result_path, write_result
from fewlabel.methods.aug_contrast import AugContrast
from fewlabel.paper import runs
from fewlabel.paper.exhibits import EXHIBITS, SCALES, Augmentations, Timing, recipe
from fewlabel.paper.figures import FIGURES
from fewlabel.paper.published import DATA_SETS, LABELS, PUBLISHED, SECONDS
from fewlabel.paper.runs import estimate, kept, origin, recipes_of, run_exhibit, work_of
from fewlabel.paper.show import FORMATS, NOT_RUN, TABLES, Table, accuracy_table
from fewlabel.training import Trainer, check_recipe, make_plan
from tests.processes import fewlabel, start

PRINTED = Path(__file__).parents[2] / "shared/paper/tables.json"  # typed from the paper by hand, not part of a clone
CLASSES = {"cifar100": 100}  # other data sets have ten


def write_results(out: Path, name: str, scale: str, accuracy: Callable[[Recipe], float | None], **facts: Any) -> None:
    """Results as a grid leaves them, for those recipes that are given an accuracy."""
    for one in map(check_recipe, recipes_of(name, scale, root=None)):
        if (value := accuracy(one)) is not None:
            result = Result(one.to_dict(), accuracy=value, steps=12, seconds=30.0, curve=((6, value / 2), (12, value)))
            write_result(out, one, replace(result, **facts))


def invented(one: Recipe) -> float:
    """A different accuracy for every run."""
    return int(name_of(one)[-6:], 16) / 16**6


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file's time and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


# ---- what is declared


def test_all_tables_and_figures_are_there() -> None:
    """Table 2 explains symbols."""
    assert set(EXHIBITS) == {*(f"table{n}" for n in (1, 3, 4, 5, 6, 7, 8)), *(f"figure{n}" for n in range(1, 9))}
    for name, exhibit in EXHIBITS.items():
        assert exhibit.drawn in (TABLES if name.startswith("table") else FIGURES)
        assert set(exhibit.work) in (set(), set(SCALES))
        methods = {one.method for scale in SCALES for one in recipes_of(name, scale, None)}
        assert {method for pair in exhibit.pairs for method in pair} <= methods


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXHIBITS)
def test_every_declared_run_is_a_possible_one(name: str, scale: str) -> None:
    work = work_of(name, scale)
    if isinstance(work, tuple):
        recipes = [check_recipe(one) for one in recipes_of(name, scale, "somewhere")]
        assert all(one.root == "somewhere" and not one.floor for one in recipes)
        assert len({name_of(one) for one in recipes}) == len(recipes)  # no two are the same
        counts = [len(g.labels) * len(g.methods) * len(g.settings) * g.seeds for g in work]
        assert len(recipes) == sum(counts)
        for g in work:
            assert all(labels % CLASSES.get(g.data, 10) == 0 for labels in g.labels)
    elif isinstance(work, Timing):
        for method in work.methods:
            check_recipe(recipe(scale, work.data, work.labels, method, {}, 0, None))
        assert set(work.methods) == set(SECONDS)
    else:
        assert isinstance(work, Augmentations)
        assert set(work.operations) <= set(DRIFTS)


@pytest.mark.parametrize(
    "name", [name for name, exhibit in EXHIBITS.items() if isinstance(exhibit.work.get("full"), tuple)]
)
def test_full_is_the_setting_of_the_paper(name: str) -> None:
    """Of section V: 300 epochs of 1,024 steps, batch 64 (CIFAR-100: 16), mu 1, learning rate 0.03 or, where ICL is
    transferred to other methods, theirs."""
    recipes = recipes_of(name, "full", None)
    transfer = name in ("table6", "figure6", "figure7")
    rates = {"mixmatch": 0.002, "mean-teacher": 0.003, "vat": 0.01} if transfer else {}
    for one in recipes:
        assert (one.network, one.steps, one.horizon, one.mu) == ("wrn-28-2", 307_200, 2**20, 1)
        assert one.learning_rate == rates.get(one.method.split("+")[0], 0.03)
        assert one.batch == (16 if one.data == "cifar100" else 64)
        assert (one.images, one.minutes) == (None, None)
        settings = check_recipe(one).settings
        assert settings.get("fixmatch.threshold", 0.95) == 0.95
        if "icl.weight" in settings and name != "figure8":
            assert settings["icl.weight"] == 0.5
    assert {one.seed for one in recipes} == {0, 1, 2, 3, 4}
    if name == "figure8":
        assert sorted({one.settings["icl.weight"] for one in recipes}) == [0.1, 0.25, 0.5, 0.75, 1.0]
        assert {(one.data, one.labels_per_class) for one in recipes} == {("cifar10", 2)}
    else:
        source = "table6" if name in ("figure6", "figure7") else name
        wanted = {
            (data, method, labels // CLASSES.get(data, 10))
            for data, methods in PUBLISHED[source].items()
            for method in methods
            for labels in LABELS[source][data]
        }
        assert {(one.data, one.method, one.labels_per_class) for one in recipes} == wanted


def test_the_published_figures_are_those_of_the_paper() -> None:
    if not PRINTED.exists():
        pytest.skip(f"{PRINTED} is not here: the figures of the paper, to compare with")
    printed = json.loads(PRINTED.read_text())
    keys = {
        ("table1", "cifar10"): "table1_label_scarcity_cifar10",
        ("table4", "cifar10"): "table4_cifar10",
        ("table5", "cifar100"): "table5_cifar100",
        ("table5", "svhn"): "table5_svhn",
        ("table6", "cifar10"): "table6_transfer_cifar10",
        ("table7", "cifar10"): "table7_ablation_cifar10",
    }
    names = {
        "without contrastive loss (= fixmatch)": "fixmatch",
        "without interpolation (contrastive loss on augmentation pairs)": "fixmatch+aug-contrast",
    }
    assert {(table, data) for table, of_table in PUBLISHED.items() for data in of_table} == set(keys)
    for (table, data), key in keys.items():
        theirs = {names.get(name, name): values for name, values in printed[key].items()}
        assert list(LABELS[table][data]) == theirs.pop("labels")
        assert json.loads(json.dumps(PUBLISHED[table][data])) == theirs
    times = printed["table8_time_cifar10_20_labels_seconds"]
    assert times.pop("columns") == ["training", "inference"]
    assert json.loads(json.dumps(SECONDS)) == times
    facts = {
        data: tuple(row[key] for key in ("size", "train", "test", "classes"))
        for data, row in printed["table3_datasets"].items()
    }
    assert facts == DATA_SETS


# ---- the learning rate of a run that ends before its cosine does


@pytest.mark.parametrize(("steps", "horizon"), [(4, 20), (4, None), (5, 2)])
def test_the_cosine_is_laid_out_for_the_horizon(steps: int, horizon: int | None) -> None:
    """cos(7 pi k / (16 K)), K the horizon or else the steps of the run; beyond the horizon the rate stays."""
    digits = load("digits")
    one = Recipe(
        labels_per_class=1,
        method="supervised",
        network="mlp",
        batch=4,
        learning_rate=0.03,
        steps=steps,
        horizon=horizon,
    )
    training = Trainer(make_plan(check_recipe(one), digits), digits)
    length = horizon or steps
    for k in range(steps):
        training.step(k)
        expected = 0.03 * math.cos(7 * math.pi * min(k, length) / (16 * length))
        assert [group["lr"] for group in training.optimiser.param_groups] == pytest.approx([expected] * 2, rel=1e-12)


def test_a_horizon_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="horizon must be at least 1, not 0"):
        check_recipe(Recipe(horizon=0))


# ---- what is run


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Result]]:
    """A table of accuracies, one of times and the figure of augmentations, all at the smallest scale."""
    out, told = tmp_path_factory.mktemp("done"), list[Result]()
    for name in ("table4", "table8", "figure3"):
        run_exhibit(name, "smoke", None, out, jobs=1, told=told.append)
    return out, told


def test_a_grid_leaves_a_result_for_every_run(done: tuple[Path, list[Result]]) -> None:
    out, told = done
    recipes = list(map(check_recipe, recipes_of("table4", "smoke", None)))
    assert sorted(path.name for path in (out / "results").iterdir()) == sorted(
        result_path(out, one).name for one in recipes
    )
    assert [(result.recipe["method"], result.recipe["seed"]) for result in told] == [
        (one.method, one.seed) for one in recipes
    ]
    for result in told:
        assert (result.error, result.steps) == (None, 12)
        assert [step for step, _ in result.curve] == [6, 12]
        assert result.curve[-1][1] == result.accuracy


def test_times_and_augmentations_are_kept(done: tuple[Path, list[Result]]) -> None:
    out, _ = done
    times = kept("table8", "smoke", out)
    assert times["seconds"].keys() == SECONDS.keys()
    assert all(row["training"] > row["inference"] > 0 for row in times["seconds"].values())
    assert (times["device"], times["threads"]) == ("cpu", torch.get_num_threads())
    facts = kept("figure3", "smoke", out)
    assert 0.5 < facts["plain"] <= 1  # 20 labels of each digit
    assert list(facts["changes"]) == ["horizontal-flip", "vertical-flip", "rotate", "crop", "shift"]
    assert all(error >= 0 for _, error in facts["changes"].values())


def test_what_is_done_is_not_done_again(done: tuple[Path, list[Result]]) -> None:
    out, _ = done
    before, told = contents(out), list[Result]()
    for name in ("table4", "table8", "figure3"):
        run_exhibit(name, "smoke", None, out, jobs=1, told=told.append)
    assert told == []
    assert contents(out) == before
    recipes = recipes_of("table4", "smoke", None)
    assert estimate(recipes, out, jobs=1) == (0, 0)


@pytest.mark.parametrize(("jobs", "expected"), [(1, 4 * 42), (2, 2 * 42), (8, 42)])  # one run cannot be divided
def test_the_estimate_is_of_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, expected: float
) -> None:
    """Four runs of 12 steps and 2 evaluations each."""
    times = {"step": 3.0, "evaluate": 3.0}
    monkeypatch.setattr(runs, "seconds", lambda work, *_: times[work.__name__])
    write_results(tmp_path, "table7", "smoke", lambda one: 0.5 if one.method == "fixmatch" else None)
    assert estimate(recipes_of("table7", "smoke", None), tmp_path, jobs) == (4, expected)


def test_a_method_that_fails_at_once_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even while its steps are timed."""

    def broken(*_: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(AugContrast, "loss", broken)
    assert main(["paper", "run", "table7", "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out.count("RuntimeError: no luck") == 2
    assert said.out.count("% in ") == 4
    assert "2 runs failed" in said.err


def test_a_failure_is_kept_and_stops_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(one: Recipe, **_: Any) -> SimpleNamespace:
        if broken and one.method == "fixmatch":
            raise RuntimeError("no luck")
        history = [{"step": 12, "seconds": 60.0, "accuracy": 0.5}]
        return SimpleNamespace(accuracy=0.5, history=history, directory=tmp_path / "run")

    monkeypatch.setattr(grid, "train", train)
    told: list[Result] = []
    broken = True
    run_exhibit("table7", "smoke", None, tmp_path, told=told.append)
    assert len(told) == 6
    assert {(result.recipe["method"], result.error) for result in told} == {
        ("icl-ssl", None),
        ("fixmatch", "RuntimeError: no luck"),
        ("fixmatch+aug-contrast", None),
    }
    files = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("fixmatch-*.json")]
    assert [facts["error"] for facts in files] == ["RuntimeError: no luck"] * 2
    table, *_ = accuracy_table("table7", "smoke", tmp_path, None)
    assert "50.00 ± 0.00 (2 seeds)" in table.rows[0]
    assert table.rows[1][1] == "2 failed"

    broken = False
    told.clear()
    run_exhibit("table7", "smoke", None, tmp_path, told=told.append)
    assert [(result.recipe["method"], result.error) for result in told] == [("fixmatch", None)] * 2


def test_drawings_need_no_runs(tmp_path: Path) -> None:
    for name in ("table3", "figure1", "figure2", "figure4", "figure5"):
        with pytest.raises(UserError, match=f"{name} needs no runs: `fewlabel paper show {name}`"):
            run_exhibit(name, "smoke", None, tmp_path)
    assert not list(tmp_path.iterdir())


# ---- tables


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def spread(values: list[float]) -> float:
    """The standard deviation of a sample."""
    return math.sqrt(sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1))


OURS: dict[str, list[float | None]] = {
    "icl-ssl": [0.91, 0.85, 0.96],
    "fixmatch": [None, 0.80, 0.97],
    "fixmatch+aug-contrast": [None, 0.5, None],
}


def ours_at_20(one: Recipe) -> float | None:
    """Of the ablation on MNIST only what has 20 labels was run, and not all of that."""
    return OURS[one.method][one.seed] if one.labels_per_class == 2 else None


def test_a_table_of_accuracies(tmp_path: Path) -> None:
    write_results(tmp_path, "table7", "cpu", ours_at_20, steps=100, seconds=90.0)
    ours, differences = accuracy_table("table7", "cpu", tmp_path, None)
    assert ours.head == [
        "test accuracy (%)",
        "mnist, 10 labels",
        "mnist, 20 labels",
        "mnist, 40 labels",
        "paper: cifar10, 20 labels",
        "paper: cifar10, 40 labels",
    ]
    icl, fixmatch = [91.0, 85.0, 96.0], [80.0, 97.0]
    assert ours.rows == [
        ["icl-ssl", NOT_RUN, f"{mean(icl):.2f} ± {spread(icl):.2f} (3 seeds)", NOT_RUN, "88.73", "91.78"],
        ["fixmatch", NOT_RUN, f"{mean(fixmatch):.2f} ± {spread(fixmatch):.2f} (2 seeds)", NOT_RUN, "72.63", "89.69"],
        ["fixmatch+aug-contrast", NOT_RUN, "50.00 (1 seed)", NOT_RUN, "56.91", "70.89"],
    ]
    assert ours.rows[0][2] == "90.67 ± 5.51 (3 seeds)"
    assert ours.notes == ["mnist: 6 runs, cnn, batch 32, mu 2, 100 steps, 1.5 minutes each on average."]

    points = [85.0 - 80.0, 96.0 - 97.0]  # of the seeds that both have
    assert differences.head == ["difference", "data", "labels", "points", "standard error", "seeds"]
    assert differences.rows == [
        ["icl-ssl - fixmatch", "mnist", "20", f"{mean(points):+.2f}", f"{spread(points) / math.sqrt(2):.2f}", "2"],
        ["icl-ssl - fixmatch+aug-contrast", "mnist", "20", "+35.00", "unknown", "1"],
    ]
    assert differences.rows[0][3:5] == ["+2.00", "3.00"]


def test_before_anything_is_run(tmp_path: Path) -> None:
    """Ours are marked, the paper's are there, and there are no differences."""
    (table,) = accuracy_table("table5", "full", tmp_path, None)
    assert table.head[1:7] == [
        *(f"cifar100, {labels} labels" for labels in (200, 400, 800)),
        *(f"svhn, {labels} labels" for labels in (250, 500, 1000)),
    ]
    assert table.head[7:] == [f"paper: {head}" for head in table.head[1:7]]
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == ["pi-model", "mean-teacher", "mixmatch", "fixmatch", "icl-ssl"]
    assert all(row[:6] == [NOT_RUN] * 6 for row in rows.values())
    assert rows["icl-ssl"][6:8] == ["14.06 ± 0.52", "26.52 ± 1.20"]
    assert table.notes == ["cifar100: not run yet.", "svhn: not run yet."]


def test_what_is_in_no_grid_is_left_blank(tmp_path: Path) -> None:
    """At this scale CIFAR-10 has no runs of Mean-Teacher, and none with 30 labels."""
    table, *_ = accuracy_table("table4", "cpu", tmp_path, None)
    cells = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert cells["mean-teacher"]["cifar10, 20 labels"] == ""
    assert cells["mean-teacher"]["mnist, 20 labels"] == NOT_RUN
    assert cells["icl-ssl"]["cifar10, 20 labels"] == NOT_RUN
    assert cells["mean-teacher"]["paper: cifar10, 30 labels"] == "24.51 ± 0.35"
    assert "cifar10, 30 labels" not in table.head


def test_notes_tell_of_unequal_lengths_and_alarms(tmp_path: Path) -> None:
    def of(method: str) -> Callable[[Recipe], float | None]:
        return lambda one: 0.5 if (one.method, one.seed) == (method, 0) else None

    write_results(tmp_path, "table7", "smoke", of("icl-ssl"), steps=1000, seconds=60.0)
    write_results(tmp_path, "table7", "smoke", of("fixmatch"), steps=2500, seconds=180.0, alarms=("collapse",))
    table, _ = accuracy_table("table7", "smoke", tmp_path, None)
    assert table.notes == [
        "digits: 2 runs, mlp, batch 16, mu 1, 1,000 to 2,500 steps, 2.0 minutes each on average; "
        "in 1 of them the collapse alarm was on at the end."
    ]


def test_an_accuracy_of_nothing_is_a_result_like_others(tmp_path: Path) -> None:
    values = {"icl-ssl": [0.3, 0.5], "fixmatch": [0.1, 0.0]}
    write_results(
        tmp_path, "table7", "smoke", lambda one: values[one.method][one.seed] if one.method in values else None
    )
    table, differences = accuracy_table("table7", "smoke", tmp_path, None)
    assert table.rows[1][1] == "5.00 ± 7.07 (2 seeds)"
    assert differences.rows == [["icl-ssl - fixmatch", "digits", "20", "+35.00", "15.00", "2"]]


def test_a_result_of_another_scale_or_version_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(grid, "__version__", "0.0.1")
        write_results(tmp_path, "table7", "smoke", invented)
    (table,) = accuracy_table("table7", "smoke", tmp_path, None)
    assert {row[1] for row in table.rows} == {NOT_RUN}
    write_results(tmp_path, "table7", "smoke", invented)
    (table,) = accuracy_table("table7", "cpu", tmp_path, None)
    assert {cell for row in table.rows for cell in row[1:4]} == {NOT_RUN}


def keep(out: Path, name: str, facts: Any, **changes: Any) -> None:
    """What was measured for an exhibit without a grid, as `run_exhibit` leaves it."""
    work = work_of(name, "smoke")
    assert not isinstance(work, tuple)
    (out / f"{name}-smoke.json").write_text(json.dumps({"origin": origin(work, "smoke") | changes, "facts": facts}))


def test_a_measurement_of_another_version_or_setting_does_not_count(tmp_path: Path) -> None:
    keep(tmp_path, "figure3", "measured")
    assert kept("figure3", "smoke", tmp_path) == "measured"
    assert kept("figure3", "cpu", tmp_path) is None
    for changes in ({"version": "0.0.1"}, {"work": {"data": "digits"}}):
        keep(tmp_path, "figure3", "measured", **changes)
        assert kept("figure3", "smoke", tmp_path) is None


def test_failed_runs_are_told_from_those_not_run(tmp_path: Path) -> None:
    """One of two FixMatch runs failed, both of ICL-SSL; the third method was not run."""
    write_results(tmp_path, "table7", "smoke", lambda one: 0.5 if (one.method, one.seed) == ("fixmatch", 0) else None)
    for one in map(check_recipe, recipes_of("table7", "smoke", root=None)):
        if (one.method, one.seed) == ("fixmatch", 1) or one.method == "icl-ssl":
            write_result(tmp_path, one, Result(one.to_dict(), error="MemoryError: too large\nby far"))
    table, *_ = accuracy_table("table7", "smoke", tmp_path, None)
    assert {row[0]: row[1] for row in table.rows} == {
        "icl-ssl": "2 failed",
        "fixmatch": "50.00 (1 seed, 1 failed)",
        "fixmatch+aug-contrast": NOT_RUN,
    }
    assert table.notes == [
        "digits: 1 run, mlp, batch 16, mu 1, 12 steps, 0.5 minutes each on average. "
        "3 failed, the first: MemoryError: too large"
    ]


def test_a_table_of_times(tmp_path: Path) -> None:
    (table,) = TABLES["time_table"]("table8", "smoke", tmp_path, None)
    assert [row[1:4] for row in table.rows] == [[NOT_RUN] * 3] * 4
    seconds = {method: {"training": 10.0 * (n + 1), "inference": 0.5} for n, method in enumerate(SECONDS)}
    keep(tmp_path, "table8", {"seconds": seconds, "device": "cpu", "threads": 2})
    (table,) = TABLES["time_table"]("table8", "smoke", tmp_path, None)
    assert len(table.head) == 7
    assert table.rows == [  # the second column of each is the time of training by that of FixMatch
        ["mixmatch", "10.00", "0.50", "0.50", "121.50 ± 0.21", "0.78", "0.60 ± 0.13"],
        ["fixmatch", "20.00", "1.00", "0.50", "155.37 ± 0.10", "1.00", "3.46 ± 0.07"],
        ["comatch", "30.00", "1.50", "0.50", "571.65 ± 0.15", "3.68", "1.30 ± 0.03"],
        ["icl-ssl", "40.00", "2.00", "0.50", "193.81 ± 0.14", "1.25", "1.08 ± 0.62"],
    ]
    assert table.notes[1].startswith("Ours: digits, mlp, batch 16, mu 1, on cpu with 2 threads; the median of 4 steps")


def test_a_table_of_data_sets(tmp_path: Path) -> None:
    """Without their files the paper's facts stand alone, and the reason is told."""
    (table,) = TABLES["data_table"]("table3", "cpu", tmp_path, str(tmp_path))
    assert [row[0] for row in table.rows] == ["svhn", "mnist", "cifar10", "cifar100"]
    for row in table.rows:
        assert row[1::2] == ["not read"] * 4
        assert tuple(map(int, row[2::2])) == DATA_SETS[row[0]]


# ---- formats


class Parsed(HTMLParser):
    """Rows of cells; tags must be closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert ("table" in self.open) == (tag not in ("table", "p"))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            assert self.open[-2] == "tr"
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += text
        elif text.strip():
            self.others.append(text)


def cells_of_markdown(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert set(lines.pop(1)) == {"|", "-"}
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cells_of_latex(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    assert lines[0].startswith(r"\begin{tabular}") and lines[-1] == r"\end{tabular}"
    rows = [line.removesuffix(r" \\") for line in lines if line.endswith(r"\\")]
    assert len(rows) == len(lines) - 2 - lines.count(r"\hline")
    assert not any(re.search(r"(?<!\\)[%#_]", row) for row in rows)
    columns = re.fullmatch(r"\\begin{tabular}{(l?c*)}", lines[0])
    assert columns and all(len(re.findall(r"(?<!\\)&", row)) == len(columns[1]) - 1 for row in rows)
    cells = [re.split(r"(?<!\\)&", row) for row in rows]
    return [[re.sub(r"\\([&%#_])", r"\1", cell).replace(r"$\pm$", "±").strip() for cell in row] for row in cells]


def cells_of_html(text: str) -> list[list[str]]:
    parsed = Parsed()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    return parsed.rows


def cells_of_json(text: str) -> list[list[str]]:
    rows = json.loads(text)[0]["rows"]
    return [list(rows[0]), *(list(row.values()) for row in rows)]


READERS = {"markdown": cells_of_markdown, "latex": cells_of_latex, "html": cells_of_html, "json": cells_of_json}


def some_tables(out: Path) -> list[Table]:
    write_results(out, "table7", "cpu", ours_at_20)
    awkward = Table("Signs & <wonders>", ["a & b (%)", "<c>", "d_1"], [["1 ± 2", "#3 & 4", "x < y"]], ["50% & more."])
    return [
        *accuracy_table("table7", "cpu", out, None),
        *accuracy_table("table5", "full", out, None),
        *TABLES["time_table"]("table8", "cpu", out, None),
        *TABLES["data_table"]("table3", "cpu", out, str(out)),
        awkward,
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_holds_every_cell(kind: str, tmp_path: Path) -> None:
    for table in some_tables(tmp_path):
        text = FORMATS[kind]([table])
        assert READERS[kind](text) == [list(table.head), *map(list, table.rows)]
        if kind != "html":
            assert all(line in text for line in (table.title, *table.notes))


def test_html_escapes_what_is_no_tag(tmp_path: Path) -> None:
    for table in some_tables(tmp_path):
        parsed = Parsed()
        parsed.feed(FORMATS["html"]([table]))
        assert parsed.others == [table.title, *table.notes]


def test_all_formats_are_read() -> None:
    assert set(READERS) == set(FORMATS) == {"markdown", "latex", "html", "json"}


# ---- figures


@pytest.fixture(scope="module")
def shown(done: tuple[Path, list[Result]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results for all figures."""
    out = tmp_path_factory.mktemp("shown") / "out"
    shutil.copytree(done[0], out)
    for name in ("figure6", "figure8"):
        write_results(out, name, "smoke", invented)
    return out


@pytest.mark.parametrize("name", [name for name in EXHIBITS if name.startswith("figure")])
def test_every_figure_is_drawn_twice(name: str, shown: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "show", name, "--scale", "smoke", "--out", str(shown)]) == 0
    png, svg = shown / f"{name}-smoke.png", shown / f"{name}-smoke.svg"
    assert capsys.readouterr().out.splitlines() == [str(png), str(svg)]
    with Image.open(png) as opened:
        pixels = np.asarray(opened.convert("L"))
    assert min(pixels.shape) > 150
    assert len(np.unique(pixels)) > 20  # not blank
    root = ElementTree.parse(svg).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter())) > 50


def accuracies(method: str, **settings: Any) -> list[float]:
    return [
        100 * invented(check_recipe(one))
        for one in recipes_of("figure8" if settings else "figure6", "smoke", None)
        if one.method == method and (not settings or one.settings == settings)
    ]


def test_curves_are_means_over_seeds(shown: Path) -> None:
    figure = FIGURES["curves"]("figure6", "smoke", shown, None)
    assert [axes.get_title() for axes in figure.axes] == ["mean-teacher, 20 labels", "mixmatch, 20 labels"]
    for axes, base in zip(figure.axes, ("mean-teacher", "mixmatch"), strict=True):
        lines = {to_hex(line.get_color()).upper(): line for line in axes.lines}
        for colour, method in ((ORANGE, base), (BLUE, f"{base}+icl")):
            values = accuracies(method)
            assert len(values) == 2
            assert np.asarray(lines[colour].get_xdata()).tolist() == [6, 12]
            assert np.asarray(lines[colour].get_ydata()).tolist() == pytest.approx([mean(values) / 2, mean(values)])


def test_accuracy_against_labels_and_alpha(shown: Path) -> None:
    figure = FIGURES["against_labels"]("figure7", "smoke", shown, None)
    assert [axes.get_title() for axes in figure.axes] == ["vat", "mixmatch", "mean-teacher"]
    for axes in figure.axes:
        for container, method in zip(axes.containers, (axes.get_title(), f"{axes.get_title()}+icl"), strict=True):
            points, _, (bars,) = container
            values = accuracies(method)
            assert list(points.get_ydata()) == pytest.approx([mean(values)])
            low, high = bars.get_segments()[0][:, 1]
            assert high - low == pytest.approx(2 * spread(values))

    (axes,) = FIGURES["sensitivity"]("figure8", "smoke", shown, None).axes
    ((points, *_),) = axes.containers
    alphas = [0.1, 0.25, 0.5, 0.75, 1.0]
    assert list(points.get_xdata()) == alphas
    expected = [mean(accuracies("icl-ssl", **{"icl.share": 1.0, "icl.weight": alpha})) for alpha in alphas]
    assert list(points.get_ydata()) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["figure6", "figure7", "figure8"])
def test_figures_of_half_a_grid_are_drawn(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One seed of some methods, on MNIST with ten labels."""

    def some(one: Recipe) -> float | None:
        return 0.5 if one.seed == 0 and "mixmatch" not in one.method and one.labels_per_class in (1, 2) else None

    write_results(tmp_path, name, "cpu", some)
    assert main(["paper", "show", name, "--scale", "cpu", "--out", str(tmp_path)]) == 0
    with Image.open(capsys.readouterr().out.splitlines()[0]) as opened:
        opened.load()
    figure = FIGURES[EXHIBITS[name].drawn](name, "cpu", tmp_path, None)
    empty = [axes.get_title() for axes in figure.axes if any(text.get_text() == NOT_RUN for text in axes.texts)]
    assert (
        empty
        == {
            "figure6": [f"mean-teacher, {n} labels" for n in (40,)] + [f"mixmatch, {n} labels" for n in (10, 20, 40)],
            "figure7": ["mixmatch"],
            "figure8": [],
        }[name]
    )
    explained = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert explained == ([] if name == "figure8" else ["without ICL", "with ICL"])
    above = figure.get_suptitle().replace("\n", " ")
    assert above.startswith("mnist: ") and ", cnn, batch 32, mu 2, 12 steps" in above


def test_augmentations_that_were_not_tried_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="fewlabel paper run figure3 --scale smoke"):
        FIGURES["augmentations"]("figure3", "smoke", tmp_path, None)
    assert main(["paper", "show", "figure3", "--scale", "smoke", "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


# ---- the command


def test_paper_list(tmp_path: Path) -> None:
    listed = fewlabel("paper", "list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    lines = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert list(lines) == list(EXHIBITS)
    for name, line in lines.items():
        assert EXHIBITS[name].title in line
        assert line.endswith("(needs no runs)") == (name in ("table3", "figure1", "figure2", "figure4", "figure5"))


@pytest.mark.slow
def test_an_interrupted_table_goes_on_and_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C after the first run: it is not run again, all others are, and then there is nothing left."""
    words = ("paper", "run", "table7", "--scale", "smoke", "--out", "out", "--jobs", "1")
    process = start(*words, cwd=tmp_path)
    assert process.stdout and process.stderr
    assert process.stdout.readline().startswith("6 runs, 0 of them done. The others will take ")
    first = process.stdout.readline()
    assert first.startswith("digits, 2 a class, icl-ssl with icl.weight 0.5, icl.share 1.0, seed 0: ")
    os.kill(process.pid, signal.SIGINT)
    rest, complaint = process.communicate(timeout=120)
    assert process.returncode == 130, complaint
    # Interrupted while scikit-learn opens its digits, Python also warns of the file that is left open.
    assert complaint.endswith("fewlabel: stopped; run the same command to continue.\n")
    assert "KeyboardInterrupt" not in complaint
    before = contents(tmp_path / "out" / "results")
    stopped = [first, *rest.splitlines(keepends=True)]
    assert 1 <= len(stopped) == len(before) < 6

    again = fewlabel(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    head, *lines, last = again.stdout.splitlines()
    assert head.startswith(f"6 runs, {len(stopped)} of them done.")
    assert last == "To show it: fewlabel paper show table7 --scale smoke --out out"
    told = [line.split(":")[0] for line in (*stopped, *lines)]
    assert told == [
        f"digits, 2 a class, {method}, seed {seed}"
        for seed in (0, 1)
        for method in ("icl-ssl with icl.weight 0.5, icl.share 1.0", "fixmatch", "fixmatch+aug-contrast")
    ]
    after = contents(tmp_path / "out" / "results")
    assert len(after) == 6
    assert before.items() <= after.items()

    shown = fewlabel("paper", "show", "table7", "--scale", "smoke", "--out", "out", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("**Ablation")
    found = [json.loads(content)["accuracy"] for name, (_, content) in after.items() if name.startswith("fixmatch-")]
    values = [100 * value for value in found]
    assert f"| fixmatch | {mean(values):.2f} ± {spread(values):.2f} (2 seeds) | 72.63 | 89.69 |" in shown.stdout
    assert "6 runs, mlp, batch 16, mu 1, 12 steps" in shown.stdout

    assert main([*words[:6], str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("6 runs, 6 of them done.")
    assert len(said) == 2
    assert contents(tmp_path / "out" / "results") == after


@pytest.mark.parametrize("name", ["table3", "table4", "table7", "table8"])
@pytest.mark.parametrize("kind", FORMATS)
def test_show_prints_what_a_program_can_read(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With results there is a second table, of differences, where methods are compared."""
    write_results(tmp_path, name, "smoke", invented)
    words = ["paper", "show", name, "--scale", "smoke", "--out", str(tmp_path), "--root", str(tmp_path)]
    assert main([*words, "--format", kind]) == 0
    printed = capsys.readouterr().out
    tables = TABLES[EXHIBITS[name].drawn](name, "smoke", tmp_path, str(tmp_path))
    assert len(tables) == (2 if EXHIBITS[name].pairs else 1)
    if kind == "json":
        content = json.dumps(json.loads(printed), ensure_ascii=False)  # one document, whatever its shape
        assert all(cell in content for table in tables for row in table.rows for cell in row)
    elif kind == "html":
        assert len(cells_of_html(printed)) == sum(1 + len(table.rows) for table in tables)
    else:
        assert printed == "\n\n".join(FORMATS[kind]([table]) for table in tables) + "\n"


MISTAKES = {
    "paper lst": 'Unknown command "lst". Did you mean "list"?',
    "paper run tabel7": "did you mean table7",
    "paper show figur3": "did you mean figure3",
    "paper run table7 --scale smok": "unknown scale 'smok': did you mean smoke",
    "paper show table7 --scale fulll": "unknown scale 'fulll': did you mean full",
    "paper show figure1 --scale fulll": "unknown scale 'fulll': did you mean full",
    "paper show table7 --format latx": "unknown format 'latx': did you mean latex",
    "paper run table7 --backend dusk": "unknown backend 'dusk': did you mean dask",
    "paper run table7 --backend dask": "use --backend dask and --scheduler ADDRESS together",
    "paper run table7 --scheduler tcp://127.0.0.1:8786": "use --backend dask and --scheduler ADDRESS together",
    "paper run table4 --data mnst": "unknown data set of table4 at this scale 'mnst': did you mean mnist",
    "paper run table8 --data mnist": "table8",
    "paper run table7 --scale smoke --jobs 0": "at least one job",
    "paper run table7 --scale smoke --jobs -1": "at least one job",
    "paper run table3": "table3 needs no runs",
    "paper run table7 --root nowhere": "mnist: no ",
    "paper show figure5 --root nowhere": "cifar10: no ",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.split()
    assert main([*words, "--out", str(tmp_path / "out")] if len(words) > 2 else words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("fewlabel: ") and captured.err.count("\n") == 1
    assert MISTAKES[command] in captured.err
    assert "choose one of ." not in captured.err
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


def test_misspelt_in_a_shell(tmp_path: Path) -> None:
    failed = fewlabel("paper", "shw", "table7", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith('fewlabel: Unknown command "shw". Did you mean "show"?')


def test_only_the_runs_on_one_data_set() -> None:
    assert {one.data for one in recipes_of("table5", "full", None)} == {"cifar100", "svhn"}
    only = recipes_of("table5", "full", None, "svhn")
    assert len(only) == 3 * 5 * 5
    assert {one.data for one in only} == {"svhn"}


@pytest.mark.parametrize("words", [["paper"], ["paper", "--help"], ["paper", "run", "--help"], ["paper", "show", "-h"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == (2 if words == ["paper"] else 0)
    said = capsys.readouterr().out
    assert f"Usage: fewlabel {' '.join(words[: 2 if len(words) > 2 else 1])}" in said
    for word in {"run": ("--scale", "--root", "--backend", "--scheduler"), "show": ("--format",)}.get(
        words[1] if len(words) > 2 else "", ("list", "run", "show")
    ):
        assert word in said
