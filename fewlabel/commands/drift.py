"""drift: which augmentations change the meaning of pictures."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from ..data import is_folder, load
from ..drift import advice, measure, remarks, write_drifts
from ..errors import UserError


def drift(
    data: Annotated[str, Parameter(help="folder, .npz file or name of a data set, as for `fewlabel train`")],
    /,
    *,
    labels: Annotated[
        str | None, Parameter(help="CSV file with the columns file and label, for pictures of the folder")
    ] = None,
    labels_per_class: Annotated[
        int | None, Parameter(help="number of labels per class; default that of the rarest class, at most 500")
    ] = None,
    test: Annotated[str | None, Parameter(help="held-out test folder, one subfolder per class")] = None,
    root: Annotated[str | None, Parameter(help="folder with the official files of a named data set")] = None,
    size: Annotated[
        int | None, Parameter(help="resize pictures of a folder to this side; default 32 for small ones, else 64")
    ] = None,
    only: Annotated[str | None, Parameter(help="augmentations to try, separated by commas; default all")] = None,
    seeds: Annotated[int, Parameter(help="number of random draws of labels and weights, with a test set")] = 5,
    network: Annotated[str, Parameter(help="cnn, cnn-WIDTH, wrn-DEPTH-WIDTH or mlp")] = "cnn",
    jobs: Annotated[int | None, Parameter(help="number of models trained in parallel; default one per core")] = None,
    out: Annotated[str, Parameter(help="folder for drift.png and drift.csv")] = "drift",
) -> None:
    """Find augmentations that change the meaning of your pictures."""
    if Path(out).exists() and not Path(out).is_dir():
        raise UserError(f"{out} is not a folder: choose another --out.")
    dataset = load(data, root, labels=labels, test=test, size=size)
    given = {"--labels": labels, "--test": test, "--root": root}
    files = [word for flag, value in given.items() if value for word in (flag, value)]
    chosen = [name.strip() for name in (only or "").split(",") if name.strip()]
    plain, drifts = measure(
        dataset, labels_per_class=labels_per_class, operations=chosen, seeds=seeds, network=network, jobs=jobs
    )
    table = Table("augmentation", "accuracy", "change", "standard error", "")
    for one in drifts:
        verdict = "[bold]changes the meaning[/]" if one.flagged else ""
        numbers = (f"{one.accuracy:.1%}", f"{100 * one.change:+.1f}", f"{100 * one.error:.1f}")
        table.add_row(one.operation, *numbers, verdict)
    console = Console()
    console.print(f"Accuracy without augmentation: {plain:.1%}. A drop of more than two standard errors is flagged.")
    console.print(table)
    write_drifts(Path(out), dataset.train, drifts)
    for remark in remarks(dataset, drifts, seeds):
        console.print(remark)
    if flags := advice(drifts):
        command = shlex.join(["fewlabel", "train", data, *files])
        console.print(f"In training from scratch, disable them: {command} {flags}", soft_wrap=True, markup=False)
        if is_folder(data):
            console.print(
                "With an encoder, the default for photos, no augmentation is used, so leave --without out: for photos "
                "an encoder is far better than training from scratch."
            )
    console.print(f"Pictures before and after: {Path(out) / 'drift.png'}", soft_wrap=True, markup=False)
