"""Encoders of other libraries: timm/NAME, torchvision/NAME, hf/ORG/NAME, open_clip/MODEL:TAG.

Each uses the size, mean and std of the library's own configuration. Weights are tensors, never pickled
objects, and no code of a model's repository is run. What is not on disk yet is downloaded by the library.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..terminal import Terminal
from .encoder import Colour, Encoder, count_features, weights_digest


class Found(NamedTuple):
    """A network of another library as that library configures it."""

    module: nn.Module
    size: int
    mean: Colour  # on the scale 0 to 1
    std: Colour
    licence: str


def load_timm(name: str) -> Found:
    """`num_classes=0` leaves out the head; the configuration of the pre-trained weights has size, mean and std."""
    import timm
    from timm.data import resolve_model_data_config

    module = timm.create_model(name, pretrained=True, num_classes=0)
    config = resolve_model_data_config(module)
    licence = dict(module.pretrained_cfg or {}).get("license") or "unknown"
    return Found(module, config["input_size"][-1], colour(config["mean"]), colour(config["std"]), licence)


def load_torchvision(name: str) -> Found:
    """The default weights; the last linear layer, which tells ImageNet's classes, is left out."""
    from torchvision.models import get_model, get_model_weights

    weights = get_model_weights(name).DEFAULT
    transforms = weights.transforms()
    tensors = torch.hub.load_state_dict_from_url(
        weights.url, map_location="cpu", check_hash=True, weights_only=True, progress=False
    )
    module = get_model(name, weights=None)
    module.load_state_dict(tensors)
    linear = [place for place, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise UserError(f"torchvision/{name} does not end in a linear layer, so its features cannot be taken.")
    parent, _, last = linear[-1].rpartition(".")
    setattr(module.get_submodule(parent), last, nn.Identity())
    size = transforms.crop_size[0] if isinstance(transforms.crop_size, list) else transforms.crop_size
    return Found(module, size, colour(transforms.mean), colour(transforms.std), "see torchvision's documentation")


class HuggingFaceFeatures(nn.Module):
    """One row per picture: the image features, the pooled output or the first token, whichever the model has."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        if hasattr(self.model, "get_image_features"):
            output = self.model.get_image_features(pixel_values=images)
        else:
            output = self.model(pixel_values=images)
        if isinstance(output, Tensor):
            return output
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        hidden = output.last_hidden_state
        return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))


def load_hf(name: str) -> Found:
    """Load a model of the Hugging Face hub, or of a folder that `save_pretrained` wrote."""
    from transformers import AutoModel
    from transformers.image_processing_base import ImageProcessingMixin

    config, _ = ImageProcessingMixin.get_image_processor_dict(name)
    model, found = AutoModel.from_pretrained(
        name, trust_remote_code=False, use_safetensors=True, output_loading_info=True
    )
    if lacking := [key for key in found["missing_keys"] if not key.startswith("pooler.")]:
        raise UserError(f"hf/{name} has no weights for {lacking[0]}, so it cannot be used as an encoder.")
    if found["missing_keys"]:  # which were drawn at random
        model.pooler = None
    crop = config.get("crop_size") if config.get("do_center_crop") else None
    mean, std = colour(config.get("image_mean") or (0.5,) * 3), colour(config.get("image_std") or (0.5,) * 3)
    if config.get("do_normalize") is False:
        mean, std = (0.0,) * 3, (1.0,) * 3
    return Found(HuggingFaceFeatures(model), side(crop or config["size"]), mean, std, hub_licence(name))


def side(size: Any) -> int:
    """The picture size, in any form of the configuration."""
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge") or size.get("longest_edge")
    return int(size)


def hub_licence(name: str) -> str:
    """The licence from the model card, if it names one."""
    from huggingface_hub import ModelCard

    try:
        card = Path(name, "README.md")
        return str((ModelCard.load(card if Path(name).is_dir() else name).data.license) or "unknown")
    except Exception:  # no card, or no network
        return "unknown"


class ImagesOnly(nn.Module):
    """The half of a model of pictures and texts that encodes pictures."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model.encode_image(images)


def load_open_clip(name: str) -> Found:
    """MODEL:TAG, as `open_clip.list_pretrained()` has them; TAG may also be a file of weights."""
    import open_clip

    model_name, separator, tag = name.partition(":")
    if not separator:
        raise UserError(f"open_clip/{name} names no weights: write open_clip/MODEL:TAG.")
    model = open_clip.create_model(model_name, pretrained=tag)
    config = open_clip.get_model_preprocess_cfg(model)
    size = config["size"][0] if isinstance(config["size"], tuple | list) else config["size"]
    return Found(ImagesOnly(model), size, colour(config["mean"]), colour(config["std"]), "see the model's page")


class Library(NamedTuple):
    load: Callable[[str], Found]
    module: str  # that it needs
    example: str  # of a name
    about: str
    install: str
    source: str  # from where it downloads


HUB = "the Hugging Face hub"
LIBRARIES = {
    "timm": Library(
        load_timm, "timm", "timm/NAME", "any pre-trained model of timm", "pip install 'fewlabel[timm]'", HUB
    ),
    "torchvision": Library(
        load_torchvision,
        "torchvision",
        "torchvision/NAME",
        "a classification model of torchvision",
        "pip install torchvision",
        "torchvision's server",
    ),
    "hf": Library(
        load_hf, "transformers", "hf/ORG/NAME", "a model of the Hugging Face hub", "pip install 'fewlabel[hf]'", HUB
    ),
    "open_clip": Library(
        load_open_clip,
        "open_clip",
        "open_clip/MODEL:TAG",
        "the picture half of a CLIP model",
        "pip install 'fewlabel[open_clip]'",
        "the source that open_clip names",
    ),
}


def load_from_library(prefix: str, name: str) -> Encoder:
    """The encoder PREFIX/NAME."""
    library, full = LIBRARIES[prefix], f"{prefix}/{name}"
    terminal = Terminal(stderr=True)
    terminal.say(f"Loading {full}; weights that are not on disk yet are downloaded from {library.source}.")
    with one_sentence(full, library):
        found = library.load(name)
    module = found.module.eval().requires_grad_(False).float()
    megabytes = sum(tensor.numel() for tensor in module.state_dict().values()) * 4 / 1e6
    terminal.say(f"{full}: {megabytes:.0f} MB, licence: {found.licence}.")
    return Encoder(
        full,
        module.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        found.size,
        scaled(found.mean),
        scaled(found.std),
        count_features(full, module, found.size),
        weights_digest(module),
        found.licence,
    )


@contextmanager
def one_sentence(name: str, library: Library) -> Iterator[None]:
    """Turn any error of another library into one sentence."""
    try:
        yield
    except UserError:
        raise
    except ModuleNotFoundError as error:
        raise UserError(f"the encoder {name} needs {error.name}: {library.install}.") from error
    except Exception as error:  # libraries and their downloads fail in every way there is
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"the encoder {name} cannot be loaded ({reason}).") from error


def colour(values: Any) -> Colour:
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def scaled(values: Colour) -> Colour:
    """Convert from the scale 0 to 1 to that of pixels."""
    return colour(255 * value for value in values)
