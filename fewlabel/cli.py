"""The commands. torch is imported by the command that needs it, so that `fewlabel --help` answers at once."""

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from . import __version__
from .errors import UserError, unknown
from .recipe import Recipe

USAGE_ERROR, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if words else USAGE_ERROR
    if words[0] == "--version":
        print(f"fewlabel {__version__}")
        return 0
    try:
        if words[0] not in COMMANDS:
            raise unknown("command", words[0], COMMANDS)
        return run(words[0], words[1:])
    except UserError as error:
        print(f"fewlabel: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as stop:  # also the loop's own, which says what was saved
        print(f"fewlabel: {stop or 'stopped.'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:{width}}{summary(command)}" for name, command in COMMANDS.items())
    return (
        "fewlabel trains a classifier from two labels per class and everything you never labelled.\n\n"
        f"Usage: fewlabel COMMAND ...\n\n{commands}\n\n"
        "fewlabel COMMAND --help tells more; fewlabel --version the version.\n"
        "New here? Run `fewlabel demo`."
    )


def summary(command: Callable[..., Any]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]


def run(name: str, words: list[str]) -> int:
    """Parse the words after the command by its signature, and call it."""
    from cyclopts import App, CycloptsError, Parameter

    command = train_command(words) if name == "train" else described(COMMANDS[name])
    app = App(
        name=f"fewlabel {name}",
        help_flags=["--help", "-h"],
        version_flags=[],
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # main() says what was saved
        default_parameter=Parameter(show_default=lambda value: None if value is None or value is False else str(value)),
    )
    app.default(command)
    try:
        app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        raise UserError(f"{error} See `fewlabel {name} --help`.") from error
    return 0


# ---- the commands


def demo(
    *,
    seed: Annotated[int, "of everything random, also of which 20 images are labelled"] = 0,
    out: Annotated[str | None, "run directory; default runs/demo-SEED, which is replaced"] = None,
    overwrite: Annotated[bool, "replace the run in --out"] = False,
) -> None:
    """Train on 20 labels of scikit-learn's digits: a minute or two, offline."""
    from rich.console import Console
    from rich.table import Table

    from .demo import demo as run_demo

    result = run_demo(seed, out, overwrite=overwrite)
    table = Table("20 labels, 500 test images", "accuracy")
    table.add_row("the labels alone (same network)", f"{result.labels_alone:.1%}")
    table.add_row("scikit-learn's LabelSpreading", f"{result.label_spreading:.1%}")
    table.add_row("ICL-SSL with distribution alignment", f"{result.icl_ssl:.1%}")
    console = Console()
    console.print(table)
    console.print(f"The report with pictures: {result.run.directory / 'report.html'}", soft_wrap=True)


def train(recipe: Recipe, resume: bool, overwrite: bool, words: Sequence[str]) -> None:
    """Train a classifier; write model, predictions and report."""
    from .loop import Interrupted
    from .loop import train as run_train

    try:
        run_train(recipe, resume=resume, overwrite=overwrite)
    except Interrupted as stop:
        again = [word for word in words if word not in ("--resume", "--overwrite")]
        command = shlex.join(["fewlabel", "train", *again, "--resume"])
        raise KeyboardInterrupt(f"{stop} Continue with: {command}") from stop


def evaluate(
    run: Annotated[str, "directory of a finished run"],
    data: Annotated[str, "folder with one subfolder per class, or .npz file or data set with a test part"],
    /,
    *,
    root: Annotated[str | None, "where the official files of a named data set lie"] = None,
    labels: Annotated[str | None, "CSV file with the header file,label for pictures of the folder"] = None,
    device: Annotated[str | None, "cpu, cuda or mps; default the best there is"] = None,
) -> None:
    """Say how often a trained model is right on labelled pictures."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from .checkpoint import RunDirectory
    from .data import load_test
    from .evaluate import accuracy, confusion, probabilities
    from .plan import choose_device

    network, model = RunDirectory(Path(run)).read_model(choose_device(device))
    images = load_test(
        data, root, labels=labels, classes=model["classes"], channels=model["channels"], size=model["size"]
    )
    guess = probabilities(network, images.pixels).argmax(1)
    counts = confusion(guess, images.labels, len(images.classes))
    table = Table("class", "images", "recognised")
    for name, row, right in zip(images.classes, counts.sum(1).tolist(), counts.diagonal().tolist(), strict=True):
        table.add_row(Text(name), str(row), f"{right / row:.1%}" if row else "")
    console = Console()
    console.print(table)
    console.print(f"Accuracy: {accuracy(guess, images.labels):.2%} of {int(counts.sum())} images")
    if images.skipped:
        first = next(iter(images.skipped))
        console.print(f"{len(images.skipped)} pictures could not be read, beginning with {first}.", markup=False)


def predict(
    run: Annotated[str, "directory of a finished run"],
    path: Annotated[str, "folder of pictures, or one picture"],
    /,
    *,
    output: Annotated[
        str, "the table: file, label, confidence and one column for each class", "-o"
    ] = "predictions.csv",
    device: Annotated[str | None, "cpu, cuda or mps; default the best there is"] = None,
) -> None:
    """Label a folder of pictures (or one picture) with a trained model."""
    from .checkpoint import RunDirectory
    from .plan import choose_device
    from .predict import predict as run_predict
    from .predict import write_predictions

    if not Path(output).absolute().parent.is_dir():
        raise UserError(f"there is no folder {Path(output).absolute().parent} for --output.")
    network, model = RunDirectory(Path(run)).read_model(choose_device(device))
    if model["channels"] != 3:
        raise UserError(f"the model in {run} was trained on single-channel arrays and cannot label picture files.")
    names, guesses, skipped = run_predict(network, Path(path), model["size"])
    write_predictions(Path(output), names, guesses, model["classes"], skipped)
    print(f"{len(names)} pictures labelled, {len(skipped)} could not be read: {output}")


def methods(name: Annotated[str | None, "all about this one"] = None, /) -> None:
    """List the methods with their settings, or tell all about one."""
    from rich.console import Console
    from rich.table import Table

    from .methods import ALIASES, METHODS, TERMS, parts_of, settings_of

    console = Console(highlight=False)
    chosen = {**METHODS, **TERMS}
    if name:
        chosen = {name: TERMS[name]} if name in TERMS else parts_of(name)
    for part, kind in chosen.items():
        console.print(
            f"[bold]{'+' if part in TERMS else ''}{part}[/]  {summary(kind)}  [dim]{kind.paper}[/]", soft_wrap=True
        )
        table = Table(box=None, show_header=False, padding=(0, 2))
        for setting, parameter in settings_of(kind).items():
            table.add_row(f"  --{part}.{setting}", str(parameter.default), help_of(parameter.annotation)[0])
        if table.row_count:
            console.print(table)
        if name:
            console.print(f"    The code: {kind.__module__.replace('.', '/')}.py")
    if name:
        console.print(cost(f"fixmatch+{name}" if name in TERMS else name), soft_wrap=True)
    else:
        for alias, meaning in ALIASES.items():
            console.print(f"[bold]{alias}[/]  is another name of {meaning}")
        console.print(
            f"\n{' and '.join(f'+{term}' for term in TERMS)} may follow every other name: mixmatch+icl. "
            "`fewlabel methods NAME` tells more about one.",
            soft_wrap=True,
        )


def cost(method: str) -> str:
    """What a step of a method comes to, by taking one on blank images."""
    import torch

    from .data import Dataset, Images
    from .plan import make_plan
    from .training import Training

    blank = Images(torch.zeros(8, 1, 8, 8, dtype=torch.uint8), torch.arange(8) % 2, ("a", "b"), ("",) * 8)
    dataset = Dataset("blank", blank, None, flip=False)
    recipe = Recipe(method=method, network="mlp", device="cpu")
    training = Training(make_plan(recipe, dataset), dataset)
    taken, passes = training.advance(0), training.method.passes
    return (
        f"A step of {method} takes {taken.images} images through the network (batch {recipe.batch}, mu {recipe.mu}) "
        f"in {passes} pass{'es' if passes > 1 else ''}; its loss is the sum of: {', '.join(taken.terms)}.\n"
        f"Try it: fewlabel train digits --labels-per-class 2 --method {method}"
    )


COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "train": train,
    "predict": predict,
    "evaluate": evaluate,
    "methods": methods,
}


# ---- options are derived from annotations: the type, then the help, then the short name (in a command) or the group
# that the help shows it in (in Recipe)


def described(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with its annotations in the form that the parser reads."""
    from cyclopts import Parameter

    def parameter(entry: inspect.Parameter) -> inspect.Parameter:
        kind, text, *short = get_args(entry.annotation)
        return entry.replace(annotation=Annotated[kind, Parameter(help=text, alias=short)])

    @functools.wraps(command)
    def wrapped(*values: Any, **options: Any) -> Any:
        return command(*values, **options)

    return with_parameters(wrapped, [parameter(entry) for entry in inspect.signature(command).parameters.values()])


def with_parameters(command: Callable[..., Any], parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {entry.name: entry.annotation for entry in parameters}
    return command


def train_command(words: Sequence[str]) -> Callable[..., None]:
    """`train` with one option for each field of Recipe and for each setting of the method that `words` ask for."""
    from cyclopts import Group, Parameter

    from .methods import parts_of, settings_of

    groups = {name: Group(name, sort_key=i) for i, name in enumerate(("Data", "Training", "Machine"))}

    def option(name: str, annotation: Any, default: Any, flag: str, group: Group, **more: Any) -> inspect.Parameter:
        text, _ = help_of(annotation)
        kind: Any = get_args(annotation)[0]
        annotated: Any = Annotated[kind, Parameter(name=flag, help=text, group=group, **more)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated)

    hints = get_type_hints(Recipe, include_extras=True)
    options = [
        inspect.Parameter(
            "data",
            inspect.Parameter.POSITIONAL_ONLY,
            annotation=Annotated[str, Parameter(help=help_of(hints["data"])[0])],
        )
    ]
    for entry in fields(Recipe):
        if entry.name not in ("data", "settings"):
            group = groups[help_of(hints[entry.name])[1]]
            flag = f"--{entry.name.replace('_', '-')}"
            options.append(option(entry.name, hints[entry.name], entry.default, flag, group))
    for name, text in (("resume", "continue the run in --out"), ("overwrite", "replace the run in --out")):
        options.append(option(name, Annotated[bool, text, ""], False, f"--{name}", groups["Machine"], negative=""))
    settings: dict[str, str] = {}
    for part, kind in parts_of(chosen_method(words)).items():
        for setting, parameter in settings_of(kind).items():
            settings[key := f"{part}__{setting}"] = full = f"{part}.{setting}"
            group = Group(f"Settings of {part}", sort_key=len(groups))
            options.append(option(key, parameter.annotation, parameter.default, f"--{full}", group))

    def command(data: str, **values: Any) -> None:
        flags = {name: values.pop(name, False) for name in ("resume", "overwrite")}
        chosen = {settings[key]: values.pop(key) for key in list(values) if key in settings}
        train(Recipe(data=data, settings=chosen, **values), **flags, words=words)

    command.__doc__ = f"{summary(train)}\n\nThe settings of another method are shown by --method NAME --help."
    return with_parameters(command, options)


def help_of(annotation: Any) -> tuple[str, str]:
    """Help and group out of Annotated[type, help] or Annotated[type, help, group]."""
    _, text, *group = get_args(annotation)
    return text, group[0] if group else ""


def chosen_method(words: Sequence[str]) -> str:
    """What --method says, before the rest can be parsed."""
    for position, word in enumerate(words):
        if word == "--method" and position + 1 < len(words):
            return words[position + 1]
        if word.startswith("--method="):
            return word.partition("=")[2]
    return Recipe.method
