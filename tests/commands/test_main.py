"""The command line: whole commands as subprocesses, mistakes in this process."""

import csv
import errno
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

import fewlabel as package
from fewlabel.commands.main import main
from fewlabel.errors import UserError
from fewlabel.methods import settings_of
from fewlabel.runs import RunDirectory
from tests.pictures import COLOURS, class_folder, fruit_folder
from tests.processes import fewlabel

QUICK = ("--steps", "60", "--evaluations", "2", "--batch", "12")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path_factory.mktemp("cache")))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_way_of_a_practitioner(tmp_path: Path) -> None:
    """Train on a folder with a few labels, read the predictions, label other pictures, and check them."""
    labels = fruit_folder(tmp_path / "photos", each=10)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    more = class_folder(tmp_path / "more")

    done = fewlabel("train", "photos", "--labels", labels, "--encoder", "none", *QUICK, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "30 training images of 32x32, 6 labelled, 3 classes; horizontal flips on" in done.stdout
    assert "1 images could not be read" in done.stdout
    assert "No test set was given" in done.stdout
    rows = table(tmp_path / "run" / "predictions.csv")
    assert list(rows[0]) == ["file", "label", "guess", "confirmed", "confidence", *sorted(COLOURS)]
    assert len(rows) == 24 + 1
    assert rows[-1] == dict.fromkeys(rows[0], "") | {"file": "broken.jpg"}
    for row in rows[:-1]:
        shares = {kind: float(row[kind]) for kind in COLOURS}
        assert sum(shares.values()) == pytest.approx(1, abs=0.001)
        assert row["label"] == max(shares, key=shares.__getitem__)
        assert float(row["confidence"]) == max(shares.values())
    right = [list(COLOURS)[int(row["file"][3])] == row["label"] for row in rows[:-1]]
    assert sum(right) >= 20
    assert "broken.jpg" in (tmp_path / "run" / "report.html").read_text()

    done = fewlabel("predict", "run", more, "-o", "predictions.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the confidence of this model is not calibrated" in done.stdout
    found = table(tmp_path / "predictions.csv")
    right = [row["file"].split("/")[0] == row["label"] for row in found]
    assert len(right) == 15
    assert sum(right) >= 12

    done = fewlabel("evaluate", "run", more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Accuracy: {sum(right) / 15:.2%} of 15 images (95% interval: " in done.stdout
    assert "Expected calibration error" in done.stdout

    done = fewlabel("predict", "run", more, "--min-confidence", "0.8", "--review", "look.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sure, unsure = table(tmp_path / "predictions.csv"), table(tmp_path / "look.csv")
    assert [row for row in found if float(row["confidence"]) >= 0.8] == sure
    assert sorted(row["file"] for row in found if float(row["confidence"]) < 0.8) == sorted(r["file"] for r in unsure)
    assert [float(row["confidence"]) for row in unsure] == sorted(float(row["confidence"]) for row in unsure)

    first, second = sorted(more.iterdir())[:2]
    (first / "0.png").rename(second / "misplaced.png")  # without a mistake there is no temperature
    done = fewlabel("evaluate", "run", more, "--calibrate", cwd=tmp_path)
    assert "Calibrated with a temperature of" in done.stdout
    (second / "misplaced.png").rename(first / "0.png")
    done = fewlabel("predict", "run", more, "-o", "again.csv", cwd=tmp_path)
    again = table(tmp_path / "again.csv")
    assert [row["label"] for row in again] == [row["label"] for row in found]
    assert [row["confidence"] for row in again] != [row["confidence"] for row in found]


def test_training_with_a_test_folder_and_class_subfolders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = class_folder(tmp_path / "train"), class_folder(tmp_path / "test", each=3)
    words = [
        "train",
        str(train),
        "--test",
        str(test),
        "--no-flip",
        "--no-floor",
        "--out",
        str(tmp_path / "run"),
        *QUICK,
    ]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "15 labelled, 3 classes; horizontal flips off" in out
    assert "All images are labelled" in out and "fewlabel suggest" not in out
    assert "9 test images" in out
    assert "Test accuracy:" in out
    facts = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert facts["without"] == ["horizontal-flip"]
    assert facts["recipe"]["floor"] is False
    assert table(tmp_path / "run" / "predictions.csv") == []  # every picture was labelled


def test_method_settings(tmp_path: Path) -> None:
    words = ["train", "digits", "--labels-per-class", "1", "--method", "fixmatch+icl", "--fixmatch.threshold", "0.5"]
    words += [
        "--icl.reading",
        "authors",
        "--fixmatch.align",
        "0.5",
        "--steps",
        "2",
        "--no-floor",
        "--out",
        str(tmp_path / "r"),
    ]
    assert main(words) == 0
    settings = json.loads((tmp_path / "r" / "recipe.json").read_text())["recipe"]["settings"]
    assert settings["fixmatch.threshold"] == 0.5
    assert settings["icl.reading"] == "authors"
    assert settings["fixmatch.align"] == 0.5
    assert settings["icl.weight"] == 0.03  # the defaults are saved as well


def test_help_version_and_mistakes_do_not_import_torch() -> None:
    program = (
        "import sys; from fewlabel.commands.main import main; "
        "codes = [main(w) for w in (['--help'], ['--version'], ['trian'], [])]; "
        "assert 'torch' not in sys.modules; print(codes)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("[0, 0, 2, 2]\n")
    assert f"fewlabel {package.__version__}" in done.stdout
    assert done.stderr == "fewlabel: unknown command 'trian': did you mean train or pretrain?\n"


@pytest.mark.parametrize(
    "command", ["demo", "train", "repeat", "predict", "evaluate", "export", "report", "methods", "drift", "paper"]
)
def test_help_of_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: fewlabel {command}" in out
    if command == "train":
        for option in ("--labels-per-class", "--no-flip", "--minutes", "--icl.temperature", "--resume", "--no-floor"):
            assert option in out
    assert main(["--help"]) == 0
    assert f"│ {command} " in capsys.readouterr().out


def test_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    for name in (*package.METHODS, "+icl", "icl-ssl", "https://arxiv.org/abs/2001.07685"):
        assert name in out
    assert "--fixmatch.threshold" not in out and len(out.splitlines()) < 40
    for name in ("icl", "+icl"):
        assert main(["methods", name]) == 0
        assert "--icl.temperature" in capsys.readouterr().out
    for method, made in {**package.METHODS, **package.SELF_SUPERVISED}.items():
        assert main(["methods", method]) == 0
        out = capsys.readouterr().out
        assert all(f"--{method}.{name} " in out for name in settings_of(made))
    assert main(["methods", "fixmach"]) == 2


# ---- bad input: one sentence, exit code 2, nothing half-written


def bad(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("fewlabel: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "cifar11"], "did you mean cifar10 or cifar100"),
        (["train", "digits", "--stpes", "3"], "--steps"),
        (["train", "digits", "--steps", "many"], "--steps"),
        (["train", "digits", "--method", "fixmach"], "did you mean fixmatch"),
        (["train", "digits", "--method", "fixmatch", "--fixmatch.treshold", "1"], "--fixmatch.threshold"),
        (["train", "digits", "--icl.reading", "mine"], "paper"),
        (["train", "digits", "--network", "wrn-27-2"], "wrn-27-2"),
        (["train", "digits", "--labels", "labels.csv"], "--labels is for folders"),
        (["train", "mnist", "--root", "nowhere"], "`fewlabel train mnist --root nowhere --download`"),
        (["train", "photos/"], "there is no folder or .npz file photos/"),
        (["train", "arrays.npz"], "there is no folder or .npz file arrays.npz"),
        (["repeat", "nowhere", "--out", "elsewhere"], "nowhere holds no run"),
        (["train"], "DATA"),
        (["predict", "nowhere", "photos"], "no trained model"),
        (["evaluate", "nowhere", "digits"], "no trained model"),
    ],
)
def test_mistyped(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run")] if words[0] == "train" and len(words) > 1 else []
    assert message in bad([*words, *out], capsys)
    assert not (tmp_path / "run").exists()


FOLDERS = {
    "empty": ("holds no pictures", None),
    "unreadable": ("none of the 2 pictures", None),
    "one class": ("all labels of folder are 'cherry'", "file,label\n00-0.jpg,cherry\n"),
    "missing file": ("names nothing.jpg", "file,label\nnothing.jpg,cherry\n"),
    "no header": ("it needs a header", "99.jpg,cherry\n"),
    "no labels": ("no labelled image", None),
    "empty labels": ("labels.csv has a class yet: fill in the column label", "file,label\n00-0.jpg,\n00-1.jpg,\n"),
    "class folder without labels": ("class 'kiwi' of folder has no labelled image", "file,label\n00-0.jpg,cherry\n"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_bad_folders(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, labels = tmp_path / "folder", tmp_path / "labels.csv"
    if case in ("empty", "unreadable"):
        folder.mkdir()
        (folder / "notes.txt").write_text("no picture")
    else:
        fruit_folder(folder, each=2)
    if case == "unreadable":
        for name in ("a.jpg", "b.png"):
            (folder / name).write_bytes(b"no picture")
    if case == "class folder without labels":
        (folder / "kiwi").mkdir()
    message, content = FOLDERS[case]
    words = ["train", str(folder), "--out", str(tmp_path / "run")]
    if content:
        labels.write_text(content)
        words += ["--labels", str(labels)]
    if case == "class folder without labels":
        words.append("--subfolders")
    assert message in bad(words, capsys)
    assert not (tmp_path / "run").exists()


def test_bad_official_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2049, 1, 28, 28) + bytes(784))
    assert "magic number is not 2051" in bad(["train", "mnist", "--root", str(tmp_path)], capsys)
    savemat(tmp_path / "train_32x32.mat", {"pictures": np.zeros(3)})
    assert "holds no X and y" in bad(["train", "svhn", "--root", str(tmp_path)], capsys)


def test_pictures_for_a_model_of_greys(tmp_path: Path) -> None:
    """Coloured ones are labelled as their grey selves are, as Pillow makes them grey."""
    out = tmp_path / "run"
    assert main(["train", "digits", "--labels-per-class", "1", "--steps", "2", "--no-floor", "--out", str(out)]) == 0
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
    for kind in ("L", "RGB"):
        for number, picture in enumerate(pixels):
            path = tmp_path / kind / f"{number % 10}/{number}.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(picture).convert(kind).save(path)
        assert main(["predict", str(out), str(tmp_path / kind), "-o", str(tmp_path / f"{kind}.csv")]) == 0
        assert main(["evaluate", str(out), str(tmp_path / kind)]) == 0
    assert (tmp_path / "L.csv").read_text() == (tmp_path / "RGB.csv").read_text()
    assert (tmp_path / "L.csv").read_text().count("\n") == 7


def test_a_directory_that_holds_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "digits", "--labels-per-class", "1", "--steps", "2", "--no-floor", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    capsys.readouterr()
    assert "--resume or replace it with --overwrite" in bad(words, capsys)
    assert "was started with other settings (batch)" in bad([*words, "--batch", "8", "--resume"], capsys)
    assert main([*words, "--overwrite"]) == 0
    capsys.readouterr()
    assert "no trained model" in bad(["predict", str(tmp_path / "run/model.json"), str(tmp_path)], capsys)
    same = ["-o", str(tmp_path / "a.csv"), "--review", str(tmp_path / "x/../a.csv"), "--min-confidence", "0.5"]
    (tmp_path / "x").mkdir()
    assert "are the same file" in bad(["predict", str(tmp_path / "run"), str(tmp_path), *same], capsys)
    assert main(["evaluate", str(tmp_path / "run"), "digits"]) == 0
    assert "of 500 images" in capsys.readouterr().out


def test_a_disk_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "run/.lock")

    monkeypatch.setattr("fewlabel.runs.directory.FileLock.acquire", denied)
    with pytest.raises(
        UserError, match=r"cannot write into .*run \(Permission denied\): check the folder, or choose another"
    ):
        RunDirectory(tmp_path / "run").lock()


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "no\nsuch\x1b[2Jfolder/é"]) == 2
    assert capsys.readouterr().err.startswith("fewlabel: there is no folder or .npz file no\\nsuch\\x1b[2Jfolder/é.")


def test_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(*_: object, **__: object) -> Iterator[str]:
        raise PermissionError(errno.EACCES, "Permission denied", "photos/lost+found")

    monkeypatch.setattr("fewlabel.data.picture_files.pictures_in", denied)
    assert bad(["train", str(tmp_path)], capsys) == "fewlabel: photos/lost+found: Permission denied.\n"


def test_nothing_can_be_judged_by_images_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["train", "digits", "--labels-per-class", "2", "--steps", "2", "--no-floor", "--out", str(tmp_path / "run")]
    assert main(run) == 0
    pixels = np.zeros((12, 8, 8), np.uint8)
    y = np.arange(12) % 10
    np.savez(tmp_path / "bare.npz", x_train=pixels, y_train=y, x_test=pixels, y_test=np.full(12, -1))
    np.savez(tmp_path / "few.npz", x_train=pixels, y_train=y, x_test=pixels[:4], y_test=y[:4])
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), str(tmp_path / "bare.npz")]) == 2
    assert "have no labels" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), str(tmp_path / "few.npz"), "--calibrate"]) == 2
    assert "there are only 4 labelled examples: calibration needs 10 or more" in capsys.readouterr().err
    (tmp_path / "held/3").mkdir(parents=True)
    (tmp_path / "held/3/broken.png").write_bytes(b"no picture")
    Image.new("L", (8, 8)).save(tmp_path / "held/loose.png")
    assert main(["evaluate", str(tmp_path / "run"), str(tmp_path / "held")]) == 2
    assert "have no labels" in capsys.readouterr().err


