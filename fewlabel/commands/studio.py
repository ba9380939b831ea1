"""studio: label, train, review, audit and export on one page."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import UserError

LOCAL = "127.0.0.1"


def studio(
    data: Annotated[str, Parameter(help="folder of pictures, file of texts or rows, or folder of .txt files")],
    /,
    *,
    labels: Annotated[
        str | None, Parameter(help="label file to continue; default labels.csv, in the picture folder if it is there")
    ] = None,
    text_column: Annotated[str | None, Parameter(help="column of a file that holds the texts")] = None,
    label_column: Annotated[str | None, Parameter(help="column of a file that holds the classes so far")] = None,
    id_column: Annotated[str | None, Parameter(help="column of a file that identifies its rows")] = None,
    drop: Annotated[str, Parameter(help="columns of a table to leave out, separated by commas")] = "",
    run: Annotated[str | None, Parameter(help="finished run to start with; default the newest")] = None,
    port: Annotated[int, Parameter(help="port to listen on; default a free one")] = 0,
    host: Annotated[
        str, Parameter(help="address to listen on; any other than the default lets other machines connect")
    ] = LOCAL,
    no_browser: Annotated[bool, Parameter(help="print the address without opening a browser", negative="")] = False,
) -> None:
    """Label, train, review, audit and export on one page, in your browser."""
    try:
        from ..studio.server import serve
    except ImportError as error:
        raise UserError("the studio needs more packages: pip install 'fewlabel[studio]'.") from error
    from ..data import Roles
    from ..studio.finished import choose_run
    from ..studio.project import Project
    from ..studio.worker import Worker

    if not 0 <= port <= 65535:
        raise UserError(f"--port must be between 0 and 65535, not {port}.")
    if host not in (LOCAL, "localhost"):
        print(
            f"Warning: --host {host} lets other machines connect. Anyone with the address below can see the pictures "
            "and change labels, and the connection is not encrypted.",
            file=sys.stderr,
        )
    roles = Roles.of(text_column, label_column, id_column, drop)
    project = Project(Path(data), Path(labels) if labels else None, choose_run(run), Worker(), roles)
    print(f"{len(project.files)} {project.noun} in {data}; labels in {project.book.path}")
    if project.note:
        print(project.note)

    def say(address: str) -> None:
        print(f"Open {address}\nStop with Ctrl-C: every label is saved at once.", flush=True)

    serve(project, host, port, not no_browser, say)
    saved = f"Your labels are in {project.book.path}" if project.book.path.exists() else "No label was given."
    print(f"Stopped. {saved}")
