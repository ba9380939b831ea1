"""encoders, cache: pre-trained encoders by name, and the cache of their features."""

from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from ..caching import cache_parts, clear_cache
from ..decode import cache_folder
from ..encoders import ENCODERS, LIBRARIES, minilm
from ..encoders.listed import LICENCE, MINILM, TEXT, is_installed
from ..encoders.onnx_file import INSTALL as EXPORT
from ..encoders.texts import INSTALL
from ..errors import unknown

TEXTS = "sentence-transformers/NAME"


def encoders() -> None:
    """List the pre-trained encoders and how to install them."""
    table, others = Table("name", "input", "features", "size", "licence", "installed"), Table("name", "", "installed")
    missing: dict[str, list[str]] = {}  # how to get it -> names

    def installed(name: str, there: bool, install: str) -> str:
        if not there:
            missing.setdefault(install, []).append(name)
        return "yes" if there else "no"

    for one in ENCODERS.values():
        there = installed(one.name, one.installed, one.install)
        table.add_row(one.name, f"{one.size}x{one.size}", str(one.features), f"{one.megabytes} MB", one.licence, there)
    there = installed(MINILM, is_installed(MINILM), TEXT)
    table.add_row(MINILM, "texts", str(minilm.FEATURES), f"{minilm.MEGABYTES} MB", LICENCE, there)
    for library in LIBRARIES.values():
        there = installed(library.example, find_spec(library.module) is not None, library.install)
        others.add_row(library.example, library.about, there)
    there = installed(TEXTS, find_spec("sentence_transformers") is not None, INSTALL)
    others.add_row(TEXTS, "texts: a model of sentence-transformers (also hf/ORG/NAME)", there)
    there = installed("FILE.onnx", find_spec("onnxruntime") is not None, EXPORT)
    others.add_row("FILE.onnx", "your own model in an ONNX file", there)
    others.add_row("RUN", "the network of a finished run", "yes")
    others.add_row("none", "no encoder: train from scratch", "yes")
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    console.print(others)
    for install, names in missing.items():
        console.print(f"To get {', '.join(names)}: {install}", markup=False)
    console.print("Those of the second table that are libraries download weights when they are used.", markup=False)


def cache(
    action: Annotated[str | None, Parameter(help="`clear` deletes everything in the cache")] = None,
    /,
) -> None:
    """Show or clear the cache of decoded pictures and features. It is rebuilt when needed."""
    if action not in (None, "clear"):
        raise unknown("action", str(action), ["clear"])
    console = Console(soft_wrap=True, highlight=False)
    if action == "clear":
        freed = clear_cache()
        console.print(f"{freed / 1e6:.1f} MB removed from {cache_folder()}", markup=False)
        return
    table = Table("what", "entries", "MB")
    parts = cache_parts()
    for part in parts:
        table.add_row(part.title, str(part.entries), f"{part.size / 1e6:.1f}")
    console.print(table)
    console.print(f"In {cache_folder()}. `fewlabel cache clear` empties it.", markup=False)
