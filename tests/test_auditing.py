"""Audits: the interval covers the truth, drawing, answers, suspicious labels, and the command as it is typed."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

from fewlabel import UserError
from fewlabel.auditing import Audit, draw_strata, merged, stratified, wilson
from fewlabel.suspicious import disagreements
from tests.processes import in_process as fewlabel

REPEATS = 2000


def population(accuracy: float, spread: float, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """1,000 examples: confidence, and which are right, the confident ones more often."""
    ease = draw.normal(size=1000)
    order = np.argsort(-(spread * ease + draw.normal(size=1000)), kind="stable")
    right = np.zeros(1000, bool)
    right[order[: round(1000 * accuracy)]] = True
    return ease, right


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])  # confidence says nothing, something, a lot
@pytest.mark.parametrize("accuracy", [0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
def test_the_interval_covers_the_truth(accuracy: float, spread: float, n: int) -> None:
    draw = np.random.default_rng(0)
    confidence, right = population(accuracy, spread, draw)
    covered, shares = 0, []
    for seed in range(REPEATS):
        drawn, sizes = draw_strata(confidence, n, seed)
        counts = [(size, int(right[part].sum()), len(part)) for size, part in zip(sizes, drawn, strict=True)]
        found = stratified(counts)
        covered += found.low <= accuracy <= found.high
        shares.append(found.share)
    assert covered / REPEATS >= 0.92
    assert np.mean(shares) == pytest.approx(accuracy, abs=0.005)  # no bias


@pytest.mark.parametrize(("right", "count"), [(0, 7), (3, 7), (27, 30), (30, 30)])
def test_wilson(right: int, count: int) -> None:
    low, high = binomtest(right, count).proportion_ci(method="wilson")
    found = wilson(right / count, count)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


def test_strata() -> None:
    confidence = np.random.default_rng(0).random(103)
    drawn, sizes = draw_strata(confidence, 12, 0)
    assert sizes == [21, 21, 21, 20, 20] and [len(part) for part in drawn] == [3, 3, 2, 2, 2]
    highest = -1.0
    for part in drawn:
        assert confidence[part].min() > highest
        highest = confidence[part].max()
    assert len(np.unique(np.concatenate(drawn))) == 12
    for n, message in ((4, "at least 5"), (104, "only 103 examples")):
        with pytest.raises(UserError, match=message):
            draw_strata(confidence, n, 0)


def test_strata_without_answers_are_taken_with_a_neighbour() -> None:
    assert merged([(10, 0, 0), (10, 1, 2), (10, 0, 0), (10, 2, 2)]) == [(30, 1, 2), (10, 2, 2)]
    audit = Audit([["a", "b"], ["c"]], [6, 4], {"a": "x", "b": "y", "c": "x"}, answers={"a": "x", "b": "x", "c": "x"})
    assert audit.accuracy(audit.guesses).share == pytest.approx(0.6 * 0.5 + 0.4)


def test_uneven_answers_are_worth_less() -> None:
    """26 of one stratum and one of each other tell little about the others."""
    even = stratified([(100, 3, 6)] * 5)
    uneven = stratified([(100, 13, 26), (100, 1, 1), (100, 0, 1), (100, 1, 1), (100, 0, 1)])
    assert uneven.high - uneven.low > 1.5 * (even.high - even.low)


def test_wrong_labels_are_found() -> None:
    """Three heaps with four labels each, two of which are swapped; and a class of one label, which nobody can judge."""
    draw = np.random.default_rng(0)
    centres = 5 * np.eye(4)[np.repeat([0, 1, 2], 4)]
    rows = np.concatenate([centres, 5 * np.eye(4)[[3]]]) + 0.3 * draw.normal(size=(13, 4))
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 0, 2, 2, 2, 2, 3])
    found = disagreements(rows.astype(np.float32), labels)
    assert {position: other for position, (_, other) in found.items()} == {3: 0, 7: 1}
    assert all(probability < 0.5 for probability, _ in found.values())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    draw = np.random.default_rng(0)
    for n in range(60):
        colour = np.array([[220, 30, 30], [30, 30, 220]][n % 2])
        pixels = np.clip(colour + draw.normal(0, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"photos/{n:02}.png")
    labels = "".join(f"{n:02}.png,{'red' if n % 2 == 0 else 'blue'}\n" for n in range(8))
    (tmp_path / "labels.csv").write_text("file,label\n" + labels)
    return tmp_path


def done(*words: str, cwd: Path) -> str:
    result = fewlabel(*words, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_round(place: Path) -> None:
    """Train, audit, answer; the answers are no labels for the next run unless they are spent."""
    train = ("train", "photos", "--labels", "labels.csv", "--encoder", "none", "--steps", "30", "--threads", "1")
    told = done(*train, "--out", "runs/first", cwd=place)
    assert "Labels: blue 4, red 4." in told
    assert "fewlabel audit runs/first -n 30 -o first-audit.csv" in told
    assert "no audit yet" in fewlabel("audit", "runs/first", "--answers", "labels.csv", cwd=place).stderr
    told = done("audit", "runs/first", "-n", "10", "-o", "audit.csv", cwd=place)
    assert "10 images to label: audit.csv (images shown in audit.html)" in told
    with open(place / "audit.csv", newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10 and all(set(row) == {"file", "label"} and not row["label"] for row in rows)
    assert (place / "audit.html").read_text().count("<img") == 10
    twice = fewlabel("audit", "runs/first", "-n", "10", "-o", "more.csv", cwd=place)
    assert twice.returncode == 2 and "has an audit without answers" in twice.stderr

    def answer(row: dict[str, str]) -> str:
        return "Red " if int(row["file"][:2]) % 2 == 0 else "blue"  # in another case, as people write

    lines = [f"{row['file']};{answer(row)}" for row in rows[:-2]] + [
        f"{rows[-2]['file']};(none)",
        f"{rows[-1]['file']};",
    ]
    (place / "audit.csv").write_text("file;label\n" + "\n".join(lines))
    told = done("audit", "runs/first", "--answers", "audit.csv", cwd=place)
    guesses = json.loads((place / "runs/first/audit.json").read_text())["guesses"]
    right = sum(guesses[row["file"]] == answer(row).strip().lower() for row in rows[:-2])
    assert "9 of 10 images answered. Accuracy of the predictions: " in told
    assert right >= 7 and "95% interval" in told
    for again in (False, True):  # after the audit, and made anew
        assert not again or done("report", "runs/first", cwd=place)
        page = (place / "runs/first/report.html").read_text()
        assert "Accuracy of the predictions: " in page and "by your audit of 9 images" in page
        assert "is unknown" not in page

    (place / "audit.csv").write_text((place / "audit.csv").read_text().replace("Red", "red"))
    words = (*train, "--labels", "audit.csv", "--out", "runs/second")
    refused = fewlabel(*words, cwd=place)
    assert refused.returncode == 2
    assert "examples that were drawn for the audit of" in refused.stderr and "--spend-audit" in refused.stderr
    named = refused.stderr.split("have labels here: ")[1].split(". Once")[0].split(", ")
    assert set(named) == {row["file"] for row in rows[:-2]}  # those with a class
    assert not (place / "runs/second/recipe.json").exists()
    elsewhere = fewlabel(*words[:-1], "elsewhere/second", cwd=place)
    assert elsewhere.returncode == 2 and elsewhere.stderr == refused.stderr
    done("suggest", "photos", "-n", "20", "-o", "more.csv", "--labels", "labels.csv", "--encoder", "lite0", cwd=place)
    suggested = {line.split(",")[0] for line in (place / "more.csv").read_text("utf-8-sig").splitlines()[1:]}
    assert len(suggested) > 5 and not suggested & {row["file"] for row in rows}
    done(*train, "--seed", "5", "--out", "runs/again", cwd=place)  # another run: the same answers measure it too
    told = done("audit", "runs/again", "--answers", "audit.csv", cwd=place)
    first, other = (json.loads((place / f"runs/{name}/audit.json").read_text()) for name in ("first", "again"))
    assert (first["strata"], first["sizes"], first["answers"]) == (other["strata"], other["sizes"], other["answers"])
    with open(place / "runs/again/predictions.csv", newline="", encoding="utf-8-sig") as file:
        predicted = {row["file"]: row["guess"] for row in csv.DictReader(file)}
    assert other["guesses"] == {name: predicted[name] for name in first["guesses"]}
    assert "9 of 10 images answered. Accuracy of the predictions: " in told
    told = done(*words, "--spend-audit", cwd=place)
    assert "Left out of training because they are labelled (none): 1." in told
    assert f"{8 + 8} labelled" in told
    assert f"left out of training: {rows[-2]['file']}." in (place / "runs/second/report.html").read_text()


def test_a_wrong_label_is_named(place: Path) -> None:
    text = (place / "labels.csv").read_text().replace("03.png,blue", "03.png,red")
    (place / "labels.csv").write_text(text)
    words = ("--encoder", "none", "--steps", "30", "--threads", "1", "--no-floor")
    done("train", "photos", "--labels", "labels.csv", *words, "--out", "runs/first", cwd=place)
    done("audit", "runs/first", "-n", "6", "-o", "audit.csv", cwd=place)
    rows = (place / "audit.csv").read_text(encoding="utf-8-sig").splitlines()[1:]
    (place / "audit.csv").write_text("file,label\n" + "\n".join(f"{row}red" for row in rows))
    told = done("audit", "runs/first", "--answers", "audit.csv", cwd=place)
    assert "Training labels that look wrong, judged by the others: 1\n  03.png: labelled red, looks like blue" in told


def test_labels_that_disagree_with_each_other_are_not_called_wrong(place: Path) -> None:
    mixed = "".join(f"{n:02}.png,{'red' if n % 4 < 2 else 'blue'}\n" for n in range(8))
    (place / "labels.csv").write_text("file,label\n" + mixed)
    words = ("--encoder", "none", "--network", "mlp", "--steps", "4", "--no-floor", "--out", "runs/mixed")
    done("train", "photos", "--labels", "labels.csv", *words, cwd=place)
    done("audit", "runs/mixed", "-n", "10", "-o", "audit.csv", cwd=place)
    rows = (place / "audit.csv").read_text(encoding="utf-8-sig").splitlines()[1:]
    (place / "audit.csv").write_text("file,label\n" + "\n".join(f"{row}red" for row in rows))
    assert "look wrong" not in done("audit", "runs/mixed", "--answers", "audit.csv", cwd=place)
