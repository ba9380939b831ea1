"""A million pictures: memory, the time of a step, the time to start; decoding folders, and predicting them.

    python -m bench.scale --folder DIR                      1,000,000 images of 32x32x3 in one file (3 GB, kept in DIR)
    python -m bench.scale --folder DIR --pictures 20000     instead: so many JPEG files, decoded, cached and predicted

Anonymous memory is RssAnon of a process of its own, less that of one which has only imported torch: mapped files are
the system's cache, and are given back when memory is wanted elsewhere.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from bench.timing import in_turn
from fewlabel import Model
from fewlabel.data import ImageKind
from fewlabel.evaluate import CHUNK, predict_probabilities
from fewlabel.networks import make_classifier

IMPORT_ONLY = """
import torch
print(open("/proc/self/status").read().split("RssAnon:")[1].split()[0])
"""
TRAIN = """
import json, sys, time
import torch
from fewlabel import Recipe, load
from fewlabel.data.fingerprint import data_fingerprint
from fewlabel.training import Trainer, make_plan

began = time.perf_counter()
dataset = load(sys.argv[1])
plan = make_plan(Recipe(sys.argv[1], labels_per_class=4, network="cnn", steps=10_000), dataset)
data_fingerprint(dataset)
training = Trainer(plan, dataset)
training.step(0)
start = time.perf_counter() - began
times = []
for index in range(1, 41):
    began = time.perf_counter()
    training.step(index)
    times.append(time.perf_counter() - began)
anonymous = int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0])
print(json.dumps({"start": start, "step": sorted(times)[20], "anonymous": anonymous / 1024}))
"""
READ = """
import sys, time
from fewlabel.data.folder import read_folder
from pathlib import Path

began = time.perf_counter()
read_folder(Path(sys.argv[1]), size=32)
print(time.perf_counter() - began)
"""


def child(code: str, *words: str, cores: int | None = None) -> str:
    """What a process of its own prints, for which joblib finds so many cores."""
    environment = os.environ | ({"LOKY_MAX_CPU_COUNT": str(cores)} if cores else {})
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def write_arrays(path: Path, count: int) -> None:
    """An uncompressed .npz file of noise, written in parts; left alone where it is there already."""
    if path.exists():
        return
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        parts = {name: Path(place) / f"{name}.npy" for name in ("x_train", "y_train")}
        pixels = np.lib.format.open_memmap(parts["x_train"], "w+", np.uint8, (count, 3, 32, 32))
        for first in range(0, count, 10_000):
            pixels[first : first + 10_000] = draw.integers(0, 256, pixels[first : first + 10_000].shape, np.uint8)
        pixels.flush()
        np.save(parts["y_train"], np.arange(count) % 10)
        with zipfile.ZipFile(Path(place) / "whole", "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, part in parts.items():
                archive.write(part, f"{name}.npy")
        (Path(place) / "whole").rename(path)


def arrays(folder: Path, count: int, repeats: int) -> None:
    """Training on one large file beside training on a small one."""
    small, large = folder / "10000.npz", folder / f"{count}.npz"
    write_arrays(small, 10_000)
    write_arrays(large, count)
    alone = int(child(IMPORT_ONLY)) / 1024
    runs = [tuple(json.loads(child(TRAIN, str(path))) for path in (small, large)) for _ in range(repeats)]
    ratio = statistics.median(b["step"] / a["step"] for a, b in runs)
    memory = statistics.median(b["anonymous"] for _, b in runs) - alone
    start = statistics.median(b["start"] for _, b in runs)
    print(f"{count:,} images of 32x32x3 in an .npz file of {large.stat().st_size / 1e9:.1f} GB")
    print(f"  anonymous memory beyond torch's own {alone:.0f} MB: {memory:.0f} MB")
    print(f"  a step takes {ratio:.3f} times as long as on 10,000 images (medians of 40 steps, {repeats} runs in turn)")
    print(f"  start, to the end of the first step: {start:.1f} s")


def write_pictures(folder: Path, count: int) -> None:
    """JPEG files of 96x96, smooth as photographs are, in ten class folders."""
    if folder.exists():
        return
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        for position in range(count):
            subfolder = Path(place) / "all" / f"class{position % 10}"
            subfolder.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(draw.integers(0, 256, (8, 8, 3), np.uint8)).resize((96, 96))
            picture.save(subfolder / f"{position:07d}.jpg", quality=90)
        (Path(place) / "all").rename(folder)


def plain_pillow(files: list[Path]) -> float:
    """Images a second as a simple loop reads them."""
    began = time.perf_counter()
    for file in files:
        with Image.open(file) as picture:
            np.asarray(picture.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR))
    return len(files) / (time.perf_counter() - began)


def pictures(folder: Path, count: int, repeats: int) -> None:
    """Reading a folder on one core and on all, for the first time and again; then predicting it."""
    photos = folder / f"photos{count}"
    write_pictures(photos, count)
    files = sorted(photos.rglob("*.jpg"))
    os.environ["FEWLABEL_CACHE"] = str(folder / "cache")
    cores = os.cpu_count() or 1
    speeds: dict[str, list[float]] = {"plain": [], "one": [], "all": []}
    again = []
    for _ in range(repeats):
        speeds["plain"].append(plain_pillow(files[:5000]))
        for side, used in (("one", 1), ("all", cores)):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            speeds[side].append(len(files) / float(child(READ, str(photos), cores=used)))
        again.append(float(child(READ, str(photos))))
    plain, one, many = (statistics.median(speeds[side]) for side in ("plain", "one", "all"))
    print(f"{len(files):,} JPEG files of 96x96 to 32x32, images/s")
    print(f"  plain Pillow, one process {plain:.0f}; ours on one core {one:.0f} ({one / plain:.2f} times)")
    print(f"  ours on {cores} cores {many:.0f} ({many / one:.2f} times one core)")
    print(f"  again, from the cache: {statistics.median(again):.2f} s for the whole folder")

    for name, part in (("cnn", photos), ("wrn-28-2", photos / "class0")):
        predicting(name, part, repeats)


def predicting(name: str, folder: Path, repeats: int) -> None:
    """Labelling a folder beside the forward passes alone, over the same pictures decoded."""
    network = make_classifier(name, (3, 32, 32), 10, projector=False, seed=0).eval()
    model = Model(network, ImageKind(3, 32), tuple("0123456789"), name, "supervised")
    pixels = torch.cat([images.inputs for images in model.kind.stream(folder, CHUNK)])
    sides = {"predict": lambda: model.label(folder), "limit": lambda: predict_probabilities(network, pixels)}
    times = in_turn(sides, repeats, 1)
    ratio = statistics.median(b / a for a, b in zip(times["predict"], times["limit"], strict=True))
    speed = len(pixels) / statistics.median(times["predict"])
    print(f"  predict with {name}: {speed:.0f} images/s, {ratio:.2f} of the speed of forward passes alone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--pictures", type=int, default=0, help="JPEG files to write, read and predict")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    if options.pictures:
        pictures(options.folder, options.pictures, options.repeats)
    else:
        arrays(options.folder, options.images, options.repeats)


if __name__ == "__main__":
    main()
