"""From the name of an encoder to the encoder."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import UserError, unknown
from .efficientnet_lite import FEATURES, VARIANTS
from .encoder import Encoder
from .libraries import LIBRARIES, load_from_library
from .lite import LICENCE, PHOTOS, is_installed, load_lite
from .minilm import NAME as MINILM
from .onnx_file import load_onnx
from .run import load_run_encoder

NONE = "none"  # train from scratch


@dataclass(frozen=True)
class Listed:
    """What is known of an encoder before it is loaded."""

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


def find_encoder(name: str) -> Encoder:
    """Looked up in this order: our own names, a library's prefix, an ONNX file, a run directory; `./` forces a path."""
    name = full_name(name)  # so that other processes find it too, wherever they are at work
    path, (prefix, _, rest) = Path(name), name.partition("/")
    if name in ENCODERS:
        return load_lite(name)
    if prefix in LIBRARIES and rest:
        return load_once(prefix, rest)
    if path.suffix == ".onnx":
        return load_onnx(path)
    if (path / "model.json").exists():
        return load_run_encoder(name, path)
    if name == MINILM:
        raise UserError(f"the encoder {MINILM} is for texts: name the column of a file that holds them, --text-column.")
    others = [library.example for library in LIBRARIES.values()]
    raise unknown("encoder", name, [NONE, *ENCODERS, *others, "FILE.onnx", "RUN"])


@cache
def load_once(prefix: str, rest: str) -> Encoder:
    return load_from_library(prefix, rest)


def full_name(name: str) -> str:
    """The name from wherever one looks it up: with the full path of a file or a run directory."""
    prefix, _, rest = name.partition("/")
    if name in (NONE, MINILM) or name in ENCODERS or (prefix in LIBRARIES and rest):
        return name
    return str(Path(name).resolve()) if Path(name).exists() else name
