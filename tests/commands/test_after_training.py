"""predict --sort and evaluate --mistakes, as they are typed."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from fewlabel.sorting import folder_names
from tests.pictures import class_folder, fruit_folder
from tests.processes import in_process as fewlabel


def done(*words: str, cwd: Path) -> str:
    result = fewlabel(*words, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("after")
    patch = pytest.MonkeyPatch()
    patch.setenv("FEWLABEL_CACHE", str(folder / "cache"))
    fruit_folder(folder / "photos")
    class_folder(folder / "test")
    words = ("--encoder", "none", "--steps", "30", "--threads", "1", "--no-floor", "--out", "run")
    done("train", "photos", "--labels", "labels.csv", *words, cwd=folder)
    yield folder
    patch.undo()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_sorted_into_folders(place: Path) -> None:
    """Copies, by predicted class; nothing is moved or overwritten, and a second time changes nothing."""
    before = files(place / "test")
    (place / "sorted/cherry").mkdir(parents=True)
    first = next(iter(sorted(before)))
    words = ("predict", "run", "test", "--sort", "sorted", "--min-confidence", "0.6")
    told = done(*words, cwd=place)
    assert files(place / "test") == before
    with open(place / "predictions.csv", newline="", encoding="utf-8-sig") as file:
        sure = {row["file"]: row["label"] for row in csv.DictReader(file)}
    with open(place / "review.csv", newline="", encoding="utf-8-sig") as file:
        unsure = [row["file"] for row in csv.DictReader(file)]
    expected = {f"{label}/{name}": before[name] for name, label in sure.items()}
    expected |= {f"review/{name}": before[name] for name in unsure}
    assert files(place / "sorted") == expected
    assert f"{len(before)} images copied into sorted: " in told
    assert done(*words, cwd=place) and files(place / "sorted") == expected

    mine = next(path for path in expected if path.endswith(first))
    (place / "sorted" / mine).write_bytes(b"mine")
    done(*words, cwd=place)
    now = files(place / "sorted")
    path = Path(mine)
    assert now[mine] == b"mine" and now[str(path.with_name(f"{path.stem}-2{path.suffix}"))] == before[first]
    assert len(now) == len(expected) + 1


def test_links(place: Path) -> None:
    done("predict", "run", "test", "--sort", "links", "--link", cwd=place)
    found = [path for path in (place / "links").rglob("*") if path.is_symlink()]
    assert len(found) == len(files(place / "test"))
    assert all(path.resolve().is_relative_to((place / "test").resolve()) for path in found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("photos", "--sort", "photos/sorted"), "is inside photos"),
        (("photos", "--link"), "--link needs --sort FOLDER"),
        (("rows.npz", "--sort", "x"), "cannot be sorted into folders"),
    ],
)
def test_what_cannot_be_sorted(place: Path, words: tuple[str, ...], message: str) -> None:
    before = {path.name for path in place.iterdir()}
    result = fewlabel("predict", "run", *words, "-o", "refused.csv", cwd=place)
    assert result.returncode == 2 and message in result.stderr
    assert {path.name for path in place.iterdir()} == before  # refused before anything is predicted


def test_folders_for_strange_classes() -> None:
    names = ("a/b", "a:b", "review", "Review", "..", " x. ", "ü")
    assert list(folder_names(names).values()) == ["a_b", "a_b-2", "review-2", "Review-3", "_", "x", "ü"]


def test_mistakes(place: Path) -> None:
    """A picture in the wrong folder is the surest mistake, or among them."""
    Image.open(next((place / "test/cherry").iterdir())).save(place / "test/lime/wrong.png")
    told = done("evaluate", "run", "test", "--mistakes", "mistakes.html", cwd=place)
    with open(place / "mistakes.csv", newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert f"{len(rows)} mistakes: mistakes.html" in told and "Warning" not in told
    (found,) = [row for row in rows if row["file"] == "lime/wrong.png"]
    assert (found["label"], found["predicted"]) == ("lime", "cherry")
    assert [float(row["confidence"]) for row in rows] == sorted(
        (float(row["confidence"]) for row in rows), reverse=True
    )
    page = (place / "mistakes.html").read_text()
    assert "lime, predicted as cherry" in page and page.count("<img") == len(rows)
    (place / "test/lime/wrong.png").unlink()
    (place / "mine.csv").write_text("file,label\nlime/1.png,lime\n")
    refused = fewlabel("evaluate", "run", "test", "--mistakes", "mine.html", cwd=place)
    assert refused.returncode == 2 and "mine.csv already exists and was not written by fewlabel" in refused.stderr
    (place / "page.html").write_text("somebody's page")
    refused = fewlabel("evaluate", "run", "test", "--mistakes", "page.csv", cwd=place)
    assert refused.returncode == 2 and "page.html already exists and was not written by fewlabel" in refused.stderr
    refused = fewlabel("evaluate", "run", "test", "--mistakes", "mistakes.pdf", cwd=place)
    assert refused.returncode == 2 and "--mistakes must end in .html or .csv" in refused.stderr


def test_judged_by_what_it_was_trained_on(place: Path) -> None:
    told = done("evaluate", "run", "photos", "--labels", "labels.csv", cwd=place)
    assert "Warning: the model was trained on 6 of these images" in told


def test_corrections_are_not_overwritten(place: Path) -> None:
    words = ("predict", "run", "test", "-o", "mine-too.csv")
    done(*words, cwd=place)
    done(*words, cwd=place)  # nobody has touched it
    path = place / "mine-too.csv"
    text = path.read_text(encoding="utf-8-sig").splitlines()
    cells = text[1].split(",")
    path.write_text("\n".join([text[0], ",".join([*cells[:3], "yes", *cells[4:]]), *text[2:]]))
    refused = fewlabel(*words, cwd=place)
    assert refused.returncode == 2 and "replace it with --overwrite" in refused.stderr
    assert ",yes," in path.read_text()
    done(*words, "--overwrite", cwd=place)
    refused = fewlabel("predict", "run", "test", "-o", "x.xlsx", cwd=place)
    assert refused.returncode == 2 and "--output must end in .csv" in refused.stderr


def test_copies_of_an_earlier_sorting_are_told(place: Path) -> None:
    words = ("predict", "run", "test", "--sort", "resorted", "-o", "resorted.csv", "--overwrite")
    assert "earlier sorting" not in done(*words, cwd=place)
    name = next(path for path in sorted(files(place / "resorted")))
    folder, _, rest = name.partition("/")
    other = place / "resorted" / ("review" if folder != "review" else "lime") / rest
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_bytes((place / "resorted" / name).read_bytes())
    assert "1 of them are also in another folder of resorted" in done(*words, cwd=place)


def test_evaluated_by_several_label_files(place: Path) -> None:
    """The later wins; what was understood is told."""
    names = sorted(files(place / "test"))
    truth = {name: name.partition("/")[0] for name in names}
    rows = [f"{name},{truth[name]}" for name in names[1:]]
    (place / "first.csv").write_text("\n".join(["file,label", f"{names[0]},plum", *rows]) + "\n")
    (place / "later.csv").write_text(f"filename;class\n{names[0]};{truth[names[0]]}\n")
    told = done("evaluate", "run", "test", "--labels", "first.csv", "--labels", "later.csv", cwd=place)
    assert "Subfolders are not used as classes, because a label file is given: cherry, lime, plum." in told
    assert told.split("Accuracy")[1:] == done("evaluate", "run", "test", cwd=place).split("Accuracy")[1:]


def test_pages_of_others_are_not_replaced(place: Path) -> None:
    words = ("suggest", "photos", "--run", "run", "-n", "3", "-o", "beside.csv")
    done(*words, cwd=place)
    done(*words, cwd=place)  # our own page is made again
    (place / "beside.html").write_text("somebody's page")
    refused = fewlabel(*words, cwd=place)
    assert refused.returncode == 2 and "beside.html already exists and was not written by fewlabel" in refused.stderr
    assert (place / "beside.html").read_text() == "somebody's page"
    done(*words, "--overwrite", cwd=place)
    assert "somebody's page" not in (place / "beside.html").read_text()
