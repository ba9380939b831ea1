"""The demo: quickly as a whole here, at full length with `-m slow`."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

import fewlabel.demo
from fewlabel import load, load_model
from fewlabel.commands.main import main
from fewlabel.data import encoded
from fewlabel.demo import REGIONS, demo, demo_recipe, label_spreading, photo_tiles
from fewlabel.encoders import ENCODERS, find_encoder


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


@pytest.mark.skipif(not ENCODERS["lite0"].installed, reason="the weights of fewlabel[photos] are not there")
@pytest.mark.slow
def test_photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FEWLABEL_CACHE", str(tmp_path / "cache"))
    assert main(["demo", "--photos", "--out", str(tmp_path / "run")]) == 0
    text = capsys.readouterr().out
    assert "12 labels, 109 test images" in text and "fewlabel, on the same features" in text
    assert "data:image/png" in (tmp_path / "run/report.html").read_text()
    assert 100 * load_model(tmp_path / "run").evaluate(encoded(photo_tiles(), find_encoder("lite0")).test).accuracy > 90
    monkeypatch.setattr("fewlabel.encoders.listed.is_installed", lambda _: False)
    assert main(["demo", "--photos"]) == 2
    assert "needs a pre-trained encoder: pip install 'fewlabel[photos]'" in capsys.readouterr().err


def test_tiles_do_not_overlap_and_stay_within_their_photograph() -> None:
    rectangles: dict[str, list[tuple[int, int, int, int]]] = {}
    for photograph, parts in REGIONS.values():
        rectangles.setdefault(photograph, []).extend(parts)
    for parts in rectangles.values():
        for i, (left, top, right, bottom) in enumerate(parts):
            assert 0 <= left < right <= 640 and 0 <= top < bottom <= 427
            for other in parts[:i]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_label_spreading_is_scikit_learns() -> None:
    """On the same 20 labels and test images; measured once with a script of its own."""
    found = [label_spreading(demo_recipe(seed, None), load("digits")) for seed in (0, 1)]
    assert found == pytest.approx([0.812, 0.884], abs=0.02)


@pytest.mark.slow
def test_icl_ssl_beats_label_spreading_by_three_points(tmp_path: Path) -> None:
    results = [demo(seed, str(tmp_path / str(seed)), quiet=True) for seed in range(5)]
    ours = statistics.mean(result.fewlabel for result in results)
    spreading = statistics.mean(result.label_spreading for result in results)
    assert ours >= max(spreading, 0.884) + 0.03