def test_a_temperature_needs_mistakes_to_learn_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where all is right, the more certain the better, without end."""
    run = ["train", "digits", "--labels-per-class", "2", "--steps", "2", "--no-floor", "--out", str(tmp_path / "run")]
    assert main(run) == 0
    digits = package.load("digits").train
    guesses = torch.from_numpy(package.load_model(tmp_path / "run").predict_proba(digits).argmax(1))
    right = (guesses == digits.labels).nonzero().flatten()[:20]
    x, y = digits.pixels[right, 0].numpy(), digits.labels[right].numpy()
    np.savez(tmp_path / "right.npz", x_train=digits.pixels[:, 0].numpy(), y_train=digits.labels, x_test=x, y_test=y)
    before = (tmp_path / "run/model.safetensors").read_bytes()
    assert main(["evaluate", str(tmp_path / "run"), str(tmp_path / "right.npz"), "--calibrate"]) == 2
    assert "all 20 predictions are correct: calibration needs some mistakes" in capsys.readouterr().err
    assert (tmp_path / "run/model.safetensors").read_bytes() == before


@pytest.mark.parametrize("words", [["--help", "train"], ["train", "--help"], ["train", "train", "--help"]])
def test_help_of_train_wherever_the_flag_stands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "--labels-per-class" in capsys.readouterr().out


def test_help_as_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "Usage: fewlabel COMMAND" in capsys.readouterr().out


def test_errors_name_the_help_of_their_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "See `fewlabel paper run --help`" in bad(["paper", "run", "table4", "--sclae", "cpu"], capsys)
    assert "See `fewlabel evaluate --help`" in bad(["evaluate", "--nope"], capsys)


def test_other_defaults_of_vectors_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    assert "for vectors 0.1" in " ".join(capsys.readouterr().out.replace("│", "").split())
    assert main(["methods", "icl-ssl"]) == 0
    assert "(vectors: 0.1)" in capsys.readouterr().out
