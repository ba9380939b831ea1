"""suggest: which pictures to label first."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..suggesting import suggest_examples, write_suggestions
from .outputs import check_output


def suggest(
    data: Annotated[str, Parameter(help="folder of pictures, .npz file, or a named data set")],
    /,
    *,
    n: Annotated[int, Parameter(name=["-n", "--number"], help="how many to suggest")] = 20,
    output: Annotated[
        str, Parameter(alias="-o", help="CSV file to write: file,label with empty labels, the most useful first")
    ] = "to-label.csv",
    labels: Annotated[
        list[str] | None, Parameter(help="label files: what their pictures cover is not suggested again")
    ] = None,
    encoder: Annotated[str | None, Parameter(help="pre-trained encoder; default as for train")] = None,
    run: Annotated[str | None, Parameter(help="finished run: suggest what it is least certain of, and diverse")] = None,
    root: Annotated[str | None, Parameter(help="folder with the official files of a named data set")] = None,
    value_range: Annotated[
        str | None,
        Parameter(name="--range", help="of pictures with more than 8 bits: LOW,HIGH; default measured"),
    ] = None,
    seed: Annotated[int, Parameter(help="random seed")] = 0,
    overwrite: Annotated[bool, Parameter(help="replace the output file", negative="")] = False,
) -> None:
    """Suggest which pictures to label first."""
    path = Path(output)
    check_output(path, "--output", overwrite)
    examples, found = suggest_examples(
        data, n, labels=labels, encoder=encoder, run=run, root=root, seed=seed, value_range=value_range
    )
    page = write_suggestions(path, examples, found.positions)
    noun = examples.kind.noun
    print(f"{len(found.positions)} {noun} to label, the most useful first: {path} ({noun} shown in {page})")
    covered = f", {found.covered} of which have a label already" if found.covered else ""
    print(
        f"They come from {found.groups} groups of similar {noun}{covered}. Classes may still be missing: label these, "
        "and go on until you have seen every class."
    )
