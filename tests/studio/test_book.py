"""Labels on disk: nothing is lost, whoever else writes, and everything can be undone."""

import json
import resource
import threading
from pathlib import Path

import pytest

from fewlabel import UserError
from fewlabel.data import load
from fewlabel.data.labels import NO_CLASS
from fewlabel.files import csv_line
from fewlabel.studio.book import LabelBook
from tests.pictures import picture

FILES = ["a.png", "b.png", "c.png", "sub/d.png"]


@pytest.fixture
def book(tmp_path: Path) -> LabelBook:
    return open_book(tmp_path)


def open_book(tmp_path: Path) -> LabelBook:
    return LabelBook(tmp_path / "labels.csv", tmp_path / "photos", FILES)


def test_a_label_is_on_disk_at_once(book: LabelBook, tmp_path: Path) -> None:
    book.label(["a.png"], "cat")
    book.label(["sub/d.png"], NO_CLASS)
    assert (tmp_path / "labels.csv").read_text(encoding="utf-8-sig") == "file,label\na.png,cat\nsub/d.png,(none)\n"
    assert book.labels == {"a.png": "cat", "sub/d.png": NO_CLASS} and book.classes == ["cat"]


def test_another_book_sees_it_and_both_can_write(book: LabelBook, tmp_path: Path) -> None:
    other = open_book(tmp_path)
    book.label(["a.png"], "cat")
    other.label(["b.png"], "dog")
    book.label(["c.png"], "cat")
    assert book.labels == other.labels == {"a.png": "cat", "b.png": "dog", "c.png": "cat"}
    assert book.classes == other.classes == ["cat", "dog"]


