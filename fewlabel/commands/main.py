"""`fewlabel`: finds the command, and turns errors into one sentence and an exit code.

A command's module is imported when the command is used, so that `fewlabel --help` answers at once.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from .. import __version__
from ..errors import LostContact, UserError, unknown
from ..files import FULL

FAILED, USAGE_ERROR, INTERRUPTED = 1, 2, 130
COMMANDS = {  # name -> where it is, and its help
    "demo": ("training:demo", "Train on 20 labels of scikit-learn's digits: about a minute, offline."),
    "studio": ("studio:studio", "Label, train, review, audit and export on one page, in your browser."),
    "suggest": ("suggesting:suggest", "Suggest which pictures, texts or rows to label first."),
    "train": ("training:train_for", "Train a classifier; write model, predictions and report."),
    "pretrain": ("training:pretrain_for", "Train a network without labels, for use as --encoder."),
    "repeat": ("training:repeat", "Repeat a run from its recipe.json."),
    "predict": ("models:predict", "Label pictures, texts or rows of a table with a trained model."),
    "evaluate": ("models:evaluate", "Measure the accuracy of a trained model on labelled examples."),
    "audit": ("auditing:audit", "Measure the accuracy of a run's predictions on a few examples that you label."),
    "export": ("models:export", "Export a trained model to ONNX, preprocessing included."),
    "report": ("models:report", "Rewrite the report of a finished run."),
    "methods": ("methods:methods", "List the methods with their settings, or describe one method."),
    "encoders": ("encoders:encoders", "List the pre-trained encoders and how to install them."),
    "cache": ("encoders:cache", "Show or clear the cache of decoded pictures and features."),
    "drift": ("drift:drift", "Find augmentations that change the meaning of your pictures."),
}
WITH_METHOD = ("train", "pretrain")  # whose options depend on the method
PAPER = "paper"
PAPER_COMMANDS = {
    "list": ("paper:list_exhibits", "List the tables and figures."),
    "run": ("paper:run", "Run the experiments behind a table or figure; finished runs are skipped."),
    "show": ("paper:show", "Print a table, ours beside the paper's, or draw a figure as PNG and SVG."),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    words = ["--help"] if words == ["help"] else words
    try:
        if words and not words[0].startswith("-") and words[0] not in (*COMMANDS, PAPER):
            raise unknown("command", words[0], (*COMMANDS, PAPER))  # cyclopts would import all of them first
        make_app(words)(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        return USAGE_ERROR if words in ([], [PAPER]) else 0
    except CycloptsError as error:
        known = (*COMMANDS, PAPER, *(PAPER_COMMANDS if words[:1] == [PAPER] else ()))
        name = "".join(f"{word} " for word in words[:2] if word in known)
        print(f"fewlabel: {on_one_line(str(error))} See `fewlabel {name}--help`.", file=sys.stderr)
        return USAGE_ERROR
    except UserError as error:
        if not error.shared or os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"fewlabel: {on_one_line(str(error))}", file=sys.stderr)
        return FAILED if isinstance(error, LostContact) else USAGE_ERROR
    except KeyboardInterrupt as stop:  # also Interrupted, which says what was saved
        if os.environ.get("RANK", "0") == "0":
            print(f"fewlabel: {str(stop) or 'stopped.'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left
        drop_output()
        return FAILED
    except OSError as error:  # a file that may not be read, say
        if error.errno in FULL:
            where = error.filename or "a file or the output could not be written"
            print(f"fewlabel: {where}: {error.strerror}: free some space, then run the command again.", file=sys.stderr)
            drop_output()
            return USAGE_ERROR
        if error.filename is None:
            raise
        print(f"fewlabel: {error.filename}: {error.strerror}.", file=sys.stderr)
        return USAGE_ERROR


def drop_output() -> None:
    """Give up on output that cannot be written, so that Python does not report it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def on_one_line(message: str) -> str:
    """Names in a message may contain line breaks or terminal control codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in message)


def shown_default(value: object) -> str | None:
    """Whether the help shows the default."""
    return None if value is None or value is False or value == "" else str(value)


def make_app(words: Sequence[str]) -> App:
    """All commands; `train` and `pretrain` have options for the settings of the method that the words ask for."""
    app = App(
        name="fewlabel",
        help="fewlabel trains a classifier from a handful of labels and everything you never labelled.\n\n"
        "New here? Run `fewlabel demo`.",
        version=f"fewlabel {__version__}",
        help_flags=["--help", "-h"],
        version_flags=["--version"],
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # main() tells what was saved
        default_parameter=Parameter(show_default=shown_default),
    )
    about_paper = "The paper's tables and figures: list, run and show them."
    paper = App(name=PAPER, help=about_paper, sort_key=len(COMMANDS))
    for group, commands in ((app, COMMANDS), (paper, PAPER_COMMANDS)):
        for position, (name, (place, text)) in enumerate(commands.items()):
            if name in WITH_METHOD and next((word for word in words if not word.startswith("-")), "") == name:
                from .training import pretrain_for, train_for

                text = f"{text}\n\nUse --method NAME --help for the settings of another method."
                command_for = train_for if name == "train" else pretrain_for
                own = command_for([word for word in words if word != name])
                group.command(own, name=name, help=text, sort_key=position)
            else:
                group.command(f"fewlabel.commands.{place}", name=name, help=text, sort_key=position)
    app.command(paper)
    return app
