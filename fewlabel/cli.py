"""The commands. torch is imported by the command that needs it, so that `fewlabel --help` answers at once."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from . import __version__
from .errors import LostContact, UserError, unknown
from .files import make_folder
from .options import described, help_of, of_recipe
from .recipe import Recipe

FAILED, USAGE_ERROR, INTERRUPTED = 1, 2, 130


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
        if words[0] == "paper":
            if len(words) < 2 or words[1] in ("-h", "--help"):
                print(f"{summary(paper)}\n\nUsage: fewlabel paper COMMAND ...\n\n{listing(PAPER)}")
                return 0 if len(words) > 1 else USAGE_ERROR
            if words[1] not in PAPER:
                raise unknown("command of `fewlabel paper`", words[1], PAPER)
            return run(f"paper {words[1]}", PAPER[words[1]], words[2:])
        return run(words[0], COMMANDS[words[0]], words[1:])
    except UserError as error:
        if not error.shared or os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"fewlabel: {error}", file=sys.stderr)
        return FAILED if isinstance(error, LostContact) else USAGE_ERROR
    except KeyboardInterrupt as stop:  # also the loop's own, which says what was saved
        if os.environ.get("RANK", "0") == "0":
            print(f"fewlabel: {str(stop) or 'stopped.'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # a file that may not be read, say
        if error.filename is None:
            raise
        print(f"fewlabel: {error.filename}: {error.strerror}.", file=sys.stderr)
        return USAGE_ERROR


def overview() -> str:
    return (
        "fewlabel trains a classifier from two labels per class and everything you never labelled.\n\n"
        f"Usage: fewlabel COMMAND ...\n\n{listing(COMMANDS)}\n\n"
        "fewlabel COMMAND --help tells more; fewlabel --version the version.\n"
        "New here? Run `fewlabel demo`."
    )


def listing(commands: Mapping[str, Callable[..., Any]]) -> str:
    width = max(map(len, commands)) + 2
    return "\n".join(f"  {name:{width}}{summary(command)}" for name, command in commands.items())


def summary(command: Callable[..., Any]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]


def run(name: str, function: Callable[..., Any], words: list[str]) -> int:
    """Parse the words after the command by its signature, and call it."""
    from cyclopts import App, CycloptsError, Parameter

    command = of_recipe(train, words) if function is train else described(function)
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
    """Train on 20 labels of scikit-learn's digits: about a minute, offline."""
    from rich.console import Console
    from rich.table import Table

    from .demo import demo as run_demo

    try:
        result = run_demo(seed, out, overwrite=overwrite)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("stopped; the demo is short, so it does not resume but begins anew.") from stop
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
        raise to_be_continued(stop, ["train", *again]) from stop


def to_be_continued(stop: KeyboardInterrupt, words: Sequence[str]) -> KeyboardInterrupt:
    """The same interrupt, with the command that goes on."""
    launcher = "torchrun as before, -m " if "TORCHELASTIC_RUN_ID" in os.environ else ""
    return KeyboardInterrupt(f"{stop} Continue with: {launcher}{shlex.join(['fewlabel', *words, '--resume'])}")


def repeat(
    run: Annotated[str, "directory of a run, finished or not"],
    /,
    *,
    out: Annotated[str, "run directory of the new one"],
    seed: Annotated[int | None, "another seed; default the same"] = None,
    root: Annotated[str | None, "where the official files of a named data set lie; default as before"] = None,
    device: Annotated[str | None, "cpu, cuda or mps; default as before"] = None,
    threads: Annotated[int | None, "CPU threads; default as many as before"] = None,
    resume: Annotated[bool, "continue the run in --out"] = False,
    overwrite: Annotated[bool, "replace the run in --out"] = False,
) -> None:
    """Train again as a run was trained, from its recipe.json."""
    from .checkpoint import RunDirectory
    from .loop import Interrupted, repeated
    from .loop import train as run_train

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("a run is repeated by one process: leave torchrun out.")
    given = {"out": out, "seed": seed, "root": root, "device": device, "threads": threads}
    changes = {name: value for name, value in given.items() if value is not None}
    try:
        run_train(*repeated(RunDirectory(Path(run)), **changes), resume=resume, overwrite=overwrite)
    except Interrupted as stop:
        again = [word for name, value in changes.items() for word in (f"--{name}", str(value))]
        raise to_be_continued(stop, ["repeat", run, *again]) from stop