def test_many_at_once(tmp_path: Path) -> None:
    files = [f"{i}.png" for i in range(40)]
    books = [LabelBook(tmp_path / "labels.csv", tmp_path, files) for _ in range(4)]

    def work(number: int) -> None:
        for i in range(number, 40, 4):
            books[number].label([f"{i}.png"], f"class {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert books[0].labels == {f"{i}.png": f"class {i % 4}" for i in range(40)}


def test_only_what_was_changed_is_written_anew(
    book: LabelBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "labels.csv").write_text("file,label,note\na.png,,=1\nb.png,,'x\n")
    written: list[list[str]] = []

    def spy(row: list[str], separator: str = ",") -> bytes:
        written.append(row)
        return csv_line(row, separator)

    book.label(["a.png"], "cat")
    monkeypatch.setattr("fewlabel.studio.sheet.csv_line", spy)
    book.label(["b.png"], "dog")
    book.label(["c.png"], "dog")
    assert [row[0] for row in written] == ["b.png", "file", "c.png", "file"]
    text = (tmp_path / "labels.csv").read_text(encoding="utf-8-sig")
    assert text == "file,label,note\na.png,cat,'=1\nb.png,dog,'x\nc.png,dog\n"


def test_undo_goes_back_through_everything_also_after_a_restart(book: LabelBook, tmp_path: Path) -> None:
    book.label(["a.png"], "cat")
    book.label(["a.png", "b.png"], "dog")
    book.skip("c.png")
    book.add_class("bird")
    book.rename_class("dog", "wolf")
    assert book.labels == {"a.png": "wolf", "b.png": "wolf"} and book.classes == ["cat", "wolf", "bird"]
    book = open_book(tmp_path)
    book.undo()
    assert book.classes == ["cat", "dog", "bird"] and book.labels == {"a.png": "dog", "b.png": "dog"}
    book.undo()
    assert book.classes == ["cat", "dog"] and book.skipped == ["c.png"]
    book.undo()
    assert book.skipped == []
    book.undo()
    assert book.labels == {"a.png": "cat"} and book.classes == ["cat"]
    book.undo()
    assert book.labels == {} and book.classes == [] and book.undo() is None


def test_the_same_label_twice_is_undone_twice(book: LabelBook) -> None:
    for _ in range(2):
        book.label(["a.png"], "cat")
        book.label(["a.png"], "")
    for expected in ({"a.png": "cat"}, {}, {"a.png": "cat"}, {}):
        book.undo()
        assert book.labels == expected


def test_undo_leaves_what_somebody_else_changed(book: LabelBook, tmp_path: Path) -> None:
    book.label(["a.png", "b.png"], "cat")
    (tmp_path / "labels.csv").write_text("file,label\na.png,horse\nb.png,cat\n")
    book.undo()
    assert book.labels == {"a.png": "horse"}


def test_merging_classes(book: LabelBook) -> None:
    book.label(["a.png"], "cat")
    book.label(["b.png"], "kitten")
    book.rename_class("kitten", "cat")
    assert book.labels == {"a.png": "cat", "b.png": "cat"} and book.classes == ["cat"]
    book.undo()
    assert book.labels == {"a.png": "cat", "b.png": "kitten"} and book.classes == ["cat", "kitten"]


def test_a_file_of_another_program_keeps_its_columns_its_separator_and_its_rows(tmp_path: Path) -> None:
    before = "Filename;Class;Note\nb.png;dog;blurred; \n;;\na.png;;\n"
    (tmp_path / "labels.csv").write_text(before)
    book = open_book(tmp_path)
    assert book.labels == {"b.png": "dog"}
    book.label(["a.png"], "cat")
    book.label(["c.png"], "dog")
    text = (tmp_path / "labels.csv").read_text(encoding="utf-8-sig")
    assert text.splitlines()[0] == "Filename;Class;Note"
    assert "b.png;dog;blurred" in text and "a.png;cat;" in text and "c.png;dog" in text
    assert (tmp_path / "labels-before-studio.csv").read_text() == before


def test_a_file_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("a.png,cat\n")
    book = open_book(tmp_path)
    book.label(["b.png"], "dog")
    assert (tmp_path / "labels.csv").read_text(encoding="utf-8-sig") == "a.png,cat\nb.png,dog\n"


def test_predictions_are_confirmed(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file,label,guess,confirmed\na.png,cat,cat,\nb.png,dog,cat,\n")
    book = open_book(tmp_path)
    assert book.labels == {"b.png": "dog"}
    book.label(["a.png"], "cat")
    assert open_book(tmp_path).labels == {"a.png": "cat", "b.png": "dog"}


def test_a_file_that_becomes_unreadable_is_not_overwritten(book: LabelBook, tmp_path: Path) -> None:
    book.label(["a.png"], "cat")
    (tmp_path / "labels.csv").write_text("file,label\na.png,cat\na.png,dog\n")
    with pytest.raises(UserError, match="two labels"):
        book.label(["b.png"], "cat")
    assert (tmp_path / "labels.csv").read_text() == "file,label\na.png,cat\na.png,dog\n"
    (tmp_path / "labels.csv").write_text("file,label\na.png,dog\n")
    book.label(["b.png"], "cat")
    assert book.labels == {"a.png": "dog", "b.png": "cat"}


def test_a_history_that_cannot_be_written(book: LabelBook) -> None:
    """A label that is said not to be saved is not there, and the next one finds everything in order."""
    for label in ("cat", "dog"):
        book.label(["a.png"], label)
    before = book.path.read_bytes(), book.history.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[1]) + 30, limits[1]))  # a disk that is full then
    try:
        with pytest.raises(UserError, match=r"could not save .*labels.csv"):
            book.label(["b.png"], "dog")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (book.path.read_bytes(), book.history.read_bytes()) == before
    assert book.labels == {"a.png": "dog"}
    book.label(["b.png"], "dog")
    book.undo()
    assert book.labels == {"a.png": "dog"}


def test_a_history_that_was_cut_off(book: LabelBook, tmp_path: Path) -> None:
    book.label(["a.png"], "cat")
    with open(book.history, "ab") as file:
        file.write(b'{"what": "lab')
    again = open_book(tmp_path)
    again.label(["b.png"], "dog")
    again.undo()
    again.undo()
    assert again.labels == {} and open_book(tmp_path).labels == {}
    assert json.loads(book.history.read_text().splitlines()[0])["changes"] == [["a.png", "", "cat"]]


@pytest.mark.parametrize("name", ["", "  ", "(none", "a\x00b", "x" * 101])
def test_names_that_no_class_can_have(book: LabelBook, name: str) -> None:
    with pytest.raises(UserError):
        book.add_class(name)


def test_names_that_differ_in_case_are_one_class(book: LabelBook) -> None:
    book.label(["a.png"], "Deer")
    book.label(["b.png"], " deer ")
    assert book.labels == {"a.png": "Deer", "b.png": "Deer"}
    book.rename_class("Deer", "deer")
    assert book.classes == ["deer"]


@pytest.mark.parametrize("name", ["=1+1", "-x", "'quoted", 'a "b", c', "ä;ö"])
def test_names_that_spreadsheets_mistake(book: LabelBook, tmp_path: Path, name: str) -> None:
    book.label(["a.png"], name)
    assert open_book(tmp_path).labels == {"a.png": name}


