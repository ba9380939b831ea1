"""Small valid inputs of every kind, which file of them is damaged for which commands, and how."""

import contextlib
import gzip
import json
import os
import pickle
import random
import struct
from pathlib import Path

STRANGE = [None, True, -1, 0, 2**63, 10**40, 1e308, float("nan"), "", "x" * 5000, "é\0\n", [], {}, [[]], {"a": {}}, 0.5]
CELLS = [
    "",
    "NaN",
    "-1",
    "1e999",
    '"',
    "=1+1",
    "../..",
    "é",
    "x" * 3000,
    ",",
    ";",
    "\0",
    "(none)",
    "a\nb",
    "'",
    "9" * 11,
]
FLAGS = ["--size", "--steps", "--seed", "--batch", "--method", "--network", "--labels", "--range", "--flip", "--device"]
FLAGS += ["--encoder", "--learning-rate", "-n", "-o", "--test", "--root", "--help", "--minutes"]
WORDS = ["", "-1", "0", "nan", "1e999", "x" * 300, "é", "/", "..", "photos", "run", "--", "wrn-10-1", "wrn-99994-99"]
WORDS += ["100000", "icl-ssl+icl", "5,1", "="]
TRAIN = ["--encoder", "none", "--network", "mlp", "--steps", "2", "--evaluations", "1", "--no-floor"]
RESUME = ["--labels", "labels.csv", *TRAIN, "--out", "run", "--resume"]
# Which file is damaged, in which input, and the commands of which one is run.
TARGETS = {
    "label file": (
        "labels.csv",
        [
            ["train", "photos", "--labels", "labels.csv", *TRAIN, "--out", "new"],
            ["evaluate", "run", "photos", "--labels", "labels.csv"],
            ["suggest", "photos", "--run", "run", "--labels", "labels.csv", "-n", "2"],
        ],
    ),
    "picture": ("photos/3.png", [["predict", "run", "photos", "-o", "out.csv"]]),
    "16-bit picture": (
        "deep/1.tif",
        [
            ["predict", "run", "deep", "-o", "out.csv"],
            ["train", "deep", "--labels", "deep.csv", *TRAIN, "--out", "new"],
        ],
    ),
    "model.json": (
        "run/model.json",
        [
            ["predict", "run", "photos", "-o", "out.csv"],
            ["evaluate", "run", "photos", "--labels", "labels.csv"],
            ["train", "photos", "--labels", "labels.csv", "--start-from", "run", *TRAIN, "--out", "new"],
        ],
    ),
    "model.safetensors": ("run/model.safetensors", [["predict", "run", "photos", "-o", "out.csv"]]),
    "recipe.json": (
        "run/recipe.json",
        [
            ["train", "photos", *RESUME],
            ["report", "run"],
            ["repeat", "run", "--out", "new"],
            ["audit", "run", "-n", "5", "-o", "audit.csv"],
        ],
    ),
    "labels.csv of a run": (
        "run/labels.csv",
        [["train", "photos", *RESUME], ["report", "run"], ["evaluate", "run", "photos", "--labels", "labels.csv"]],
    ),
    "metrics.jsonl": ("run/metrics.jsonl", [["report", "run"], ["train", "photos", *RESUME]]),
    "metrics.jsonl, unfinished": ("half/metrics.jsonl", [["train", "photos", *RESUME[:-2], "half", "--resume"]]),
    "checkpoint": ("half/last.ckpt", [["train", "photos", *RESUME[:-2], "half", "--resume"]]),
    "predictions.csv": (
        "run/predictions.csv",
        [
            ["train", "photos", "--labels", "labels.csv", "--labels", "run/predictions.csv", *TRAIN, "--out", "new"],
            ["audit", "run", "-n", "5", "-o", "audit.csv"],
        ],
    ),
    "images.npz": ("images.npz", [["train", "images.npz", *TRAIN, "--out", "new"]]),
    "rows.npz": ("rows.npz", [["train", "rows.npz", *TRAIN, "--out", "new"]]),
    "table.csv": ("table.csv", [["train", "table.csv", "--label-column", "kind", *TRAIN, "--out", "new"]]),
    "table.jsonl": ("table.jsonl", [["train", "table.jsonl", "--label-column", "kind", *TRAIN, "--out", "new"]]),
    "table.parquet": ("table.parquet", [["train", "table.parquet", "--label-column", "kind", *TRAIN, "--out", "new"]]),
    "label file, .xlsx": ("labels.xlsx", [["evaluate", "run", "photos", "--labels", "labels.xlsx"]]),
    "texts.csv": (
        "texts.csv",
        [
            ["predict", "words", "texts.csv", "-o", "out.csv"],
            ["suggest", "texts.csv", "--text-column", "text", "-n", "3"],
        ],
    ),
    "folder of .txt": (
        "texts/*.txt",
        [["predict", "words", "texts", "-o", "out.csv"], ["suggest", "texts", "-n", "3"]],
    ),
    "cache of pictures": (
        "cache/*/*",
        [
            ["suggest", "photos", "--run", "run", "-n", "3"],
            ["train", "photos", "--labels", "labels.csv", *TRAIN, "--out", "new"],
        ],
    ),
    "cache of features": ("cache/features/*/*", [["predict", "words", "texts", "-o", "out.csv"]]),
    "idx": ("mnist/t10k-images-idx3-ubyte.gz", [["train", "mnist", "--root", "mnist", *TRAIN, "--out", "new"]]),
    "pickle": ("cifar10/data_batch_1", [["train", "cifar10", "--root", "cifar10", *TRAIN, "--out", "new"]]),
    "command line": (
        None,
        [
            ["train", "photos", *RESUME[:-2], "new"],
            ["predict", "run", "photos", "-o", "out.csv"],
            ["report", "run"],
            ["suggest", "photos", "--run", "run", "-n", "3"],
            ["methods", "icl"],
            ["encoders"],
            ["cache"],
            ["audit", "run", "-n", "5", "-o", "a.csv"],
            ["export", "run"],
            ["paper", "list"],
        ],
    ),
}


