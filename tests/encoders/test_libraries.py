"""Encoders of other libraries, with small models that are made here: no weights are downloaded."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewlabel import UserError
from fewlabel.encoders import Encoder, find_encoder
from fewlabel.encoders.find import load_once

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


@pytest.fixture(autouse=True)
def fresh() -> None:
    load_once.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def operators() -> Any:
    """torchvision beside a CPU build of torch of another source has no compiled operators, and will not be imported."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def random_pixels(size: int, count: int = 2) -> Tensor:
    return torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def normalised(pixels: Tensor, mean: Any = MEAN, std: Any = STD) -> Tensor:
    """By hand, on the scale 0 to 1."""
    return ((pixels.double() / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)).float()


def check(encoder: Encoder, name: str, size: int, expected: Callable[[Tensor], Tensor], **statistics: Any) -> None:
    """Name, size and features; nothing learns."""
    assert encoder.name == name and encoder.size == size
    pixels = random_pixels(size)
    with torch.no_grad():
        features = expected(normalised(pixels, **statistics))
    torch.testing.assert_close(encoder(pixels), features, atol=1e-5, rtol=1e-4)
    assert encoder.features == features.shape[1]
    assert not encoder.module.training and not any(p.requires_grad for p in encoder.module.parameters())


def test_timm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import timm
    from timm.models import save_for_hf

    torch.manual_seed(0)
    model = timm.create_model("mobilenetv3_small_050", num_classes=3).eval()
    config = {"mean": MEAN, "std": STD, "input_size": (3, 64, 64), "license": "cc-by-9"}
    save_for_hf(model, tmp_path / "small", model_config={"pretrained_cfg": config}, safe_serialization=True)
    model.reset_classifier(0)
    name = f"timm/local-dir:{tmp_path / 'small'}"
    encoder = find_encoder(name)
    check(encoder, name, 64, model)
    assert encoder.licence == "cc-by-9"
    told = capsys.readouterr().err.replace("\n", "")
    assert f"Loading {name}; weights that are not on disk yet are downloaded from the Hugging Face hub." in told
    assert "MB, licence: cc-by-9." in told
    assert find_encoder(name).digest == encoder.digest


def test_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights in torch's folder for downloads are found there; the last linear layer is left out."""
    from torchvision.models import MobileNet_V3_Small_Weights, mobilenet_v3_small

    torch.manual_seed(0)
    model = mobilenet_v3_small().eval()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    place = tmp_path / "hub/checkpoints" / Path(MobileNet_V3_Small_Weights.DEFAULT.url).name
    place.parent.mkdir(parents=True)
    torch.save(model.state_dict(), place)
    encoder = find_encoder("torchvision/mobilenet_v3_small")
    model.classifier[3] = nn.Identity()
    imagenet = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    check(encoder, "torchvision/mobilenet_v3_small", 224, model, **imagenet)
    assert encoder.features == 1024


def test_torchvision_opens_no_pickled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.models import MobileNet_V3_Small_Weights

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    place = tmp_path / "hub/checkpoints" / Path(MobileNet_V3_Small_Weights.DEFAULT.url).name
    place.parent.mkdir(parents=True)
    torch.save({"weights": np.random.default_rng}, place)
    with pytest.raises(UserError, match="cannot be loaded"):
        find_encoder("torchvision/mobilenet_v3_small")


def save_vit(folder: Path, **processing: Any) -> Any:
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes), add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    config = {"image_mean": MEAN, "image_std": STD, "do_normalize": True, **processing}
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    return model


@pytest.mark.parametrize(
    "processing",
    [
        {"size": {"height": 32, "width": 32}},
        {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
        {"size": 32},
    ],
)
def test_hugging_face(tmp_path: Path, processing: dict[str, Any]) -> None:
    """The size is that of the crop where there is one; a model without a pooled output gives its first token."""
    model = save_vit(tmp_path / "vit", **processing)
    (tmp_path / "vit/README.md").write_text("---\nlicense: mit\n---\nA model.\n")
    encoder = find_encoder(f"hf/{tmp_path}/vit")
    check(encoder, f"hf/{tmp_path}/vit", 32, lambda images: model(images).last_hidden_state[:, 0])
    assert encoder.licence == "mit"
    load_once.cache_clear()
    assert find_encoder(f"hf/{tmp_path}/vit").digest == encoder.digest


def test_hugging_face_model_with_missing_weights(tmp_path: Path) -> None:
    """transformers would draw them at random."""
    from safetensors.torch import load_file, save_file

    save_vit(tmp_path / "vit", size=32)
    tensors = load_file(tmp_path / "vit/model.safetensors")
    tensors.popitem()
    save_file(tensors, tmp_path / "vit/model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"has no weights for .*, so it cannot be used as an encoder"):
        find_encoder(f"hf/{tmp_path}/vit")


def test_hugging_face_model_of_pictures_and_texts(tmp_path: Path) -> None:
    from transformers import CLIPConfig, CLIPModel

    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = CLIPConfig(
        text_config={**small, "vocab_size": 50, "bos_token_id": 0, "eos_token_id": 1},
        vision_config={**small, "image_size": 32, "patch_size": 16},
        projection_dim=8,
    )
    torch.manual_seed(0)
    model = CLIPModel(config).eval()
    model.save_pretrained(tmp_path / "clip")
    processing = {"size": 32, "image_mean": MEAN, "image_std": STD}
    (tmp_path / "clip/preprocessor_config.json").write_text(json.dumps(processing))
    encoder = find_encoder(f"hf/{tmp_path}/clip")

    def by_hand(images: Tensor) -> Tensor:
        return model.visual_projection(model.vision_model(pixel_values=images).pooler_output)

    check(encoder, f"hf/{tmp_path}/clip", 32, by_hand)
    assert encoder.licence == "unknown"


def test_hugging_face_runs_no_code_of_a_model(tmp_path: Path) -> None:
    """A model that wants code of its own to be run is refused."""
    folder = tmp_path / "own"
    save_vit(folder, size=32)
    facts = json.loads((folder / "config.json").read_text())
    facts |= {"model_type": "strange", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(facts))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    with pytest.raises(UserError, match="cannot be loaded"):
        find_encoder(f"hf/{folder}")
    assert not (tmp_path / "ran").exists()


def test_open_clip(tmp_path: Path) -> None:
    import open_clip
    from safetensors.torch import save_file

    config = {
        "embed_dim": 8,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 16},
        "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 16, "heads": 2, "layers": 1},
    }
    (tmp_path / "tiny-clip.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-clip.json")
    torch.manual_seed(0)
    model = open_clip.create_model("tiny-clip").eval()
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, tmp_path / "weights.safetensors")
    name = f"open_clip/tiny-clip:{tmp_path}/weights.safetensors"
    clip = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    check(find_encoder(name), name, 32, model.encode_image, **clip)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm/no-such-model", r"the encoder timm/no-such-model cannot be loaded \(.*no-such-model.*\)\."),
        ("torchvision/no-such-model", "torchvision/no-such-model cannot be loaded"),
        ("open_clip/ViT-B-32", "names no weights: write open_clip/MODEL:TAG"),
        ("hf/no/such/folder", "hf/no/such/folder cannot be loaded"),
    ],
)
def test_names_that_lead_nowhere(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")  # pytest restores the filters
    with pytest.raises(UserError, match=message):
        find_encoder(name)


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"timm/resnet18 needs timm: pip install 'fewlabel\[timm\]'"):
        find_encoder("timm/resnet18")