def test_what_could_not_be_saved_has_not_been_labelled(
    book: LabelBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.label(["a.png"], "cat")

    def full(*words: object) -> None:
        raise UserError("could not save")

    with monkeypatch.context() as patch:
        patch.setattr("fewlabel.studio.sheet.write_lines", full)
        with pytest.raises(UserError, match="could not save"):
            book.label(["b.png"], "cat")
    assert book.labels == open_book(tmp_path).labels == {"a.png": "cat"}
    book.undo()
    assert book.labels == {}


def test_labels_that_a_stale_save_has_dropped_are_put_back(book: LabelBook, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file,label\nc.png,horse\n")
    stale = (tmp_path / "labels.csv").read_bytes()
    book.label(["a.png"], "cat")
    book.label(["b.png"], "dog")
    (tmp_path / "labels.csv").write_bytes(stale)  # a spreadsheet that was opened before saves what it knows
    assert book.labels == {"a.png": "cat", "b.png": "dog", "c.png": "horse"}
    assert "2 labels" in book.note and open_book(tmp_path).labels == book.labels


def test_what_another_studio_takes_away_stays_away(book: LabelBook, tmp_path: Path) -> None:
    other = open_book(tmp_path)
    book.label(["a.png", "b.png"], "cat")
    other.label(["a.png"], "")
    assert book.labels == {"b.png": "cat"}
    other.undo()
    other.undo()
    assert book.labels == {}


def test_pictures_that_are_gone_keep_their_rows(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file,label\ngone.png,cat\na.png,dog\n")
    book = open_book(tmp_path)
    assert book.labels == {"a.png": "dog"} and "1 pictures" in book.note
    book.label(["b.png"], "dog")
    assert "gone.png,cat" in (tmp_path / "labels.csv").read_text()
    book.copy(tmp_path / "copy.csv", without=["b.png"])
    assert (tmp_path / "copy.csv").read_text(encoding="utf-8-sig") == "file,label\na.png,dog\n"


def test_a_picture_in_two_rows(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file,label\na.png,cat\na.png,cat\nb.png,\n")
    open_book(tmp_path).label(["a.png"], "dog")
    assert open_book(tmp_path).labels == {"a.png": "dog"}


def test_an_unusual_separator_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("sep=|\nfile|label\na.png|cat\n")
    open_book(tmp_path).label(["b.png"], "dog")
    assert open_book(tmp_path).labels == {"a.png": "cat", "b.png": "dog"}


def test_skipped_pictures_come_round(book: LabelBook) -> None:
    for name in ("a.png", "b.png", "a.png"):
        book.skip(name)
    assert book.skipped == ["b.png", "a.png"]


def test_undoing_a_confirmation_leaves_the_guess(tmp_path: Path) -> None:
    text = "file,label,guess,confirmed\na.png,cat,cat,\nb.png,dog,cat,\n"
    (tmp_path / "labels.csv").write_text(text)
    book = open_book(tmp_path)
    book.skip("a.png")
    book.undo()
    book.label(["a.png"], "horse")
    book.undo()
    assert (tmp_path / "labels.csv").read_text(encoding="utf-8-sig") == text


def test_who_was_faster_wins(book: LabelBook, tmp_path: Path) -> None:
    other = open_book(tmp_path)
    other.label(["a.png"], "cat", before="")
    with pytest.raises(UserError, match="its label is now 'cat'"):
        book.label(["a.png"], "dog", before="")
    book.label(["a.png"], "dog", before="cat")
    assert book.labels == {"a.png": "dog"}


def test_names_of_classes_that_were_renamed(book: LabelBook) -> None:
    book.add_class("cat")
    book.rename_class("cat", "kitten")
    book.rename_class("kitten", "tiger")
    assert book.renamed("cat") == "tiger" and book.renamed("dog") == "dog"
    book.undo()
    assert book.renamed("cat") == "kitten"


def test_only_csv(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="as CSV"):
        LabelBook(tmp_path / "labels.xlsx", tmp_path, FILES)


def test_train_reads_what_the_studio_writes(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        picture("lime", 0).save(folder / name)
    book = open_book(tmp_path)
    book.label(["a.png", "b.png"], "cat")
    book.label(["sub/d.png"], "dog")
    book.undo()
    book.label(["sub/d.png"], "dog")
    train = load(str(folder), labels=str(book.path)).train
    found = {name: train.classes[label] for name, label in zip(train.names, train.labels, strict=True) if label >= 0}
    assert found == book.labels
