"""Files of rows of up to 2 GB: the memory of `fewlabel train`, `predict` and `suggest`.

    python -m bench.big_table --folder DIR                              100 MB, 500 MB and 2 GB; kept in DIR
    python -m bench.big_table --folder DIR --only texts --megabytes 100

Rows of a table have 20 numbers and a category, 200 bytes in all; 20 of them have a class. Texts have 240 letters. Only
200 of them differ, so that encoding takes seconds: features are looked up by content, then every row has its own. Texts
are also only read, without an encoder. Memory is anonymous memory of the command: the temporary files and mapped
features are the system's cache, and are given back when memory is wanted elsewhere. They need several times the size
of a table in TMPDIR, and about 15 times that of texts.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.load import measured
from bench.scale import IMPORT_ONLY, child

NUMBERS, BLOCK = 20, 20_000  # columns, and rows that are repeated
LABELLED, CLASSES = 20, ("apple", "pear")
LETTERS, DIFFERENT = 240, 200
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state")
READ = """
import sys
from pathlib import Path
from fewlabel.data.row_files import Roles, RowFile

file = RowFile(Path(sys.argv[1]), Roles("text", "class"))
assert sum(len(text) > 0 for (text,) in file.inputs()) == len(file.listing().names)
print(open("/proc/self/status").read().split("RssAnon:")[1].split()[0])
"""


def table_rows() -> Iterator[str]:
    """Rows without a class, whose numbers lie around one of two centres."""
    draw = np.random.default_rng(0)
    kind = draw.integers(0, 2, BLOCK)
    numbers = draw.normal(size=(BLOCK, NUMBERS)) + kind[:, None]
    for row, place in zip(numbers, kind, strict=True):
        yield ",".join((*(f"{number:.6f}" for number in row), ("red", "green")[place]))


def text_rows() -> Iterator[str]:
    draw = np.random.default_rng(0)
    for number in range(DIFFERENT):
        words = draw.choice(WORDS, LETTERS)
        yield " ".join((("buy", "sell")[number % 2], str(number), *words))[:LETTERS]


def write_file(path: Path, header: str, rows: Iterator[str], size: int) -> None:
    """A few rows with a class, then the same rows without one again and again; left alone where it is there."""
    if path.exists():
        return
    lines = list(rows)
    block = "".join(f"{line},\n" for line in lines).encode()
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        with open(Path(place) / "whole", "wb") as file:
            file.write(f"{header},class\n".encode())
            file.writelines(f"{line},{CLASSES[i % 2]}\n".encode() for i, line in enumerate(lines[:LABELLED]))
            while file.tell() < size:
                file.write(block)
        (Path(place) / "whole").rename(path)


def read_only(path: Path) -> tuple[float, float]:
    """Seconds of reading a file of texts twice, as training does, and the memory at the end in MB."""
    began = time.perf_counter()
    memory = int(child(READ, str(path))) / 1024
    return time.perf_counter() - began, memory


def commands(kind: str, path: Path) -> dict[str, list[str]]:
    name, columns = path.stem, ["--label-column", "class"]
    columns += ["--text-column", "text"] if kind == "texts" else []
    train = ["train", path.name, *columns, "--out", f"run-{name}", "--overwrite"]
    predict = ["predict", f"run-{name}", path.name, "-o", f"predicted-{name}.csv", "--overwrite"]
    suggest = ["suggest", path.name, *columns, "-n", "20", "-o", f"suggested-{name}.csv", "--overwrite"]
    return {"train": train, "predict": predict, "suggest": suggest}


def count_rows(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 24), b"")) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--only", choices=("table", "texts", "reading"), nargs="+", default=["table", "reading"])
    parser.add_argument("--commands", choices=("train", "predict", "suggest"), nargs="+")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"torch alone: {int(child(IMPORT_ONLY)) / 1024:.0f} MB\n\n| file | rows | command | seconds | MB |")
    print("|---|---|---|---|---|")
    for kind in options.only:
        for size in options.megabytes:
            of_texts = kind != "table"
            path = options.folder / f"{'texts' if of_texts else 'table'}{size}.csv"
            header = "text" if of_texts else ",".join([*(f"x{i}" for i in range(NUMBERS)), "colour"])
            write_file(path, header, text_rows() if of_texts else table_rows(), size * 10**6)
            rows = count_rows(path)
            sides: dict[str, Callable[[], tuple[float, float]]] = {
                name: lambda words=words: measured(words, options.folder)  # type: ignore[misc]
                for name, words in commands(kind, path).items()
                if options.commands is None or name in options.commands
            }
            for name, side in ({"reading": lambda: read_only(path)} if kind == "reading" else sides).items():  # noqa: B023
                seconds, memory = side()
                print(f"| {kind}, {size:,} MB | {rows:,} | {name} | {seconds:.0f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
