"""A million examples through the commands: time, and the most memory that a command and its helpers take.

    python -m bench.load --folder DIR                        pictures and rows, 100,000 and 1,000,000 of them
    python -m bench.load --folder DIR --counts 20000 --only rows

`pictures`: PNG files of 8x8 pixels, 1,000 in each subfolder, on which `train --encoder none` takes 50 steps with 20
labels and predicts all others, then `predict`. `rows`: an .npz file of 1,280 features each, as of an encoder, of which
`suggest` takes 20. Memory is the largest sum of anonymous memory (RssAnon) over all processes of a command: mapped
files are the system's cache, and are given back when memory is wanted elsewhere. Needs 10 GB in DIR.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from bench.scale import IMPORT_ONLY, child

KINDS = ("pictures", "rows")
EACH = 1000  # pictures in a subfolder
FEATURES, GROUPS = 1280, 40
LABELLED = 20
PAUSE = 0.1  # seconds between two looks at the memory


def write_pictures(folder: Path, count: int) -> None:
    """Two kinds of pictures, bright at the left or at the right; left alone where they are there already."""
    if folder.exists():
        return
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        for first in range(0, count, EACH):
            subfolder = Path(place) / "all" / f"{first // EACH:05d}"
            subfolder.mkdir(parents=True)
            pixels = draw.integers(0, 120, (EACH, 8, 8), np.uint8)
            for position in range(min(EACH, count - first)):
                side = position % 2 * 4
                pixels[position, :, side : side + 4] += 100
                Image.fromarray(pixels[position]).save(subfolder / f"{first + position:07d}.png", compress_level=1)
        (Path(place) / "all").rename(folder)


def write_labels(path: Path) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label"])
        rows.writerows([f"00000/{n:07d}.png", ("left", "right")[n % 2]] for n in range(LABELLED))


def write_rows(path: Path, count: int) -> None:
    """Features in groups, written in parts; left alone where they are there already."""
    if path.exists():
        return
    draw = np.random.default_rng(0)
    centres = draw.random((GROUPS, FEATURES), np.float32)
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        rows = np.lib.format.open_memmap(Path(place) / "x_train.npy", "w+", np.float32, (count, FEATURES))
        for first in range(0, count, 10_000):
            part = rows[first : first + 10_000]
            noise = draw.standard_normal(part.shape, np.float32)
            part[:] = np.maximum(centres[draw.integers(0, GROUPS, len(part))] + noise, 0)
        rows.flush()
        np.save(Path(place) / "y_train.npy", np.full(count, -1))
        with zipfile.ZipFile(Path(place) / "whole", "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name in ("x_train.npy", "y_train.npy"):
                archive.write(Path(place) / name, name)
        (Path(place) / "whole").rename(path)


def anonymous(group: int) -> float:
    """MB of all processes of a session."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rsplit(")", 1)[1].split()[3]) == group:
                text = (status.parent / "status").read_text()
                total += int(text.split("RssAnon:")[1].split()[0]) if "RssAnon:" in text else 0
        except (OSError, IndexError):  # it has ended meanwhile
            continue
    return total / 1024


def measured(words: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of a command, and the most memory in MB."""
    environment = os.environ | {"FEWLABEL_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "fewlabel", *words]
    began, most = time.perf_counter(), 0.0
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        most = max(most, anonymous(process.pid))
        time.sleep(PAUSE)
    if process.returncode:
        raise SystemExit(f"fewlabel {' '.join(words)} failed")
    return time.perf_counter() - began, most


def commands(kind: str, count: int, folder: Path) -> dict[str, list[str]]:
    """Name -> words; the data are made first."""
    if kind == "rows":
        write_rows(folder / f"rows{count}.npz", count)
        return {"suggest": ["suggest", f"rows{count}.npz", "-n", "20", "-o", f"rows{count}.csv", "--overwrite"]}
    write_pictures(folder / f"pictures{count}", count)
    write_labels(folder / "labels.csv")
    train = ["train", f"pictures{count}", "--labels", "labels.csv", "--encoder", "none", "--size", "8"]
    train += ["--network", "wrn-10-1", "--steps", "50", "--no-floor", "--out", f"run{count}", "--overwrite"]
    predict = ["predict", f"run{count}", f"pictures{count}", "-o", f"predicted{count}.csv", "--overwrite"]
    return {"train, decoding": train, "train, decoded before": train, "predict": predict}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--counts", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    alone = int(child(IMPORT_ONLY)) / 1024
    print(f"torch alone: {alone:.0f} MB\n\n| examples | command | seconds | MB |\n|---|---|---|---|")
    for kind in options.only:
        for count in options.counts:
            for name, words in commands(kind, count, options.folder).items():
                seconds, memory = measured(words, options.folder)
                print(f"| {count:,} {kind} | {name} | {seconds:.0f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
