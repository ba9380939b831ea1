"""docs/guide.md: every command of it, typed in its order, with a person in between."""

import csv
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fewlabel.encoders import ENCODERS
from tests.processes import ENVIRONMENT, fewlabel

PAGE = Path(__file__).parent.parent / "docs/guide.md"
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
installed = pytest.mark.skipif(not ENCODERS["lite0"].installed, reason="the weights of fewlabel[photos] are not there")


def truth(name: str) -> str:
    return list(COLOURS)[int(name[:3]) % 3]


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def fill(path: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> list[dict[str, str]]:
    """Saved as a spreadsheet of another country does."""
    rows = [change(row) for row in read(path)]
    with open(path, "w", newline="", encoding="cp1252") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    return rows


@installed
def test_the_whole_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "FEWLABEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    draw = np.random.default_rng(0)
    for n in range(90):
        pixels = np.array(list(COLOURS.values())[n % 3]) + draw.normal(0, 25, (32, 32, 3))
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(tmp_path / f"photos/{n:03}.png")

    def label(row: dict[str, str]) -> dict[str, str]:
        return row | {"label": truth(row["file"])}

    def correct() -> None:
        """Three more are confirmed or put right, none of which was audited."""
        audited = {row["file"] for row in read_semicolons(tmp_path / "audit.csv")}
        left = [row["file"] for row in read(tmp_path / "runs/first/predictions.csv") if row["file"] not in audited][:3]
        (tmp_path / "corrected.csv").write_bytes((tmp_path / "runs/first/predictions.csv").read_bytes())
        fill(
            tmp_path / "corrected.csv",
            lambda row: label(row) | {"confirmed": "yes"} if row["file"] in left else row,
        )

    after: dict[str, Callable[[], object]] = {
        "suggest photos/ -n 12 -o": lambda: fill(tmp_path / "to-label.csv", label),
        "audit runs/first -n": lambda: fill(tmp_path / "audit.csv", label),
        "audit runs/first --answers": correct,
        "suggest photos/ -n 12 --run": lambda: fill(tmp_path / "more.csv", label),
    }
    commands = re.findall(r"^fewlabel (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        quick = " --steps 60 --threads 1" if command.startswith("train") else ""
        result = fewlabel(*shlex.split(command + quick), cwd=tmp_path)
        assert result.returncode == 0, f"{command}: {result.stderr}"
        if command.startswith("audit runs/first --answers"):
            assert "Accuracy of the labels alone, on the same images: " in result.stdout
        for start, act in after.items():
            if command.startswith(start):
                act()
    audited = {row["file"] for row in read_semicolons(tmp_path / "audit.csv")}
    assert not audited & {row["file"] for row in read_semicolons(tmp_path / "more.csv")}
    placed = list((tmp_path / "sorted").rglob("*.png"))
    assert len(placed) == 90
    right = [path.parent.name == truth(path.name) for path in placed if path.parent.name != "review"]
    assert len(right) > 30 and np.mean(right) > 0.9
    assert len(read(tmp_path / "runs/second/labels.csv")) >= 12 + 12 + 1


def read_semicolons(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="cp1252") as file:
        return list(csv.DictReader(file, delimiter=";"))
