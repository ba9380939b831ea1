"""What to label first: groups are covered, copies are suggested once, labels and runs are taken into account."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import make_blobs

import fewlabel as package
from fewlabel import UserError
from fewlabel.suggesting import SAME, by_typicality, find_suggestions, suggest
from tests.encoders.test_onnx import write as write_encoder
from tests.pictures import fruit_folder
from tests.processes import in_process as fewlabel


def heaps(each: int = 60, classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = make_blobs(each * classes, 16, centers=classes, cluster_std=1.5, random_state=0)
    return rows.astype(np.float32), labels


def test_one_of_each_heap() -> None:
    rows, labels = heaps()
    chosen = package.suggest(rows, 6)
    assert sorted(labels[chosen]) == list(range(6))
    np.testing.assert_array_equal(suggest(rows, 6), chosen)  # the same seed, the same positions


def test_labels_are_not_suggested_again_and_their_groups_come_last() -> None:
    rows, labels = heaps()
    known = np.full(len(rows), -1)
    for label in (0, 1, 2, 3):
        known[np.flatnonzero(labels == label)[:2]] = label
    found = find_suggestions(rows, 2, known)
    assert sorted(labels[found.positions[:2]]) == [4, 5]
    assert not (known[find_suggestions(rows, 40, known).positions] >= 0).any()


def test_typical_rows_first() -> None:
    """By hand: the mean distance to the nearest half of the group; the row in the middle has the smallest."""
    angles = np.array([0.0, 0.3, 0.55, 0.8, 1.3])
    rows = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    distance = []
    for i in range(5):
        away = sorted(float(np.linalg.norm(rows[i] - rows[j])) for j in range(5) if j != i)
        distance.append(sum(away[:2]) / 2)
    found, distinct = by_typicality(rows, np.arange(5))
    np.testing.assert_array_equal(found, np.argsort(distance, kind="stable"))
    assert distinct == 5
    assert by_typicality(np.concatenate([rows, rows[:1]]), np.arange(6))[1] == 5


def test_of_a_large_group_evenly_spaced_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = heaps()
    monkeypatch.setattr("fewlabel.suggesting.CANDIDATES", 20)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found, distinct = by_typicality(directions, np.arange(len(rows)))
    assert sorted(found) == list(range(0, len(rows), 18))
    assert distinct == pytest.approx(18 * by_typicality(directions, np.arange(0, len(rows), 18))[1])
    assert sorted(labels[suggest(rows, 6)]) == list(range(6))


def test_copies_are_suggested_once_and_do_not_look_typical() -> None:
    rows, labels = heaps(each=40, classes=3)
    outlier = rows[labels == 0].mean(0) + 6
    copies = np.concatenate([rows, np.repeat(outlier[None], 30, 0)]).astype(np.float32)
    chosen = suggest(copies, 12)
    assert (chosen >= len(rows)).sum() <= 1
    first = chosen[:3]
    assert not (first >= len(rows)).any()
    assert SAME < 1


def test_all_rows_can_be_asked_for() -> None:
    rows, _ = heaps(each=5, classes=3)
    assert sorted(suggest(rows, 15).tolist()) == list(range(15))
    assert len(suggest(rows, 100)) == 15


def test_uncertain_and_diverse() -> None:
    """Of two uncertain heaps one each; certain rows and labelled ones are left alone."""
    rows, labels = heaps()
    certain = np.full((len(rows), 2), (0.99, 0.01))
    certain[np.isin(labels, (2, 4))] = (0.55, 0.45)
    known = np.full(len(rows), -1)
    known[np.flatnonzero(labels == 2)[:5]] = 0
    found = find_suggestions(rows, 2, known, certain)
    assert sorted(labels[found.positions]) == [2, 4]
    assert (known[found.positions] == -1).all()


@pytest.mark.parametrize(
    ("rows", "n", "labels", "message"),
    [
        (np.zeros(3), 1, None, r"must be numbers \(N, D\)"),
        (np.array([[np.nan, 1.0]]), 1, None, "without NaN"),
        (np.eye(3), 0, None, "at least 1, not 0"),
        (np.eye(3), 1, [0, 1], "3 rows and 2 labels"),
        (np.eye(3), 1, [0, 1, 0], "every example already has a label"),
    ],
)
def test_what_cannot_work(rows: np.ndarray, n: int, labels: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        suggest(rows, n, labels)


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first round, labels filled in, a run, and a second round from it."""
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    labels = fruit_folder(tmp_path / "photos")
    write_encoder(tmp_path / "encoder.onnx")
    shutil.copy(tmp_path / "photos/00-0.jpg", tmp_path / "photos/copy.jpg")
    words = ("suggest", "photos", "-n", "6", "-o", "to-label.csv", "--encoder", "encoder.onnx")
    done = fewlabel(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 images to label, the most useful first: to-label.csv (images shown in to-label.html)" in done.stdout
    assert "groups of similar images" in done.stdout and "Classes may still be missing" in done.stdout
    rows = read(tmp_path / "to-label.csv")
    assert len(rows) == 6 and all(list(row) == ["file", "label"] and row["label"] == "" for row in rows)
    assert len({row["file"].partition("-")[2][0] for row in rows if "-" in row["file"]}) == 3  # every kind of fruit
    assert (tmp_path / "to-label.html").read_text().count("data:image/png") == 6
    assert fewlabel(*words, cwd=tmp_path).returncode == 0  # nobody has worked on it
    text = (tmp_path / "to-label.csv").read_text().replace(",\n", ",cherry\n", 1)
    (tmp_path / "to-label.csv").write_text(text)
    refused = fewlabel(*words, cwd=tmp_path)
    assert refused.returncode == 2 and "replace it with --overwrite" in refused.stderr
    assert (tmp_path / "to-label.csv").read_text() == text

    trained = fewlabel(
        *("train", "photos", "--labels", labels, "--encoder", "encoder.onnx", "--steps", "40", "--out", "run"),
        cwd=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr
    done = fewlabel("suggest", "photos", "-n", "4", "--run", "run", "-o", "next.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    known = {row["file"] for row in read(tmp_path / "run/labels.csv")}
    assert len(read(tmp_path / "next.csv")) == 4
    assert not known & {row["file"] for row in read(tmp_path / "next.csv")}


def test_without_an_encoder(tmp_path: Path) -> None:
    """Small grey pictures are compared as they are; colour ones need an encoder or a run."""
    done = fewlabel("suggest", "digits", "-n", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "to-label.csv")) == 20
    (tmp_path / "photos").mkdir()
    for n in range(6):
        Image.new("RGB", (40, 40), (40 * n, 0, 0)).save(tmp_path / f"photos/{n}.png")
    refused = fewlabel("suggest", "photos", "--encoder", "none", "-o", "other.csv", cwd=tmp_path)
    assert refused.returncode == 2 and "an encoder is needed: pip install 'fewlabel[photos]'" in refused.stderr
    assert not (tmp_path / "other.csv").exists()


def test_subfolders_that_are_no_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are taken for classes without --labels: the command says so, and how to change it."""
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    fruit_folder(tmp_path / "photos")
    write_encoder(tmp_path / "encoder.onnx")
    pictures = sorted(path for path in (tmp_path / "photos").iterdir() if path.is_file())
    for year, some in {"2021": pictures[::2], "2022": pictures[1::2]}.items():
        (tmp_path / "photos" / year).mkdir()
        for picture in some:
            picture.rename(picture.parent / year / picture.name)
    (tmp_path / "photos/2021/broken.jpg").write_text("no picture")
    (tmp_path / "photos/2021/phone.HEIC").write_text("of a telephone")
    words = ("suggest", "photos", "-n", "6", "-o", "to-label.csv", "--encoder", "encoder.onnx")
    refused = fewlabel(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert "all images lie in subfolders, which are their labels. If subfolders are not classes: --no" in refused.stderr
    (tmp_path / "photos/2021" / pictures[0].name).rename(pictures[0])
    done = fewlabel(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Subfolders are classes: 2021, 2022." in done.stdout
    assert "What is in subfolders counts as labelled. If subfolders are not classes: --no-subfolders." in done.stdout
    assert "Formats that fewlabel does not read: 1 .heic. Convert these files to JPEG to use them." in done.stdout
    assert "could not be read: 2021/broken.jpg (cannot identify image file)." in done.stdout
    done = fewlabel(*words, "--no-subfolders", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Subfolders" not in done.stdout
    names = [row["file"] for row in read(tmp_path / "to-label.csv")]
    assert len(names) == 6 and any("/" in name for name in names)
