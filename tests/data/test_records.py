"""Tables as files: read a row at a time, in whatever separator, encoding and format."""

import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from fewlabel import UserError
from fewlabel.data.columns import Column, TableForm, as_number, find_form
from fewlabel.data.records import open_records, row_name
from fewlabel.data.row_files import Roles, RowFile

HEADER = ("id", "text", "label")
ROWS = [["1", "Tea, and; cake", "good"], ["2", 'He said "no"\nand left', ""], ["3", "Füße, 5 €", "bad"]]


def csv_text(separator: str) -> str:
    lines = [separator.join(HEADER)]
    for row in ROWS:
        lines.append(separator.join('"' + cell.replace('"', '""') + '"' for cell in row))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_csv_in_every_separator_and_encoding(separator: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(csv_text(separator).encode(encoding))
    records = open_records(path)
    assert records.header == HEADER
    assert list(records) == list(records) == ROWS


def test_other_formats(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(csv_text("\t"), encoding="utf-8")
    objects = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    lines = [
        json.dumps({**entry, "id": int(entry["id"])} | ({} if entry["label"] else {"label": None})) for entry in objects
    ]
    (tmp_path / "b.jsonl").write_text("\n\n".join(lines))
    for name in ("a.tsv", "b.jsonl"):
        records = open_records(tmp_path / name)
        assert (records.header, list(records)) == (HEADER, ROWS)


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow.parquet import write_table  # type: ignore[import-not-found, import-untyped, unused-ignore]

    columns = {name: [row[place] or None for row in ROWS] for place, name in enumerate(HEADER)}
    write_table(arrow.table(columns), tmp_path / "c.parquet")
    records = open_records(tmp_path / "c.parquet")
    assert (records.header, list(records)) == (HEADER, ROWS)


def test_a_spreadsheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    for row in (HEADER, [None, None, None], [1, " Tea, and; cake ", "good"], *([*row] for row in ROWS[1:])):
        book.active.append(row)
    book.save(tmp_path / "d.xlsx")
    records = open_records(tmp_path / "d.xlsx")
    assert (records.header, list(records)) == (HEADER, ROWS)


def test_lists_and_missing_values_in_objects(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"a": 1, "tags": ["x", "ü"]}\n{"a": NaN, "tags": null}\n', encoding="utf-8")
    assert list(open_records(tmp_path / "b.jsonl")) == [["1", '["x", "ü"]'], ["", ""]]


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    """The first one numbers the rows, where pandas has written the file; a separator ends each line."""
    (tmp_path / "t.csv").write_text(",a,b,k,\n0,1,2,x,\n1,3,4,y,\n")
    file = RowFile(tmp_path / "t.csv", Roles(label="k"))
    assert file.columns == ["a", "b"]
    assert file.records.notes() == ["2 of the columns of t.csv have no name and are left out."]


def test_parquet_with_damaged_pages(tmp_path: Path) -> None:
    """Its header can be read."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow.parquet import write_table  # type: ignore[import-not-found, import-untyped, unused-ignore]

    path = tmp_path / "c.parquet"
    write_table(arrow.table({"a": [f"text {i % 7}" for i in range(99)]}), path, use_dictionary=False)
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"\xff" * 60 + content[68:])
    records = open_records(path)
    with pytest.raises(UserError, match="is not a parquet file that can be read"):
        list(records)


def test_a_line_that_names_the_separator(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sep=|\na|b\n1|2\n")
    records = open_records(tmp_path / "t.csv")
    assert (records.header, list(records)) == (("a", "b"), [["1", "2"]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"a,b,a\n1,2,3\n", "two columns called 'a'"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "row 2 of .* has 3 cells, but the header has 2"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2 .* is not a JSON object"),
        ("a.jsonl", b'{"a": 1}\n{"a":\n', "line 2 .* is not a JSON object"),
        ("a.jsonl", b'{"a":' + b"[" * 100_000 + b"}", "line 1 .* is nested too deeply"),
        ("a.jsonl", '{"a": 1}\n'.encode("utf-16"), "is not a JSON object .* in UTF-8"),
        ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', "a quote that opens in row 2 and never closes"),
        ("a.tsv", b'a\tb\n"1\t2\n', "a quote that opens in row 1 and never closes"),
        ("a.csv", "a,b\né,ü\nà,ö\nß,ø\n".encode() + "é,2\n".encode("cp1252"), "some letters in another encoding"),
        ("a.xlsx", b"PK no", r"not an \.xlsx file|openpyxl"),
        ("a.parquet", b"PAR1 no", "parquet|pyarrow"),
        (
            "a.csv",
            b"a,b\n" + b"x,y\n" * 400_000 + "ä,ö\n".encode("cp1252") * 10,
            r"is in UTF-8 up to row (39|40)\d{4}, and then",
        ),
        ("a.csv", b"\x00\x01\x02\x03" * 100, "is not a table in text"),
    ],
)
def test_what_cannot_be_read(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(open_records(tmp_path / name))


def test_a_wrong_column_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("review,stars\nx,1\n")
    with pytest.raises(UserError, match="did you mean review"):
        open_records(tmp_path / "t.csv").column("reveiw")
    with pytest.raises(UserError, match="there is no file"):
        open_records(tmp_path / "nowhere.csv")


@pytest.mark.slow
def test_rows_are_read_one_at_a_time(tmp_path: Path) -> None:
    """30 MB of file in 6 MB of memory."""
    path = tmp_path / "large.csv"
    with open(path, "w") as file:
        file.write("a,b\n")
        for i in range(300_000):
            file.write(f"{i},{'word ' * 19}\n")
    tracemalloc.start()
    count = sum(1 for _ in open_records(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 300_000
    assert peak < 12e6  # the sample by which encoding and separator are found, and its lines


def test_a_row_is_known_by_number_and_content() -> None:
    assert row_name(3, ["a", "b"]) == row_name(3, ["a", "b"])
    names = {row_name(3, ["a", "b"]), row_name(4, ["a", "b"]), row_name(3, ["a", "c"]), row_name(3, ["ab", ""])}
    assert len(names) == 4


# ---- columns


def form_of(header: str, *rows: str) -> tuple[TableForm, list[list[str]]]:
    cells = [row.split("|") for row in rows]
    return find_form(header.split("|"), cells)[0], cells


def test_numbers_categories_and_what_is_missing() -> None:
    form, rows = form_of("age|city|size", "30|Rome|1,5", "|Oslo|2", "50|Rome|?", "40|Bonn|NA")
    age, city, size = form.columns
    assert (age.role, age.median, age.missing) == ("number", 40.0, True)
    assert (city.role, city.categories) == ("category", ("Bonn", "Oslo", "Rome"))
    assert (size.role, size.median) == ("number", 1.75)
    found = form.encode([*rows, ["20", "Paris", ""]], 5)
    expected = [
        [30, 0, 0, 0, 1, 0, 1.5, 0],
        [40, 1, 0, 1, 0, 0, 2, 0],
        [50, 0, 0, 0, 1, 0, 1.75, 1],
        [40, 0, 1, 0, 0, 0, 1.75, 1],
        [20, 0, 0, 0, 0, 1, 1.75, 1],  # a city that was not there is "other"
    ]
    assert np.array_equal(found, np.array(expected, np.float32))
    assert found.dtype == np.float32
    assert form.describe().splitlines() == [
        "Numbers: age (missing values become 40 and are marked), "
        "size (1,5 is read as 1.5; missing values become 1.75 and are marked).",
        "Categories: city (3 and other).",
    ]
    assert TableForm.from_list(json.loads(json.dumps(form.to_list()))) == form


def test_columns_that_say_nothing_are_left_out() -> None:
    form, rows = form_of("a|b|c", "1||x", "2||x", "3|NA|x")
    assert [column.role for column in form.columns] == ["number", "dropped", "dropped"]
    assert form.describe() == "Numbers: a.\nLeft out: b (empty), c (the same in all rows)."
    assert form.encode(rows, 3).tolist() == [[1], [2], [3]]
    with pytest.raises(UserError, match="no column is left"):
        form_of("a|b", "x|", "x|")


@pytest.mark.parametrize("name", ["id", "ID", "customer_id", "sample ID", "rowId"])
def test_counts_and_ids_are_left_out(name: str) -> None:
    """They would tell the classes apart where a table is sorted, and mean nothing for new rows."""
    rows = [f"{number + 1}|{(number * 7) % 40 + 100}|{number % 7}|w{number}" for number in range(40)]
    form, _ = form_of(f"number|{name}|n|text {name}", *rows)
    assert [column.role for column in form.columns] == ["dropped", "dropped", "number", "dropped"]
    advice = "different in each row; to name rows by it: --id-column"
    expected = f"Left out: number (it counts the rows), {name} ({advice}), text {name} ({advice})."
    assert form.describe().splitlines()[1] == expected


def test_an_id_with_a_few_exceptions_is_left_out_without_the_advice_to_name_rows_by_it() -> None:
    numbers = [str((number * 7) % 40 + 100) for number in range(40)]
    form, _ = form_of("id|n", *(f"{number}|{place % 7}" for place, number in enumerate([*numbers, numbers[0]])))
    assert form.describe().splitlines()[1] == "Left out: id (different in nearly every row)."
    form, _ = form_of("id|n", *(f"{number}|{place % 7}" for place, number in enumerate([*numbers, ""])))
    assert form.describe().splitlines()[1] == "Left out: id (different in nearly every row)."


def test_an_id_of_many_rows_that_repeats_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first different values are remembered."""
    monkeypatch.setattr("fewlabel.data.columns.COUNTED", 50)
    numbers = [(number * 7) % 80 for number in range(80)]
    form, _ = form_of("id|n", *(f"{number}|{number % 7}" for number in numbers))
    assert form.columns[0].role == "dropped" and "nearly" in form.columns[0].why  # not all were looked at
    form, _ = form_of("id|n", *(f"{number}|{number % 7}" for number in numbers * 2))
    assert form.columns[0].role == "number"


@pytest.mark.parametrize("name", ["paid", "grid", "valid", "identity", "Madrid", "width"])
def test_what_only_looks_like_an_id_is_used(name: str) -> None:
    """Another name, repeated values, parts of whole numbers, few rows, or a table whose columns a program chose."""
    rows = [f"{(number * 7) % 40}|{number // 2}|{2 * number}|{number / 7}" for number in range(40)]
    form, _ = form_of(f"{name}|id|n|pipe ID", *rows)
    assert [column.role for column in form.columns] == ["number"] * 4
    assert form_of("id|n", "1|5", "2|5", "3|6")[0].columns[0].role == "number"
    counted = [[str(number), str(number % 3)] for number in range(40)]
    assert find_form(["id", "n"], counted, from_python=True)[0].columns[0].role == "number"


def test_years_and_hours_are_no_counts() -> None:
    """A count begins at 0 or 1 and goes on to the end without a gap."""
    rows = [f"{1990 + number}|{number % 24}|{number + (number > 20)}" for number in range(30)]
    form, _ = form_of("year|hour|dose", *rows)
    assert [column.role for column in form.columns] == ["number"] * 3
    with pytest.raises(UserError, match=r"no column is left to train on. Left out: step \(it counts the rows\)."):
        form_of("step", *(str(number) for number in range(24)))


@pytest.mark.parametrize("date", ["2024-05-17", "17.5.2024", "5/17/24", "2024-05-17 08:30", "2024-05-17T08:30:00Z"])
def test_dates_are_refused(date: str) -> None:
    with pytest.raises(UserError, match=r"column 'when' holds dates, such as .*--drop 'when'"):
        form_of("n|when", *(f"{i}|{date}" for i in range(9)), "9|2023-01-01")


def test_names_and_texts_are_no_categories() -> None:
    with pytest.raises(UserError, match=r"column 'who' has 60 different values in 60 rows.*--drop 'who'"):
        form_of("who|n", *(f"person {i}|{i}" for i in range(60)))


def test_all_columns_that_cannot_be_learnt_from_are_told_at_once() -> None:
    rows = [f"2024-01-{day:02}|note {day}|{day + 0.5}|{'red' if day % 2 else 'blue'}" for day in range(1, 29)] * 2
    expected = (
        "column 'when' holds dates, such as 2024-01-01; column 'more' has 56 different values in 56 rows, such as "
        "'0 notes': add --drop 'when,more', or turn dates into numbers, or name a column of texts"
    )
    with pytest.raises(UserError, match=re.escape(expected)):
        form_of("when|note|n|colour|more", *(f"{row}|{number} notes" for number, row in enumerate(rows)))


@pytest.mark.parametrize("cell", ["2.x5", "inf", "1e300", "1_000"])
def test_mistakes_among_numbers(cell: str) -> None:
    with pytest.raises(UserError, match=f"column 'n' holds numbers, but also '{cell}': .*correct or clear such cells"):
        form_of("n|k", *(f"{number / 7}|x" for number in range(20)), f"{cell}|x")


def test_rare_categories_share_a_place() -> None:
    rows = [f"v{i % 60:02d}|{i}" for i in range(600)] + [f"v{i:02d}|{i}" for i in range(50)]
    form, _ = form_of("kind|n", *rows)
    assert form.columns[0].categories == tuple(f"v{i:02d}" for i in range(50))
    assert form.columns[0].encode("v59") == form.columns[0].encode("never") == [0.0] * 50 + [1.0]


def test_a_word_among_numbers_later_is_an_error() -> None:
    column = Column("age", "number", 40.0, True)
    with pytest.raises(UserError, match="column 'age' holds numbers, but also 'old'"):
        column.encode("old")
    assert column.encode("NA") == [40.0, 1.0]
    assert Column("age", "number", 40.0, False).encode("") == [40.0]  # nothing was missing in training


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1", 1.0), ("-2.5e3", -2500.0), ("3,14", 3.14), ("inf", None), ("nan", None), ("1,234,567", None), ("x", None)],
)
def test_numbers(cell: str, value: float | None) -> None:
    assert as_number(cell) == value
