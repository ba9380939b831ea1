"""audit: the accuracy of the predictions, from the answers of a person."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..auditing import measured, start_audit, summary, take_answers
from ..model import load_model
from ..run_files import REPORT
from ..runs import RunDirectory
from ..runs.finish import remake_report
from ..suspicious import suspicious_labels
from .outputs import check_output

SHOWN = 10  # suspicious labels


def audit(
    run: Annotated[str, Parameter(help="directory of a finished run")],
    /,
    *,
    n: Annotated[int, Parameter(name=["-n", "--number"], help="number of examples to draw")] = 30,
    output: Annotated[
        str, Parameter(alias="-o", help="CSV file to write: file,label with empty labels, shuffled, without guesses")
    ] = "audit.csv",
    answers: Annotated[str | None, Parameter(help="the filled-in CSV file, to compute the accuracy")] = None,
    root: Annotated[str | None, Parameter(help="folder with the official files of a named data set")] = None,
    overwrite: Annotated[bool, Parameter(help="replace the output file", negative="")] = False,
) -> None:
    """Measure the accuracy of a run's predictions on a few examples that you label."""
    directory = RunDirectory(run)
    directory.facts_to_continue()  # is it a run? before anything is written into it
    with directory:
        directory.lock()
        if answers is None:
            draw(directory, n, Path(output), root, overwrite)
        else:
            tell(directory, Path(answers), root)
    if answers is not None:
        remake_report(directory, root, measured(directory))
        print(f"Report: {directory / REPORT}")


def draw(run: RunDirectory, n: int, path: Path, root: str | None, overwrite: bool) -> None:
    check_output(path, "--output", overwrite, page=True)
    page = start_audit(run, n, path, root)
    noun = load_model(run.path).kind.noun
    print(f"{n} {noun} to label: {path} ({noun} shown in {page})")
    print(f"Fill in the column label, then: fewlabel audit {run.path} --answers {path}")


def tell(run: RunDirectory, path: Path, root: str | None) -> None:
    noun = load_model(run.path).kind.noun
    for sentence in summary(take_answers(run, path), noun):
        print(sentence)
    print(f"These {noun} are kept apart: `fewlabel train` refuses their labels unless --spend-audit is given.")
    found = suspicious_labels(run, root)
    if found:
        print(f"Training labels that look wrong, judged by the others: {len(found)}")
    for one in found[:SHOWN]:
        print(f"  {one.name}: labelled {one.label}, looks like {one.other}")
