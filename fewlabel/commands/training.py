"""demo, train, pretrain, repeat."""

import os
import shlex
from collections.abc import Callable, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from ..demo import demo as run_demo
from ..errors import Interrupted, UserError
from ..methods import SELF_SUPERVISED
from ..runs import RunDirectory
from ..runs import pretrain as run_pretrain
from ..runs import train as run_train
from ..runs.resume import repeated
from ..training import Recipe
from .options import pretrain_command, train_command


def train_for(words: Sequence[str]) -> Callable[..., None]:
    """The command `train` with the options that these words may use."""
    return train_command(stoppable(run_train, "train", words), words)


def pretrain_for(words: Sequence[str]) -> Callable[..., None]:
    """The command `pretrain` with the options that these words may use."""
    return pretrain_command(stoppable(run_pretrain, "pretrain", words), words)


def stoppable(train: Callable[..., object], name: str, words: Sequence[str]) -> Callable[..., None]:
    """Train a recipe; after Ctrl-C, print the command that continues."""

    def run_recipe(recipe: Recipe, resume: bool, overwrite: bool) -> None:
        try:
            train(recipe, resume=resume, overwrite=overwrite)
        except Interrupted as stop:
            again = [word for word in words if word not in ("--resume", "--overwrite")]
            raise with_command(stop, [name, *again]) from stop

    return run_recipe


def with_command(stop: Interrupted, words: Sequence[str]) -> Interrupted:
    """The interrupt, with the command that continues."""
    launcher = "torchrun as before, -m " if "TORCHELASTIC_RUN_ID" in os.environ else ""
    return Interrupted(f"{stop} Continue with: {launcher}{shlex.join(['fewlabel', *words, '--resume'])}")


def repeat(
    run: Annotated[str, Parameter(help="run directory, finished or not")],
    /,
    *,
    out: Annotated[str, Parameter(help="directory of the new run")],
    seed: Annotated[int | None, Parameter(help="another seed; default the same")] = None,
    root: Annotated[
        str | None, Parameter(help="folder with the official files of a named data set; default as before")
    ] = None,
    device: Annotated[str | None, Parameter(help="cpu, cuda or mps; default as before")] = None,
    threads: Annotated[int | None, Parameter(help="CPU threads; default as before")] = None,
    resume: Annotated[bool, Parameter(help="continue the run in --out", negative="")] = False,
    overwrite: Annotated[bool, Parameter(help="replace the run in --out", negative="")] = False,
) -> None:
    """Repeat a run from its recipe.json."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("`fewlabel repeat` uses one process: run it without torchrun.")
    given = {"out": out, "seed": seed, "root": root, "device": device, "threads": threads}
    changes = {name: value for name, value in given.items() if value is not None}
    try:
        recipe, dataset = repeated(RunDirectory(run), **changes)
        again = run_pretrain if recipe.method in SELF_SUPERVISED else run_train
        again(recipe, dataset, resume=resume, overwrite=overwrite)
    except Interrupted as stop:
        typed = [word for name, value in changes.items() for word in (f"--{name}", str(value))]
        raise with_command(stop, ["repeat", run, *typed]) from stop


def demo(
    *,
    photos: Annotated[
        bool, Parameter(help="use tiles of two photographs and a pre-trained encoder instead of digits", negative="")
    ] = False,
    seed: Annotated[int, Parameter(help="random seed, also for the choice of labelled images")] = 0,
    out: Annotated[str | None, Parameter(help="run directory; default runs/demo-SEED, which is replaced")] = None,
    overwrite: Annotated[bool, Parameter(help="replace the run in --out", negative="")] = False,
) -> None:
    """Train on 20 labels of scikit-learn's digits: about a minute, offline."""
    try:
        result = run_demo(seed, out, photos=photos, overwrite=overwrite)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("stopped; the demo is short and starts over next time.") from stop
    table = Table(f"{result.labels} labels, {result.tested} test images", "accuracy")
    table.add_row("the labels alone (same network)", f"{result.labels_alone:.1%}")
    table.add_row("scikit-learn's LabelSpreading", f"{result.label_spreading:.1%}")
    ours = "fewlabel, on the same features" if photos else "ICL-SSL with distribution alignment"
    table.add_row(ours, f"{result.fewlabel:.1%}")
    console = Console()
    console.print(table)
    console.print(f"The report with pictures: {result.run.directory / 'report.html'}", soft_wrap=True)
