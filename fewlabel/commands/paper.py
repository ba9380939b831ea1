"""paper list, paper run, paper show."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import UserError, unknown
from ..files import make_folder
from ..grid import Result
from ..methods import in_words
from ..paper.exhibits import EXHIBITS
from ..paper.figures import FIGURES
from ..paper.runs import estimate, exhibit_of, recipes_of, run_exhibit, work_of
from ..paper.show import FORMATS, TABLES

Name = Annotated[str, Parameter(help="name of a table or figure, see `fewlabel paper list`")]
Root = Annotated[str | None, Parameter(help="folder with the official files of the data sets")]


def list_exhibits() -> None:
    """List the tables and figures."""
    for name, exhibit in EXHIBITS.items():
        print(f"{name:9}{exhibit.title}{'' if exhibit.work else ' (needs no runs)'}")


def run(
    name: Name,
    /,
    *,
    scale: Annotated[
        str, Parameter(help="full: the paper's own setting, for a GPU; cpu: hours on two cores; smoke: a minute")
    ] = "cpu",
    root: Root = None,
    data: Annotated[str | None, Parameter(help="only the runs on this data set")] = None,
    out: Annotated[str, Parameter(help="folder for runs and results, shared by all tables and figures")] = "runs/paper",
    jobs: Annotated[int, Parameter(help="number of parallel runs, which share the cores")] = 2,
    backend: Annotated[
        str, Parameter(help="local: processes of this machine; dask: the workers of a cluster")
    ] = "local",
    scheduler: Annotated[str | None, Parameter(help="address of the cluster's scheduler, for --backend dask")] = None,
) -> None:
    """Run the experiments behind a table or figure; finished runs are skipped."""
    if backend not in ("local", "dask"):
        raise unknown("backend", backend, ("local", "dask"))
    if (backend == "dask") != (scheduler is not None):
        raise UserError("use --backend dask and --scheduler ADDRESS together.")
    if scheduler and not isinstance(work_of(name, scale), tuple):
        raise UserError(f"{name} has no runs to distribute: leave out --backend and --scheduler.")
    if recipes := recipes_of(name, scale, root, data):
        left, seconds = estimate(recipes, Path(out), jobs)
        when = "less than a minute" if seconds < 60 else f"about {duration(seconds)}"
        when += " on this machine" if scheduler else ""
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
        raise KeyboardInterrupt("stopped; run the same command to continue.") from stop
    if failed:
        raise UserError(f"{len(failed)} runs failed (see above): run the same command to try them again.")
    print(f"To show it: fewlabel paper show {name} --scale {scale} --out {out}")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def show(
    name: Name,
    /,
    *,
    scale: Annotated[str, Parameter(help="scale of the runs: full, cpu or smoke")] = "cpu",
    root: Root = None,
    out: Annotated[str, Parameter(help="folder with runs and results; figures are written there")] = "runs/paper",
    format: Annotated[str, Parameter(help="format of a table: markdown, latex, html or json")] = "markdown",
) -> None:
    """Print a table, ours beside the paper's, or draw a figure as PNG and SVG."""
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