def evaluate(
    run: Annotated[str, "directory of a finished run"],
    data: Annotated[str, "folder with one subfolder per class, or .npz file or data set with a test part"],
    /,
    *,
    root: Annotated[str | None, "where the official files of a named data set lie"] = None,
    labels: Annotated[str | None, "CSV file with the header file,label for pictures of the folder"] = None,
    device: Annotated[str | None, "cpu, cuda or mps; default the best there is"] = None,
    calibrate: Annotated[
        bool, "make the model's confidence fit these pictures (temperature scaling), and keep it so"
    ] = False,
) -> None:
    """Say how often a trained model is right on labelled pictures."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from .checkpoint import RunDirectory
    from .data import load_test
    from .evaluate import calibration_error, confusion, cross_fitted_error, fit_temperature, probabilities, wilson
    from .plan import choose_device

    directory = RunDirectory(Path(run))
    network, model = directory.read_model(choose_device(device))
    images = load_test(
        data, root, labels=labels, classes=model["classes"], channels=model["channels"], size=model["size"]
    )
    guesses = probabilities(network, images.pixels)
    counts = confusion(guesses.argmax(1), images.labels, len(images.classes))
    table = Table("class", "images", "recognised")
    for name, row, right in zip(images.classes, counts.sum(1).tolist(), counts.diagonal().tolist(), strict=True):
        table.add_row(Text(name), str(row), f"{right / row:.1%}" if row else "")
    console = Console()
    console.print(table)
    right, count = int(counts.diagonal().sum()), int(counts.sum())
    low, high = wilson(right, count)
    console.print(f"Accuracy: {right / count:.2%} of {count} images (95% interval: {low:.2%} to {high:.2%})")
    before = calibration_error(guesses, images.labels)
    console.print(f"Confidence is off by {100 * before:.1f} points on average (expected calibration error)")
    if images.skipped:
        first = next(iter(images.skipped))
        console.print(f"{len(images.skipped)} pictures could not be read, beginning with {first}.", markup=False)
    if calibrate:
        if count < 10:
            raise UserError(f"{data} has {count} labelled pictures: --calibrate needs 10 or more.")
        if right == count:
            raise UserError(f"all {count} pictures were recognised: --calibrate needs some mistakes to learn from.")
        after = cross_fitted_error(guesses, images.labels)
        network.temperature.mul_(fit_temperature(guesses, images.labels))
        directory.write_model(network, model)
        console.print(
            f"Calibrated with a temperature of {network.temperature.item():.2f}: confidence is now off by "
            f"{100 * after:.1f} points, each half of the images judged by a temperature of the other"
        )


def predict(
    run: Annotated[str, "directory of a finished run"],
    path: Annotated[str, "folder of pictures, or one picture"],
    /,
    *,
    output: Annotated[
        str, "the table: file, label, confidence and one column for each class", "-o"
    ] = "predictions.csv",
    min_confidence: Annotated[float, "pictures with less go into --review instead, for you to look at"] = 0.0,
    review: Annotated[str, "the table of those, least confident first"] = "review.csv",
    device: Annotated[str | None, "cpu, cuda or mps; default the best there is"] = None,
) -> None:
    """Label a folder of pictures (or one picture) with a trained model."""
    from .checkpoint import RunDirectory
    from .plan import choose_device
    from .predict import predict as run_predict
    from .predict import write_predictions

    for path_given, flag in ((output, "--output"), (review, "--review")):
        if not Path(path_given).absolute().parent.is_dir():
            raise UserError(f"there is no folder {Path(path_given).absolute().parent} for {flag}.")
    if min_confidence and Path(output).resolve() == Path(review).resolve():
        raise UserError(f"--output and --review are the same file, {review}: name two.")
    if not 0 <= min_confidence <= 1:
        raise UserError(f"min-confidence lies between 0 and 1, not at {min_confidence:g}.")
    network, model = RunDirectory(Path(run)).read_model(choose_device(device))
    names, guesses, skipped = run_predict(network, Path(path), model["size"])
    confidence = guesses.max(1).values
    unsure = [i for i in confidence.argsort().tolist() if confidence[i] < min_confidence]
    sure = sorted(set(range(len(names))) - set(unsure))
    write_predictions(Path(output), [names[i] for i in sure], guesses[sure], model["classes"], skipped)
    print(f"{len(sure)} pictures labelled, {len(skipped)} could not be read: {output}")
    if min_confidence:
        write_predictions(Path(review), [names[i] for i in unsure], guesses[unsure], model["classes"], {})
        print(f"{len(unsure)} pictures to look at, with a confidence of less than {min_confidence:g}: {review}")


def export(
    run: Annotated[str, "directory of a finished run"],
    /,
    *,
    onnx: Annotated[str, "the file to write: uint8 pictures in, class probabilities out"] = "model.onnx",
) -> None:
    """Write a trained model as ONNX, with the preprocessing inside."""
    from .checkpoint import RunDirectory
    from .export import export_onnx
    from .plan import choose_device

    network, model = RunDirectory(Path(run)).read_model(choose_device("cpu"))
    export_onnx(network, model, Path(onnx))
    side, channels = model["size"], model["channels"]
    print(f"{onnx}: pixels uint8 (N, {channels}, {side}, {side}) to probabilities (N, {len(model['classes'])})")


def methods(name: Annotated[str | None, "all about this one"] = None, /) -> None:
    """List the methods with their settings, or tell all about one."""
    from rich.console import Console
    from rich.table import Table

    from .methods import ALIASES, METHODS, TERMS, parts_of, settings_of

    console = Console(highlight=False)
    chosen = {**METHODS, **TERMS}
    name = name and name.removeprefix("+")
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
    taken = training.advance(0)
    return (
        f"A step of {method} takes {taken.images} images through the network (batch {recipe.batch}, mu {recipe.mu}) "
        f"in {taken.passes} pass{'es' if taken.passes > 1 else ''}; its loss is the sum of: {', '.join(taken.terms)}.\n"
        f"Try it: fewlabel train digits --labels-per-class 2 --method {method}"
    )


def drift(
    data: Annotated[str, "folder, .npz file or name of a data set, as for `fewlabel train`"],
    /,
    *,
    labels: Annotated[str | None, "CSV file with the header file,label for pictures of the folder"] = None,
    labels_per_class: Annotated[
        int | None, "use so many labels of each class; default as many as the rarest has, at most 500 in all"
    ] = None,
    test: Annotated[str | None, "folder with one subfolder per class to be judged by"] = None,
    root: Annotated[str | None, "where the official files of a named data set lie"] = None,
    size: Annotated[int | None, "side of the pictures of a folder; default 32 where they are small, else 64"] = None,
    only: Annotated[str | None, "operations to try, with commas between; default all"] = None,
    seeds: Annotated[int, "draws of labels and weights, where there are pictures to be judged by"] = 5,
    network: Annotated[str, "cnn, mlp or wrn-DEPTH-WIDTH"] = "cnn",
    jobs: Annotated[int | None, "models at a time; default one for each core"] = None,
    out: Annotated[str, "folder for drift.png and drift.csv"] = "drift",
) -> None:
    """Tell which augmentations change the meaning of your pictures."""
    from rich.console import Console
    from rich.table import Table

    from .data import load
    from .drift import CONTROL, advice, by_chance, measure, write_drifts

    if Path(out).exists() and not Path(out).is_dir():
        raise UserError(f"{out} is no folder: choose another --out.")
    dataset = load(data, root, labels=labels, test=test, size=size)
    chosen = [name.strip() for name in (only or "").split(",") if name.strip()]
    plain, drifts = measure(
        dataset,
        labels_per_class=labels_per_class,
        operations=chosen,
        seeds=seeds,
        network=network,
        jobs=jobs,
    )
    table = Table("operation", "accuracy", "change", "standard error", "")
    for one in drifts:
        verdict = "[bold]changes the meaning[/]" if one.flagged else ""
        numbers = (f"{one.accuracy:.1%}", f"{100 * one.change:+.1f}", f"{100 * one.error:.1f}")
        table.add_row(one.operation, *numbers, verdict)
    console = Console()
    console.print(f"Accuracy without any of them: {plain:.1%}. A drop of more than two standard errors is flagged.")
    console.print(table)
    write_drifts(Path(out), dataset.train, drifts)
    if any(one.flagged for one in drifts if one.operation == CONTROL):
        console.print(f"Even {CONTROL} was flagged, which changes nothing: give more labels or --seeds.")
    if dataset.test is not None:
        console.print(
            f"Of {len(drifts)} harmless operations chance alone would flag {by_chance(len(drifts), seeds):.1f} on "
            "average; with more --seeds, fewer."
        )
    else:
        console.print(
            "Careful: there were no pictures to be judged by (--test), so labelled ones were left out in turn. "
            "With few labels that tells little: a drop may be chance, and what is not flagged may still do harm."
        )
    if flags := advice(drifts):
        console.print(f"Leave them out of training: fewlabel train {data} {flags} ...", soft_wrap=True, markup=False)
    console.print(f"Pictures before and after: {Path(out) / 'drift.png'}", soft_wrap=True, markup=False)


def paper() -> None:
    """The paper's tables and figures: list them, run what they rest on, show ours beside the paper's."""


def paper_list() -> None:
    """Name the tables and figures."""
    from .paper.exhibits import EXHIBITS

    for name, exhibit in EXHIBITS.items():
        print(f"{name:9}{exhibit.title}{'' if exhibit.work else ' (needs no runs)'}")


def paper_run(
    name: Annotated[str, "of a table or figure, see `fewlabel paper list`"],
    /,
    *,
    scale: Annotated[str, "full: the paper's own setting, for a GPU; cpu: hours on two cores; smoke: a minute"] = "cpu",
    root: Annotated[str | None, "where the official files of the data sets lie"] = None,
    data: Annotated[str | None, "only the runs on this data set"] = None,
    out: Annotated[str, "folder for runs and results, shared by all tables and figures"] = "runs/paper",
    jobs: Annotated[int, "runs at a time, which share the cores"] = 2,
    backend: Annotated[str, "local: processes of this machine; dask: the workers of a cluster"] = "local",
    scheduler: Annotated[str | None, "address of the cluster's scheduler, for --backend dask"] = None,
) -> None:
    """Do the runs behind a table or figure; what is done already is not done again."""
    from .grid import Result
    from .methods import in_words
    from .paper.runs import estimate, recipes_of, run_exhibit, work_of

    if backend not in ("local", "dask"):
        raise unknown("backend", backend, ("local", "dask"))
    if (backend == "dask") != (scheduler is not None):
        raise UserError("--backend dask and --scheduler ADDRESS belong together.")
    if scheduler and not isinstance(work_of(name, scale), tuple):
        raise UserError(f"{name} rests on no grid of runs: a cluster is of no use to it.")
    if recipes := recipes_of(name, scale, root, data):
        left, seconds = estimate(recipes, Path(out), jobs)
        when = f"about {duration(seconds)}{' on this machine' if scheduler else ''}"
        print(f"{len(recipes)} runs, {len(recipes) - left} of them done. The others will take {when}.", flush=True)
        make_folder(Path(out))

    failed = []

    def tell(result: Result) -> None:
        facts = result.recipe
        if result.error:
            failed.append(result)
        method = in_words(facts["method"], facts["settings"])
        what = f"{facts['data']}, {facts['labels_per_class']} a class, {method}, seed {facts['seed']}"
        print(f"{what}: {result.error or f'{result.accuracy:.2%} in {duration(result.seconds)}'}", flush=True)

    try:
        run_exhibit(name, scale, root, Path(out), jobs=jobs, only=data, scheduler=scheduler, told=tell)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("stopped; the same command goes on from there.") from stop
    if failed:
        raise UserError(f"{len(failed)} runs failed, as said above: the same command tries them again.")
    print(f"See it: fewlabel paper show {name} --scale {scale} --out {out}")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def paper_show(
    name: Annotated[str, "of a table or figure, see `fewlabel paper list`"],
    /,
    *,
    scale: Annotated[str, "of which runs: full, cpu or smoke"] = "cpu",
    root: Annotated[str | None, "where the official files of the data sets lie"] = None,
    out: Annotated[str, "folder with runs and results; figures are written there"] = "runs/paper",
    format: Annotated[str, "of a table: markdown, latex, html or json"] = "markdown",
) -> None:
    """Print a table, ours beside the paper's, or draw a figure as PNG and SVG."""
    from .paper.figures import FIGURES
    from .paper.runs import exhibit_of, work_of
    from .paper.show import FORMATS, TABLES

    exhibit = exhibit_of(name)
    work_of(name, scale)  # is there such a scale?
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if exhibit.drawn in TABLES:
        print(FORMATS[format](TABLES[exhibit.drawn](name, scale, Path(out), root)))
        return
    figure = FIGURES[exhibit.drawn](name, scale, Path(out), root)
    make_folder(Path(out))
    for kind in ("png", "svg"):
        path = Path(out) / f"{name}-{scale}.{kind}"
        figure.savefig(path, dpi=150)
        print(path)


PAPER: dict[str, Callable[..., Any]] = {"list": paper_list, "run": paper_run, "show": paper_show}
COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "train": train,
    "repeat": repeat,
    "predict": predict,
    "evaluate": evaluate,
    "export": export,
    "methods": methods,
    "drift": drift,
    "paper": paper,
}
