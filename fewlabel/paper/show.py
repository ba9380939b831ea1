"""Tables of ours beside the paper's, as Markdown, LaTeX, HTML or JSON."""

import html
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..data import load
from ..errors import UserError
from ..grid import Result, read_result
from ..training import check_recipe
from .exhibits import CLASSES, EXHIBITS, Grid, Timing
from .published import DATA_SETS, LABELS, PUBLISHED, SECONDS
from .runs import EPOCH, kept, timed_recipe

NOT_RUN = "not run"
THEIR_TIMES = "The paper's: CIFAR-10, wrn-28-2, 20 labels, a GPU; averages of 300 epochs, taken as seconds an epoch."
Found: TypeAlias = dict[tuple[str, int, str], list[Result]]


@dataclass(frozen=True)
class Table:
    """Cells of text below a head, and what is to be said about them."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


# ---- results of a grid


def grids_of(name: str, scale: str) -> tuple[Grid, ...]:
    work = EXHIBITS[name].work[scale]
    assert isinstance(work, tuple)
    return work


def results_of(grid: Grid, scale: str, out: Path) -> Found:
    """The results of a grid: (method, labels, settings as JSON) -> results of its seeds."""
    found: Found = {}
    for recipe in grid.recipes(scale, root=None):
        labels = (recipe.labels_per_class or 0) * CLASSES.get(grid.data, 10)
        here = found.setdefault((recipe.method, labels, json.dumps(recipe.settings)), [])
        if result := read_result(out, check_recipe(recipe)):
            here.append(result)
    return found


def of_method(found: Found, method: str, labels: int) -> list[Result]:
    return [result for (m, count, _), results in found.items() if (m, count) == (method, labels) for result in results]


def percent(results: Sequence[Result]) -> list[float]:
    return [100 * result.accuracy for result in results if result.accuracy is not None]


def mean_and_spread(results: Sequence[Result]) -> str:
    """Mean, standard deviation and number of seeds; and how many runs failed."""
    values = percent(results)
    failed = f"{len(results) - len(values)} failed"
    if not values:
        return failed if results else NOT_RUN
    behind = f" ({len(values)} {'seed' if len(values) == 1 else 'seeds'}{f', {failed}' * (len(values) < len(results))})"
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}{behind}"


# ---- the tables


def accuracy_table(name: str, scale: str, out: Path, root: str | None) -> list[Table]:
    """A row for each method: for each data set and number of labels ours, then the paper's; and paired differences."""
    exhibit, published = EXHIBITS[name], PUBLISHED[name]
    columns: list[tuple[str, Callable[[str], str]]] = []
    notes, differences = [], []
    for grid in grids_of(name, scale):
        found = results_of(grid, scale, out)
        for labels in grid.labels:
            columns.append((f"{grid.data}, {labels} labels", ours_of(found, labels)))
            differences += [row for pair in exhibit.pairs if (row := difference(found, grid, labels, *pair))]
        notes.append(note(grid, [result for results in found.values() for result in results]))
    for data, counts in LABELS[name].items():
        for position, labels in enumerate(counts):
            columns.append((f"paper: {data}, {labels} labels", theirs_of(published[data], position)))
    methods = dict.fromkeys(method for grid in grids_of(name, scale) for method in grid.methods)
    methods |= dict.fromkeys(method for of_data in published.values() for method in of_data)
    rows = [[method, *(cell(method) for _, cell in columns)] for method in methods]
    tables = [Table(exhibit.title, ["test accuracy (%)", *(head for head, _ in columns)], rows, notes)]
    if differences:
        head = ["difference", "data", "labels", "points", "standard error", "seeds"]
        tables.append(Table("Differences, paired over seeds: same labels, same first weights", head, differences))
    return tables


def ours_of(found: Found, labels: int) -> Callable[[str], str]:
    def cell(method: str) -> str:
        wanted = any((m, count) == (method, labels) for m, count, _ in found)
        return mean_and_spread(of_method(found, method, labels)) if wanted else ""

    return cell


def theirs_of(published: dict[str, tuple[Any, ...]], position: int) -> Callable[[str], str]:
    def cell(method: str) -> str:
        if method not in published:
            return ""
        return published_cell(published[method][position])

    return cell


def published_cell(value: Any) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}" if isinstance(value, tuple) else f"{value:.2f}"


def difference(found: Found, grid: Grid, labels: int, method: str, other: str) -> list[str] | None:
    """The mean paired difference of two methods over seeds, in points."""
    ours, theirs = (
        {
            result.recipe["seed"]: 100 * result.accuracy
            for result in of_method(found, one, labels)
            if result.accuracy is not None
        }
        for one in (method, other)
    )
    points = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if not points:
        return None
    error = f"{statistics.stdev(points) / len(points) ** 0.5:.2f}" if len(points) > 1 else "unknown"
    return [f"{method} - {other}", grid.data, str(labels), f"{statistics.mean(points):+.2f}", error, str(len(points))]


