"""Folders of small pictures that a network can tell apart."""

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"cherry": (200, 30, 40), "lime": (60, 190, 40), "plum": (110, 40, 150)}


def picture(kind: str, seed: int, side: int = 40) -> Image.Image:
    draw = np.random.default_rng(seed)
    array = np.full((side, side + 8, 3), 230.0) + draw.normal(0, 12, (side, side + 8, 3))
    y, x = np.ogrid[:side, : side + 8]
    centre = draw.uniform(0.4, 0.6, 2) * (side, side + 8)
    array[(y - centre[0]) ** 2 + (x - centre[1]) ** 2 < (side * draw.uniform(0.2, 0.35)) ** 2] = COLOURS[kind]
    return Image.fromarray(array.clip(0, 255).astype(np.uint8))


def fruit_folder(folder: Path, each: int = 12, labelled: int = 2) -> Path:
    """Loose pictures of three kinds in several formats; gives the CSV file that labels some of each."""
    folder.mkdir(parents=True)
    suffixes = ("jpg", "png", "webp", "bmp", "gif", "tiff")
    lines = ["file,label"]
    for kind_number, kind in enumerate(COLOURS):
        for i in range(each):
            name = f"{i:02d}-{kind_number}.{suffixes[i % len(suffixes)]}"
            picture(kind, 100 * kind_number + i).save(folder / name)
            if i < labelled:
                lines.append(f"{name},{kind}")
    labels = folder.parent / "labels.csv"
    labels.write_text("\n".join(lines) + "\n")
    return labels


def class_folder(folder: Path, each: int = 5) -> Path:
    """The same kinds, one subfolder each."""
    for kind_number, kind in enumerate(COLOURS):
        (folder / kind).mkdir(parents=True)
        for i in range(each):
            picture(kind, 1000 + 100 * kind_number + i).save(folder / kind / f"{i}.png")
    return folder
