"""What a terminal shows: lines broken between words, commands that can be copied."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from fewlabel.terminal import wrapped


def test_lines_break_between_words() -> None:
    text = "The unlabelled images helped a lot.\n  - first advice that is long\n\nend"
    assert wrapped(text, 20).splitlines() == [
        "The unlabelled",
        "images helped a lot.",
        "  - first advice",
        "    that is long",
        "",
        "end",
    ]


def test_commands_and_paths_stay_whole() -> None:
    text = "To do better: `fewlabel suggest photos --run first -o more.csv` lists them. /a/very/long/path/to/one.csv"
    assert wrapped(text, 24).splitlines() == [
        "To do better:",
        "`fewlabel suggest photos --run first -o more.csv`",
        "lists them.",
        "/a/very/long/path/to/one.csv",
    ]


def test_a_real_terminal(tmp_path: Path) -> None:
    """No word is cut, and the figures below the bar begin with what is looked at."""
    main, side = pty.openpty()
    words = [
        sys.executable,
        "-m",
        "fewlabel",
        "train",
        "digits",
        "--labels-per-class",
        "2",
        "--steps",
        "4",
        "--no-floor",
    ]
    settings = os.environ | {"TERM": "xterm-256color", "COLUMNS": "60", "LINES": "24"}
    process = subprocess.Popen(words, cwd=tmp_path, env=settings, stdout=side, stderr=side)
    os.close(side)
    shown = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    text = shown.decode().replace("\r\n", "\n")
    assert "digits: 1297 training grey images of 8x8, 20 labelled, 10\nclasses; horizontal flips off.\n" in text
    assert "4/4" in text and "  test " in text