def note(grid: Grid, results: Sequence[Result]) -> str:
    """A note on how the runs of a grid were made, and why one of them failed."""
    errors = [result.error for result in results if result.error]
    results = [result for result in results if not result.error]
    why = f" {len(errors)} failed{', the first' * (len(errors) > 1)}: {errors[0].splitlines()[0]}" if errors else ""
    if not results:
        return f"{grid.data}:{why or f' {NOT_RUN} yet.'}"
    steps = sorted({result.steps for result in results})
    length = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    recipe = results[0].recipe
    alarmed = sum(bool(result.alarms) for result in results)
    runs = f"{len(results)} {'run' if len(results) == 1 else 'runs'}"
    return (
        f"{grid.data}: {runs}, {recipe['network']}, batch {recipe['batch']}, mu {recipe['mu']}, {length} "
        f"steps, {statistics.mean(result.seconds for result in results) / 60:.1f} minutes each on average"
        + (f"; in {alarmed} of them the collapse alarm was on at the end." if alarmed else ".")
        + why
    )


def time_table(name: str, scale: str, out: Path, root: str | None) -> list[Table]:
    """Seconds and, since machines differ, ratios to FixMatch."""
    facts, rows = kept(name, scale, out), []
    ours = facts and facts["seconds"]
    for method, (training, inference) in SECONDS.items():
        cells = [NOT_RUN] * 3
        if ours:
            seconds, base = ours[method], ours["fixmatch"]
            ratio = seconds["training"] / base["training"]
            cells = [f"{seconds['training']:.2f}", f"{ratio:.2f}", f"{seconds['inference']:.2f}"]
        ratio = training[0] / SECONDS["fixmatch"][0][0]
        rows.append([method, *cells, published_cell(training), f"{ratio:.2f}", published_cell(inference)])
    kinds = (f"training, {EPOCH:,} steps (s)", "times FixMatch", "inference, all test images (s)")
    paper = ("training (s)", "times FixMatch", "inference (s)")
    head = ["method", *(f"ours: {kind}" for kind in kinds), *(f"paper: {kind}" for kind in paper)]
    return [Table(EXHIBITS[name].title, head, rows, [THEIR_TIMES, *([how_timed(name, scale, facts)] if facts else [])])]


def how_timed(name: str, scale: str, facts: dict[str, Any]) -> str:
    timing = EXHIBITS[name].work[scale]
    assert isinstance(timing, Timing)
    recipe = timed_recipe(timing, scale, timing.methods[0], None)
    return (
        f"Ours: {timing.data}, {recipe.network}, batch {recipe.batch}, mu {recipe.mu}, on {facts['device']} with "
        f"{facts['threads']} threads; the median of {timing.steps} steps, taken in turn by methods, times {EPOCH:,}."
    )


def data_table(name: str, scale: str, out: Path, root: str | None) -> list[Table]:
    """The paper's facts beside what our readers find in the official files."""
    rows, notes = [], []
    for data, facts in DATA_SETS.items():
        try:
            found = load(data, root)
            assert found.test is not None
            train, side = found.train, found.train.kind.shape[-1]
            ours: list[object] = [side, len(train), len(found.test), len(train.classes)]
        except UserError as error:
            ours = ["not read"] * 4
            notes.append(f"{data}: {error}")
        rows.append([data, *(str(fact) for pair in zip(ours, facts, strict=True) for fact in pair)])
    kinds = ("side", "training images", "test images", "classes")
    head = ["data set", *(f"{whose}: {kind}" for kind in kinds for whose in ("ours", "paper"))]
    return [Table(EXHIBITS[name].title, head, rows, notes)]


# ---- formats


def as_markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", "| " + " | ".join(table.head) + " |", "|---" * len(table.head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join([*lines, *(["", *table.notes] if table.notes else [])])


def as_latex(table: Table) -> str:
    def escape(text: str) -> str:
        for sign in "&%#_":
            text = text.replace(sign, f"\\{sign}")
        return text.replace("±", "$\\pm$")

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(escape, cells)) + r" \\"

    comments = "".join(f"% {text}\n" for text in (table.title, *table.notes))
    body = "\n".join(map(line, table.rows))
    return (
        f"{comments}\\begin{{tabular}}{{l{'c' * (len(table.head) - 1)}}}\n\\hline\n"
        f"{line(table.head)}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}"
    )


def as_html(table: Table) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = "\n".join(line(row, "td") for row in table.rows)
    notes = "".join(f"\n<p>{html.escape(text)}</p>" for text in table.notes)
    return f"<table>\n<caption>{html.escape(table.title)}</caption>\n{line(table.head, 'th')}\n{rows}\n</table>{notes}"


def as_json(tables: Sequence[Table]) -> str:
    """A list of the tables, each with its rows as objects."""
    content = [
        {
            "title": table.title,
            "rows": [dict(zip(table.head, row, strict=True)) for row in table.rows],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return json.dumps(content, ensure_ascii=False, indent=2)


def joined(format: Callable[[Table], str]) -> Callable[[Sequence[Table]], str]:
    return lambda tables: "\n\n".join(map(format, tables))


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "markdown": joined(as_markdown),
    "latex": joined(as_latex),
    "html": joined(as_html),
    "json": as_json,
}
TABLES: dict[str, Callable[[str, str, Path, str | None], list[Table]]] = {
    "accuracy_table": accuracy_table,
    "time_table": time_table,
    "data_table": data_table,
}