def make_inputs(place: Path) -> None:
    """Small valid inputs of every kind, a finished run and one that was stopped before its end."""
    import numpy as np
    import openpyxl
    from PIL import Image
    from pyarrow import Table, parquet

    from fewlabel.commands.main import main

    draw = np.random.default_rng(0)
    for name in ("photos", "deep", "mnist", "cifar10/cifar-10-batches-py"):
        (place / name).mkdir(parents=True)
    for number in range(14):
        pixels = draw.integers(0, 100, (12, 12, 3), np.uint8)
        pixels[..., number % 2] += 120
        Image.fromarray(pixels).save(place / f"photos/{number}.png")
        deep = draw.integers(0, 4096, (12, 12)).astype([np.uint16, np.float32][number % 2])
        Image.fromarray(deep).save(place / f"deep/{number}.tif")
    for file, suffix in (("labels.csv", "png"), ("deep.csv", "tif")):
        rows = [f"{number}.{suffix},{'ab'[number % 2]}\n" for number in range(8)]
        (place / file).write_text("file,label\n" + "".join(rows))
    labels = np.arange(12) % 2
    np.savez(place / "images.npz", x_train=draw.integers(0, 256, (12, 8, 8), np.uint8), y_train=labels)
    np.savez(place / "rows.npz", x_train=draw.normal(size=(12, 3)), y_train=labels)
    table = [f"{a:.3f},{b:.3f},{'xy'[i % 2]},{'ab'[i % 2]}\n" for i, (a, b) in enumerate(draw.normal(size=(20, 2)))]
    (place / "table.csv").write_text("a,b,c,kind\n" + "".join(table))
    rows = [dict(zip(("a", "b", "c", "kind"), line.strip().split(","), strict=True)) for line in table]
    (place / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(Table.from_pylist(rows), place / "table.parquet")
    sheet = openpyxl.Workbook()
    for row in [("file", "label"), *((f"{number}.png", "ab"[number % 2]) for number in range(8))]:
        sheet.active.append(row)
    sheet.save(place / "labels.xlsx")
    texts = [f"{'this is good' if number % 2 else 'that was bad'} {number}" for number in range(10)]
    (place / "texts").mkdir()
    for number, text in enumerate(texts):
        (place / f"texts/{number}.txt").write_text(text)
    lines = [f"{text},{'ab'[number % 2] if number < 6 else ''}\n" for number, text in enumerate(texts)]
    (place / "texts.csv").write_text("text,kind\n" + "".join(lines))
    for part in ("train", "t10k"):
        tens = bytes(number % 10 for number in range(20))
        images = struct.pack(">4I", 2051, 20, 28, 28) + draw.integers(0, 256, 20 * 784, np.uint8).tobytes()
        (place / f"mnist/{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (place / f"mnist/{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">2I", 2049, 20) + tens))
    batch = {b"data": draw.integers(0, 256, (20, 3072), np.uint8), b"labels": [n % 10 for n in range(20)]}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (place / f"cifar10/{name}").write_bytes(pickle.dumps(batch, 2))
    names = {b"label_names": [str(number).encode() for number in range(10)]}
    (place / "cifar10/batches.meta").write_bytes(pickle.dumps(names, 2))
    os.chdir(place)
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        assert main(["train", "photos", "--labels", "labels.csv", *TRAIN, "--out", "run"]) == 0
        assert main(["train", "photos", "--labels", "labels.csv", *TRAIN, "--out", "half"]) == 0
        words = ["--text-column", "text", "--label-column", "kind", "--steps", "2", "--evaluations", "1", "--no-floor"]
        assert main(["train", "texts.csv", *words, "--out", "words"]) == 0
        assert main(["suggest", "texts", "-n", "3"]) == 0
        (place / "to-label.csv").unlink()
        (place / "to-label.html").unlink()
    for name in ("report.html", "model.json", "model.safetensors", "predictions.csv", "verdict.json"):
        (place / "half" / name).unlink()


