"""Find an encoder by name."""

from functools import cache
from pathlib import Path

from ..errors import UserError, unknown
from .encoder import Encoder
from .libraries import LIBRARIES, load_from_library
from .listed import ENCODERS, MINILM, NONE
from .lite import load_lite
from .onnx_file import load_onnx
from .run import load_run_encoder


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
    """The name, with the full path of a file or a run directory."""
    prefix, _, rest = name.partition("/")
    if name in (NONE, MINILM) or name in ENCODERS or (prefix in LIBRARIES and rest):
        return name
    return str(Path(name).resolve()) if Path(name).exists() else name
