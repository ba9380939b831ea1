"""suggest: which examples to label first."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..data import Roles
from ..errors import UserError
from ..suggesting import suggest_examples, write_suggestions
from ..terminal import Terminal
from .outputs import check_output


def suggest(
    data: Annotated[str, Parameter(help="folder of pictures, file of texts or rows, .npz file, or a named data set")],
    /,
    *,
    n: Annotated[int, Parameter(name=["-n", "--number"], help="number of examples to suggest")] = 20,
    output: Annotated[
        str, Parameter(alias="-o", help="CSV file to write: file,label with empty labels, the most useful first")
    ] = "to-label.csv",
    labels: Annotated[
        list[str] | None,
        Parameter(help="label file; may be repeated; examples like those already labelled come last", negative=""),
    ] = None,
    subfolders: Annotated[
        bool | None, Parameter(help="subfolders are classes, so their pictures are labelled; default without --labels")
    ] = None,
    encoder: Annotated[str | None, Parameter(help="pre-trained encoder; default as for train")] = None,
    run: Annotated[
        str | None, Parameter(help="finished run: suggest diverse examples that it is uncertain about")
    ] = None,
    text_column: Annotated[str | None, Parameter(help="column of a file that holds the texts")] = None,
    label_column: Annotated[str | None, Parameter(help="column of a file that holds the classes so far")] = None,
    id_column: Annotated[str | None, Parameter(help="column of a file that identifies its rows")] = None,
    drop: Annotated[str, Parameter(help="columns of a table to leave out, separated by commas")] = "",
    root: Annotated[str | None, Parameter(help="folder with the official files of a named data set")] = None,
    value_range: Annotated[
        str | None,
        Parameter(name="--range", help="LOW,HIGH pixel values of pictures with more than 8 bits; default measured"),
    ] = None,
    seed: Annotated[int, Parameter(help="random seed")] = 0,
    overwrite: Annotated[bool, Parameter(help="replace the output file", negative="")] = False,
) -> None:
    """Suggest which pictures, texts or rows to label first."""
    path = Path(output)
    check_output(path, "--output", overwrite, page=True)
    roles = Roles.of(text_column, label_column, id_column, drop)
    if run is not None and roles != Roles():
        raise UserError(
            "with --run the columns are those of that run: leave out --text-column, --label-column, --id-column and "
            "--drop."
        )
    examples, found = suggest_examples(
        data,
        n,
        labels=labels,
        subfolders=subfolders,
        encoder=encoder,
        run=run,
        root=root,
        seed=seed,
        roles=roles,
        value_range=value_range,
        terminal=Terminal(),
    )
    page = write_suggestions(path, examples, found.positions)
    noun = examples.kind.noun
    print(f"{len(found.positions)} {noun} to label, the most useful first: {path} ({noun} shown in {page})")
    covered = f", {found.covered} of which have a label already" if found.covered else ""
    print(
        f"They come from {found.groups} groups of similar {noun}{covered}. Classes may still be missing: label these, "
        "and continue until you have seen every class."
    )
