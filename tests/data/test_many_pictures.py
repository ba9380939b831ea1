"""Memory that reading the labels of a folder takes for each picture."""

import tracemalloc
from pathlib import Path

from fewlabel.data.labels import Names
from fewlabel.data.picture_files import classes_by_folder
from fewlabel.data.tables import Row

COUNT = 20_000
FILES = [f"{n // 1000:05d}/{n:07d}.png" for n in range(COUNT)]


def test_names_that_are_written_literally_need_no_tables() -> None:
    tracemalloc.start()
    try:
        names = Names(Path("pictures"), FILES)
        assert names.find(Path("labels.csv"), Row(2, [FILES[3]]), FILES[3]) == FILES[3]
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 150 * COUNT  # a set of names; with tables of other forms it was 390 bytes for each
    other = FILES[3].upper()
    assert names.find(Path("labels.csv"), Row(3, [other]), other) == FILES[3]
    assert names.otherwise == {"in another case": 1}


def test_classes_of_subfolders_are_one_string_each() -> None:
    found = classes_by_folder([*FILES, "loose.png", "elsewhere/x.png"], ["00000", "00001"])
    assert len(found) == 2000 and found[FILES[0]] == "00000" and found[FILES[1500]] == "00001"
    assert len({id(name) for name in found.values()}) == 2
