"""A bar for work that takes long."""

import sys
from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")


def with_progress(items: Iterable[Item], total: int, title: str) -> Iterable[Item]:
    """The items, with a bar on the terminal while they are gone through; no bar where the output is no terminal."""
    return track(items, title, total, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
