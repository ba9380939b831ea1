"""Self-contained pages: templates with pictures inside."""

import base64
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from .files import write_atomically


class Shown(NamedTuple):
    """An example in a gallery."""

    name: str
    shown: bytes | str  # a PNG picture, or text
    caption: str


def write_page(path: Path, template: str, contents: dict[str, Any]) -> None:
    environment = Environment(loader=PackageLoader("fewlabel"), autoescape=True, undefined=StrictUndefined)
    environment.filters["data_address"] = data_address
    page = environment.get_template(template).render(contents)
    write_atomically(path, page.encode("utf-8", "surrogateescape"))


def data_address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
