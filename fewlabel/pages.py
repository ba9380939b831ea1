"""Self-contained pages: templates with pictures inside."""

import base64
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from .files import write_atomically

MARK = b'<meta name="generator" content="fewlabel">'  # in the head of every page


class Shown(NamedTuple):
    """An example in a gallery."""

    name: str
    shown: bytes | str  # a PNG picture, or text
    caption: str


def write_page(path: Path, template: str, contents: dict[str, Any]) -> None:
    environment = Environment(loader=PackageLoader("fewlabel"), autoescape=True, undefined=StrictUndefined)
    environment.filters["data_address"] = data_address
    environment.filters["with_code"] = with_code
    page = environment.get_template(template).render(contents)
    write_atomically(path, page.encode("utf-8", "surrogateescape"))


def is_foreign(page: Path) -> bool:
    """Whether there is a file that fewlabel did not write, which must not be replaced."""
    if not page.exists():
        return False
    with open(page, "rb") as file:
        return MARK not in file.read(1000)


def with_code(text: str) -> Markup:
    """The text as HTML, with what stands between backticks as code, whose words are not broken at a hyphen."""
    parts = [as_code(part) if k % 2 else escape(part) for k, part in enumerate(text.split("`"))]
    return Markup("").join(parts)


def as_code(text: str) -> Markup:
    words = (Markup("<span>{}</span>").format(word) for word in text.split(" "))
    return Markup("<code>{}</code>").format(Markup(" ").join(words))


def data_address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
