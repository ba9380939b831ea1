"""What a terminal shows: lines broken between words, commands that can be copied."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fewlabel.terminal import Terminal, wrapped


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


def test_what_is_no_terminal_is_not_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where colours are forced, as on many machines that run tests."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    terminal = Terminal()
    assert terminal.live
    terminal.say("word " * 20)
    assert capsys.readouterr().out == "word " * 20 + "\n"


def test_a_real_terminal(tmp_path: Path) -> None:
    """No word is cut, and the figures below the bar begin with what is looked at."""
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
    words += ["--out", "a folder with a long name/another folder with a long name"]
    shown = shown_by(words, tmp_path, 60)
    assert "digits: 1297 training grey images of 8x8, 20 labelled, 10\nclasses; horizontal flips off.\n" in shown
    assert "4/4" in shown and "  test " in shown
    assert "Report: a folder with a long name/another folder with a long name/report.html\n" in shown


def test_a_terminal_too_narrow_for_words(tmp_path: Path) -> None:
    code = "from fewlabel.terminal import Terminal; Terminal().say('one two three four five six')"
    assert shown_by([sys.executable, "-c", code], tmp_path, 5) == "one two three four five six\n"


def shown_by(words: list[str], place: Path, width: int) -> str:
    main, side = pty.openpty()
    settings = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "24"}
    process = subprocess.Popen(words, cwd=place, env=settings, stdout=side, stderr=side)
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
    assert process.wait() == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")
