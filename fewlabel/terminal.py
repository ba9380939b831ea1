"""Messages and progress, on the terminal or to listeners."""

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Listener = Callable[[str, int, int], None]  # title, how many are done, of how many
NARROW = 20  # columns: lines of narrower terminals are left alone
GLUE = "\0"  # in place of spaces at which no line breaks
LISTENERS: list[Listener] = []  # hear of progress in this process instead of the terminal


class Terminal:
    """Prints messages, unless it is quiet; `live` where a bar can be drawn."""

    def __init__(self, quiet: bool = False, stderr: bool = False) -> None:
        from rich.console import Console  # slow

        self.console = Console(quiet=quiet, stderr=stderr, soft_wrap=True, highlight=False)
        self.live = self.console.is_terminal and not quiet

    def say(self, text: str, whole: bool = False) -> None:
        """`whole`: without line breaks, so that a path in it can be copied."""
        width = self.console.width
        wraps = self.live and self.console.file.isatty() and width >= NARROW and not whole
        self.console.print(wrapped(text, width) if wraps else text, markup=False)


def wrapped(text: str, width: int) -> str:
    """Broken between words; a command in backticks stays whole, to be copied."""
    lines = []
    for line in text.split("\n"):
        whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", GLUE), line)
        inner = " " * (len(line) - len(line.lstrip(" -")))
        lines += textwrap.wrap(
            whole, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines).replace(GLUE, " ")


def with_progress(items: Iterable[Item], total: int, title: str) -> Iterable[Item]:
    """The items, with a bar on the terminal while they are gone through; no bar where the output is no terminal."""
    if LISTENERS:
        return heard(items, total, title)
    from rich.console import Console
    from rich.progress import track

    return track(items, title, total, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def heard(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    for done, item in enumerate(items, 1):
        yield item
        for listener in LISTENERS:
            listener(title, done, total)