def damage(content: bytes, path: str, draw: random.Random) -> bytes:
    """One to three random changes."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        structured = path.endswith((".json", ".jsonl", ".csv")) and draw.random() < 0.7
        content = damaged_text(content, path, draw) if structured else damaged_bytes(content, draw)
    return content


def damaged_bytes(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return draw.randbytes(20)
    here = draw.randrange(len(content))
    there = min(len(content), here + draw.choice((1, 2, 8, 100)))
    change = draw.randrange(7)
    if change == 0:  # a bit flipped
        return content[:here] + bytes([content[here] ^ 1 << draw.randrange(8)]) + content[here + 1 :]
    if change == 1:
        return content[:here]
    if change == 2:
        return content[:here] + draw.randbytes(draw.choice((1, 4, 50))) + content[here:]
    if change == 3:
        return content[:here] + content[there:]
    if change == 4:
        return content[:here] + bytes(there - here) + content[there:]
    if change == 5:
        return content[:there] + content[here:]
    return draw.choice((b"", b"\xff" * 40, draw.randbytes(200), content[::-1]))


def damaged_text(content: bytes, path: str, draw: random.Random) -> bytes:
    """A value of JSON, or a cell of a table, replaced."""
    try:
        if path.endswith(".csv"):
            lines = [line.split(",") for line in content.decode("utf-8-sig").splitlines()]
            row = draw.choice(lines)
            row[draw.randrange(len(row))] = draw.choice(CELLS)
            return "\n".join(",".join(line) for line in lines).encode()
        texts = content.decode().splitlines() if path.endswith(".jsonl") else [content.decode()]
        place = draw.randrange(len(texts))
        value = json.loads(texts[place])
        texts[place] = json.dumps(changed(value, draw))
        return "\n".join(texts).encode()
    except (ValueError, IndexError, TypeError):
        return damaged_bytes(content, draw)


def changed(value: object, draw: random.Random) -> object:
    """JSON with one value at any depth replaced or removed."""
    if isinstance(value, dict | list) and value and draw.random() < 0.9:
        key = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if draw.random() < 0.15:
            del value[key]
        else:
            value[key] = changed(value[key], draw)
        return value
    return draw.choice(STRANGE)


def damaged_words(words: list[str], draw: random.Random) -> list[str]:
    words = list(words)
    for _ in range(draw.choice((1, 1, 2))):
        here = draw.randrange(len(words) + 1)
        flag = draw.choice(FLAGS)
        word = draw.choice([flag, *WORDS, f"{flag}=", f"{flag}=9" * 2])
        if draw.random() < 0.6 or here == len(words):
            words.insert(here, word)
        elif draw.random() < 0.5:
            del words[here]
        else:
            words[here] = word
    return words
