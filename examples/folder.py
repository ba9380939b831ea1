"""A folder of pictures, six of them labelled: labels for all the others, and for new ones."""

import csv
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import fewlabel

photos = Path(tempfile.mkdtemp()) / "photos"
photos.mkdir()
draw = np.random.default_rng(0)
kinds = {"cherry": (200, 20, 40), "lime": (60, 200, 40), "plum": (90, 40, 160)}

# Stand-ins for your photographs: noisy squares in the colours of fruit.
rows = []
for number in range(60):
    kind = list(kinds)[number % 3]
    pixels = np.clip(draw.normal(kinds[kind], 40, (32, 32, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(photos / f"{number:02d}.png")
    if number < 6:
        rows.append((f"{number:02d}.png", kind))

with open(photos.parent / "labels.csv", "w", newline="") as file:
    csv.writer(file).writerows([("file", "label"), *rows])

recipe = fewlabel.Recipe(
    data=str(photos), labels=str(photos.parent / "labels.csv"), steps=60, batch=12, out=str(photos.parent / "run")
)
run = fewlabel.train(recipe)

with open(run.directory / "predictions.csv", newline="", encoding="utf-8-sig") as file:
    found = list(csv.DictReader(file))
right = sum(row["label"] == list(kinds)[int(row["file"][:2]) % 3] for row in found)
print(f"{right} of {len(found)} pictures got the right label; look at {run.directory / 'report.html'}")
