"""The demo: quickly as a whole here, at full length with `-m slow`."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

import fewlabel.demo
from fewlabel import load
from fewlabel.commands.main import main
from fewlabel.demo import demo, demo_recipe, label_spreading


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    full = demo_recipe

    def short(seed: int, out: str | None) -> object:
        return replace(full(seed, out), steps=8)

    monkeypatch.setattr(fewlabel.demo, "demo_recipe", short)
    out = tmp_path / "run"
    assert main(["demo", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    for words in (
        "the labels alone",
        "LabelSpreading",
        "ICL-SSL with distribution alignment",
        str(out / "report.html"),
    ):
        assert words in text
    assert (out / "report.html").exists()
    assert main(["demo", "--out", str(out)]) == 2  # a run is not replaced unasked
    assert capsys.readouterr().err == f"fewlabel: {out} already holds a run: replace it with --overwrite.\n"
    assert main(["demo", "--out", str(out), "--overwrite"]) == 0
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["demo"]) == 0  # its own place is


def test_label_spreading_is_scikit_learns() -> None:
    """On the same 20 labels and test images; measured once with a script of its own."""
    found = [label_spreading(demo_recipe(seed, None), load("digits")) for seed in (0, 1)]
    assert found == pytest.approx([0.812, 0.884], abs=0.02)


@pytest.mark.slow
def test_icl_ssl_beats_label_spreading_by_three_points(tmp_path: Path) -> None:
    results = [demo(seed, str(tmp_path / str(seed)), quiet=True) for seed in range(5)]
    ours = statistics.mean(result.icl_ssl for result in results)
    spreading = statistics.mean(result.label_spreading for result in results)
    assert ours >= max(spreading, 0.884) + 0.03
