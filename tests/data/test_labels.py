"""Label files as people and spreadsheets write them."""

import csv
import io
import unicodedata
from pathlib import Path

import openpyxl
import pytest
from PIL import Image

from fewlabel.data import Dataset, load
from fewlabel.data.labels import NO, NO_CLASS, YES, read_labels
from fewlabel.data.tables import read_table
from fewlabel.errors import UserError
from fewlabel.files import neutralised, write_csv


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "photos"
    for name in ("a.png", "b, c.png", "dog/1.png", "dog/2.PNG", "größe.png", "z.bmp"):
        path = folder / unicodedata.normalize("NFC", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (len(name), 0, 0)).save(path)
    return folder


def write(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return path


def read(photos: Path, content: str | bytes, encoding: str = "utf-8", name: str = "labels.csv") -> dict[str, str]:
    return labelled(load(photos, labels=write(photos.parent / name, content, encoding)))


def labelled(data: Dataset) -> dict[str, str]:
    train = data.train
    return {name: train.classes[y] for name, y in zip(train.names, train.labels, strict=True) if y >= 0}


PLAIN = {"a.png": "cat", "dog/1.png": "Müll"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize(
    "text",
    [
        "file,label\na.png,cat\ndog/1.png,Müll\n",
        "file;label\r\na.png;cat\r\ndog/1.png;Müll\r\n",
        "file\tlabel\na.png\tcat\ndog/1.png\tMüll",
        "sep=;\r\nfile;label\r\na.png;cat\r\ndog/1.png;Müll\r\n",
        '"sep=;"\nfile;label\na.png;cat\ndog/1.png;Müll\n',
        "Filename,Class\na.png,cat\ndog/1.png,Müll\n",
        "IMAGE,Category\na.png,cat\ndog/1.png,Müll\n",
        "path,target\na.png,cat\ndog/1.png,Müll\n",
        "File Name;LABEL\na.png;cat\ndog/1.png;Müll\n",
        "name,label\na.png,cat\ndog/1.png,Müll\n",
        "a.png,cat\ndog/1.png,Müll\n",
        "cat;a.png\nMüll;dog/1.png\n",
        "\nfile,label\n\n,\na.png, cat\n  dog/1.png ,Müll \n,,\nz.bmp\n",
        'label,note,file\ncat,"x, y",a.png\n"Müll",,"dog/1.png"\n',
        "file,label\na.png,cat,extra\na.png,cat\na.png,\ndog/1.png,Müll\n",
    ],
)
def test_ways_to_write_a_label_file(photos: Path, text: str, encoding: str) -> None:
    assert read(photos, text, encoding) == PLAIN


@pytest.mark.parametrize(
    ("written", "way"),
    [
        (r"dog\1.png", "1 with other slashes"),
        ("./dog//1.png", "1 with other slashes"),
        ("photos/dog/1.png", "1 with the folder in front"),
        (r"C:\Users\me\Photos\dog\1.png", "1 with the folder in front"),
        ("{folder}/dog/1.png", "1 with the folder in front"),
        ("../photos/dog/1.png", "1 with the folder in front"),
        ("DOG/1.PNG", "1 in another case"),
    ],
)
def test_names_written_otherwise_are_matched_and_counted(photos: Path, written: str, way: str) -> None:
    path = write(photos.parent / "l.csv", f"file,label\na.png,cat\n{written.format(folder=photos)},Müll\n")
    data = load(photos, labels=path)
    assert labelled(data) == PLAIN
    assert any(note.endswith(f"were matched: {way}.") for note in data.notes)


def test_names_written_literally_are_not_mentioned(photos: Path) -> None:
    data = load(photos, labels=write(photos.parent / "l.csv", "file,label\na.png,cat\n"))
    assert not any("matched" in note for note in data.notes)


def test_guesses_that_nobody_looked_at_say_nothing(photos: Path) -> None:
    """They do not take a label from a subfolder."""
    text = "file,label,guess,confirmed\ndog/1.png,cat,cat,\na.png,cat,cat,yes\n"
    data = load(photos, labels=write(photos.parent / "p.csv", text), subfolders=True)
    assert labelled(data) == {"a.png": "cat", "dog/1.png": "dog", "dog/2.PNG": "dog"}


def test_another_unicode_form(photos: Path) -> None:
    """As a Mac writes names, with the dots apart from the letter."""
    data = load(
        photos, labels=write(photos.parent / "l.csv", f"file,label\n{unicodedata.normalize('NFD', 'größe.png')},x")
    )
    assert labelled(data) == {"größe.png": "x"}
    assert any("1 in another Unicode form" in note for note in data.notes)


def test_quoted_names_with_separators(photos: Path) -> None:
    assert read(photos, 'file,label\n"b, c.png",cat\n') == {"b, c.png": "cat"}
    assert read(photos, "file;label\nb, c.png;cat\n") == {"b, c.png": "cat"}


def test_a_spreadsheet(photos: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in (("File", "Note", "Label"), ("a.png", None, 3), (None, None, None), ("dog/1.png", 1.5, "Müll")):
        book.active.append(row)
    path = photos.parent / "labels.xlsx"
    book.save(path)
    assert labelled(load(photos, labels=path)) == {"a.png": "3", "dog/1.png": "Müll"}
    path.write_bytes(b"PK no spreadsheet")
    with pytest.raises(UserError, match=r"is not an \.xlsx file that can be read"):
        load(photos, labels=path)


def test_later_files_win_and_empty_labels_say_nothing(photos: Path) -> None:
    first = write(photos.parent / "1.csv", "file,label\na.png,cat\ndog/1.png,dog\nz.bmp,cat\n")
    second = write(photos.parent / "2.csv", "file;label\na.png;dog\ndog/1.png;\n")
    assert labelled(load(photos, labels=[first, second])) == {"a.png": "dog", "dog/1.png": "dog", "z.bmp": "cat"}
    assert labelled(load(photos, labels=[second, first]))["a.png"] == "cat"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("file,label\n", "has a header but no rows below it"),
        ("label\ncat\n", "needs a header with a column for the picture"),
        ("nothing.png,cat\n", "begins with 'nothing.png, cat': it needs a header"),
        ("a.png,cat,x\n", "it needs a header"),
        ("file,label,label\na.png,cat,dog\n", "has 2 columns called label: keep one"),
        ("file,label\na.png,cat\nb.png,cat\n", r"names b\.png: no such picture in"),
        ("file,label\nx.png,cat\nb.png,cat\nc.png,dog\n", r"names x\.png and 2 others: no such picture in"),
        ("file,label\na.png,cat\n\n.\\a.png,dog\n", r"gives a\.png two labels: 'cat' in row 2 and 'dog' in row 4"),
        ("file,label,guess,confirmed\na.png,cat,cat,perhaps\n", "says 'perhaps' under confirmed in row 2"),
        ('file,label\na.png,"cat\nz.bmp,dog\n', "a label of several lines in row 2: is a quote open"),
        ("file,label\na.png,cat\n,dog\n", "names no picture in row 3"),
        ("file,label\nphotos/x/photos/a.png,cat\n", "no such picture"),
        (b"file,label\x00\x01\x81\xff\n", "is not a table in text"),
    ],
)
def test_wrong_label_files(photos: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(photos, text)
    assert str(photos.parent / "labels.csv") in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_label_file_that_cannot_be_read(photos: Path, kind: str) -> None:
    path = photos.parent / "labels.csv"
    if kind == "folder":
        path.mkdir()
    with pytest.raises(UserError, match=r"cannot read the label file .*labels\.csv"):
        load(photos, labels=path)


def test_a_name_that_may_be_two_pictures(photos: Path) -> None:
    Image.new("RGB", (16, 16)).save(photos / "A.PNG")
    with pytest.raises(UserError, match=r"names A\.png in row 2: that may be"):
        read(photos, "file,label\nA.png,cat\n")


def test_pictures_of_no_class_are_left_out(photos: Path) -> None:
    path = write(photos.parent / "l.csv", "file,label\na.png,cat\nz.bmp,(None)\ndog/1.png,dog\n")
    data = load(photos, labels=path)
    assert data.train.classes == ("cat", "dog")
    assert data.no_class == ("z.bmp",)
    assert "z.bmp" not in data.train.names and len(data.train) == 5
    assert f"Left out of training because they are labelled {NO_CLASS}: 1." in data.notes


def test_guesses_count_where_a_person_changed_or_confirmed_them(photos: Path) -> None:
    lines = ["file,label,guess,confirmed,confidence,cat,dog"]
    lines += ["a.png,cat,cat,,0.9,0.9,0.1", "z.bmp,dog,cat,,0.6,0.6,0.4", "dog/1.png,cat,cat,Yes,0.8,0.8,0.2"]
    lines += ["dog/2.PNG,,cat,,0.8,0.8,0.2", "größe.png,cat,cat,no,1,1,0"]
    path = write(photos.parent / "predictions.csv", "\n".join(lines))
    data = load(photos, labels=path)
    assert labelled(data) == {"z.bmp": "dog", "dog/1.png": "cat"}
    assert "predictions.csv: 2 of 5 rows were changed or confirmed by a person and are used." in data.notes


@pytest.mark.parametrize("answer", [*YES, *NO])
def test_answers(photos: Path, answer: str) -> None:
    text = f"file,label,guess,confirmed\nz.bmp,dog,cat,\na.png,cat,cat,{answer.upper()}\n"
    assert ("a.png" in read(photos, text)) == (answer in YES)


def test_subfolders_are_classes_unless_there_is_a_label_file(photos: Path) -> None:
    path = write(photos.parent / "l.csv", "file,label\na.png,cat\nz.bmp,bird\ndog/1.png,cat\ndog/2.PNG,\n")
    assert labelled(load(photos)) == {"dog/1.png": "dog", "dog/2.PNG": "dog"}
    assert "Subfolders are classes: dog." in load(photos).notes
    data = load(photos, labels=path)
    assert data.train.classes == ("bird", "cat")
    assert (
        "Subfolders are not used as classes, because a label file is given: dog. To use them: --subfolders."
        in data.notes
    )
    plain = load(photos, labels=path, subfolders=False)
    assert labelled(plain) == labelled(data) and not any("ubfolders" in note for note in plain.notes)
    assert labelled(load(photos, subfolders=False)) == {}
    both = load(photos, labels=path, subfolders=True)
    assert both.train.classes == ("bird", "cat", "dog")
    assert labelled(both) == {"a.png": "cat", "z.bmp": "bird", "dog/1.png": "cat"}  # an empty label: nothing is known


@pytest.mark.parametrize("other", ["Cat", "cat ", "\uff43at"])
def test_classes_that_differ_in_looks_only(photos: Path, other: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([("file", "label"), ("a.png", "cat"), ("z.bmp", other)])
    if other.strip() == "cat":
        assert set(read(photos, text.getvalue()).values()) == {"cat"}
        return
    with pytest.raises(UserError, match=r"the classes '.*' \(labels.csv\) and '.*' \(labels.csv\) differ only in case"):
        read(photos, text.getvalue())
    (photos / "cat").mkdir()
    Image.new("RGB", (16, 16)).save(photos / "cat" / "1.png")
    with pytest.raises(UserError, match=r"a subfolder"):
        load(photos, labels=write(photos.parent / "l.csv", f"file,label\na.png,{other}\n"), subfolders=True)


@pytest.mark.parametrize(
    "cell", ["=1+1", "+a", "-x", "@x", "'=1", "''-x", "'quoted'", "plain", "a=b", "\tx=1", "", "-", "ü", "1,5;x"]
)
def test_no_cell_is_a_formula_and_it_comes_back(tmp_path: Path, cell: str) -> None:
    written = neutralised(cell)
    assert written[:1] not in ("=", "+", "-", "@", "\t")
    with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerow((written, "end"))
    (row,) = read_table(tmp_path / "t.csv", "table")
    assert row.cells == [cell, "end"]


@pytest.mark.parametrize("name", [" a.png", "\u00a0a.png", "b\rc.png", "\ra.png", "b\r\nc.png", "' a.png", " =1.png"])
def test_spaces_and_line_breaks_of_names_come_back(tmp_path: Path, name: str) -> None:
    write_csv(tmp_path / "t.csv", ("file", "label"), [(name, "cat"), ("z.png", "dog")])
    found = [row.cells for row in read_table(tmp_path / "t.csv", "table")]
    assert found == [["file", "label"], [name, "cat"], ["z.png", "dog"]]


def test_a_guess_of_the_encoding_is_told(photos: Path) -> None:
    path = write(photos.parent / "l.csv", "file,label\na.png,Привет\n", "cp1251")
    (note,) = [note for note in load(photos, labels=path).notes if "UTF-8" in note]
    assert note == ("Not in UTF-8, so read as Western European (cp1252): l.csv. If letters look wrong, save as UTF-8.")
    write(path, "file,label\na.png,Привет\n")
    assert not [note for note in load(photos, labels=path).notes if "UTF-8" in note]


def test_numbers_are_no_formulas() -> None:
    assert [neutralised(cell) for cell in ("-1", "+0.25", "-1e-05", "3")] == ["-1", "+0.25", "-1e-05", "3"]


def test_what_we_write_comes_back(photos: Path) -> None:
    """A file name and a class that look like formulas, as label files and with what a spreadsheet does to it."""
    Image.new("RGB", (16, 16)).save(photos / "=1+1.png")
    path = photos.parent / "l.csv"
    write_csv(path, ("file", "label"), [("=1+1.png", "@home"), ("a.png", "-1")])
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert "'=1+1.png,'@home" in path.read_text(encoding="utf-8-sig")
    assert labelled(load(photos, labels=path)) == {"=1+1.png": "@home", "a.png": "-1"}
    saved = path.read_text(encoding="utf-8-sig").replace(",", ";").replace("\n", "\r\n")  # as some spreadsheets save it
    assert labelled(load(photos, labels=write(path, saved, "cp1252"))) == {"=1+1.png": "@home", "a.png": "-1"}


def test_two_columns_that_may_be_the_label_are_told(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("file,class,label\na.png,bird,dog\n")
    found = read_labels([table], tmp_path, ["a.png"])
    assert found.classes == {"a.png": "dog"}
    assert found.notes == ["labels.csv: of the columns label and class the first is used."]
