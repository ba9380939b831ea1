"""Show the misclassified examples, and check whether the model was evaluated on its training labels."""

from pathlib import Path

from .data import Examples
from .data.tables import read_table
from .errors import UserError
from .evaluate import Evaluation
from .files import write_csv
from .pages import Shown, is_foreign, write_page
from .predictions import texts_of
from .runs import RunDirectory

SHOWN = 500  # on the page, at most
HEADER = ("file", "label", "predicted", "confidence")


def check_mistakes(path: Path) -> None:
    """Check before any work that the files may be written."""
    if path.suffix.lower() not in (".html", ".csv"):
        raise UserError(f"--mistakes must end in .html or .csv, not {path.name}.")
    table, page = path.with_suffix(".csv"), path.with_suffix(".html")
    if table.exists() and [row.cells[: len(HEADER)] for row in read_table(table, "file")[:1]] != [list(HEADER)]:
        raise UserError(f"{table} already exists and was not written by fewlabel: choose another name for --mistakes.")
    if is_foreign(page):
        raise UserError(f"{page} already exists and was not written by fewlabel: choose another name for --mistakes.")


def write_mistakes(path: Path, examples: Examples, found: Evaluation) -> int:
    """Write the misclassified examples, most confident first, as a page and a CSV file. Returns their number."""
    guesses, confidence = found.probabilities.argmax(1), found.probabilities.amax(1)
    wrong = ((found.labels >= 0) & (guesses != found.labels)).nonzero().flatten()
    wrong = wrong[confidence[wrong].argsort(descending=True, stable=True)]
    rows = [
        (examples.names[i], found.classes[found.labels[i]], found.classes[guesses[i]], f"{confidence[i]:.4f}")
        for i in wrong.tolist()
    ]
    texts = texts_of(examples, wrong.tolist())
    header = (*HEADER, examples.kind.shown_column) if texts else HEADER
    write_csv(path.with_suffix(".csv"), header, [(*row, *texts[i : i + 1]) for i, row in enumerate(rows)])
    shown = [
        Shown(name, examples.show(position), f"{label}, predicted as {guess} ({float(sure):.0%}):")
        for position, (name, label, guess, sure) in zip(wrong.tolist()[:SHOWN], rows, strict=False)
    ]
    title = f"{len(rows)} mistakes among {found.count} {examples.kind.noun}"
    advice = "Most confident first: look for wrong labels, for classes that look alike, and for what the model misses."
    write_page(path.with_suffix(".html"), "to-label.html.jinja", {"title": title, "advice": advice, "examples": shown})
    return len(rows)


def trained_on(run: str, data: str, examples: Examples, found: Evaluation) -> int:
    """The number of evaluated examples that are among the model's training labels."""
    directory = RunDirectory(run)
    facts = directory.facts()
    if facts is None or Path(facts["recipe"]["data"]).resolve() != Path(data).resolve() or not Path(data).exists():
        return 0
    labelled = set(directory.labelled_names())
    known = (found.labels >= 0).tolist()
    return sum(name in labelled for name, judged in zip(examples.names, known, strict=True) if judged)
