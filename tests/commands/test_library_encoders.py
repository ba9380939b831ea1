"""Encoders of other libraries as they are typed, with small models that are made here; and on two processes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.commands.test_encoded_runs import done, place, typed
from tests.encoders.test_libraries import MEAN, STD, operators, save_vit
from tests.processes import ENVIRONMENT
from tests.test_ranks import finished

__all__ = ["operators", "place"]  # fixtures
QUICK = ("--labels", "labels.csv", "--steps", "20", "--no-floor")
# What torchvision's compiled part would define: beside another build of torch it will not be imported without.
STUB = """
import torch
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def make_timm(folder: Path) -> str:
    import timm
    from timm.models import save_for_hf

    model = timm.create_model("mobilenetv3_small_050", num_classes=3).eval()
    config = {"mean": MEAN, "std": STD, "input_size": (3, 64, 64), "license": "mit"}
    save_for_hf(model, folder / "small", model_config={"pretrained_cfg": config}, safe_serialization=True)
    return f"timm/local-dir:{folder / 'small'}"


def make_torchvision(folder: Path) -> str:
    from torchvision.models import MobileNet_V3_Small_Weights, mobilenet_v3_small

    path = folder / "hub/checkpoints" / Path(MobileNet_V3_Small_Weights.DEFAULT.url).name
    path.parent.mkdir(parents=True)
    torch.save(mobilenet_v3_small().state_dict(), path)
    return "torchvision/mobilenet_v3_small"


def make_hf(folder: Path) -> str:
    save_vit(folder / "vit", size=32)
    return f"hf/{folder}/vit"


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_timm, make_torchvision, make_hf])
def test_typed(make: Callable[[Path], str], place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "stub").mkdir()
    (place / "stub/sitecustomize.py").write_text(STUB)
    settings = {"PYTHONPATH": str(place / "stub"), "TORCH_HOME": str(place), "PYTHONWARNINGS": "default"}
    for key, value in settings.items():  # other libraries warn of this and that
        monkeypatch.setitem(ENVIRONMENT, key, value)
    torch.manual_seed(0)
    name = make(place)
    told = typed("train", "photos", *QUICK, "--encoder", name, "--out", "run", cwd=place)
    assert f"features of {name}" in told
    assert json.loads((place / "run/model.json").read_text())["encoder"] == name
    assert "36 images labelled" in typed("predict", "run", "photos", cwd=place)
    typed("export", "run", "--onnx", "model.onnx", cwd=place)


@pytest.mark.slow
def test_torchrun_with_an_encoder(place: Path) -> None:
    """The pictures are encoded once; two processes train the head."""
    words = ("--encoder", "encoder.onnx", "--out", "run")
    output, errors = finished("-m", "fewlabel", "train", "photos", *QUICK, *words, cwd=place)
    assert output.count("on 2 processes, each on cpu") == 1
    assert "Traceback" not in errors
    assert "36 images labelled" in done("predict", "run", "photos", cwd=place)
    assert len(list((place / "cache/features").iterdir())) == 1
