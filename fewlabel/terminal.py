"""Messages and progress bars on the terminal."""

import sys
from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")


class Terminal:
    """Prints messages, unless it is quiet; `live` where a bar can be drawn."""

    def __init__(self, quiet: bool = False, stderr: bool = False) -> None:
        self.console = Console(quiet=quiet, stderr=stderr, soft_wrap=True, highlight=False)
        self.live = self.console.is_terminal and not quiet

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)


def with_progress(items: Iterable[Item], total: int, title: str) -> Iterable[Item]:
    """The items, with a bar on the terminal while they are gone through; no bar where the output is no terminal."""
    return track(items, title, total, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
