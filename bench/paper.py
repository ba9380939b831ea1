"""Runs of the paper's tables and figures, kept in the repository, so that they can be continued on another machine.

    python -m bench.paper table7 table6 figure8 --root DIR

The same as `fewlabel paper run NAME --scale cpu` for each; every result is added to docs/results/paper.jsonl, and what
is there is not run again. Then `fewlabel paper show NAME --scale cpu`, in the same folder of runs, shows them.
"""

import argparse
from pathlib import Path

from bench.methods import tell
from bench.results import FOLDER, keep_result, restore_grid
from fewlabel import UserError
from fewlabel.grid import Result
from fewlabel.paper.runs import run_exhibit

RESULTS = FOLDER / "paper.jsonl"


def told(result: Result) -> None:
    tell(result)
    keep_result(result, RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--root", help="where the official files lie")
    parser.add_argument("--out", type=Path, default=Path("runs/paper"))
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, which share the cores")
    options = parser.parse_args()
    try:
        restore_grid(options.out, RESULTS)
        for name in options.names:
            run_exhibit(name, "cpu", options.root, options.out, jobs=options.jobs, told=told)
    except UserError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        parser.exit(130, "stopped; run the same command to continue.\n")


if __name__ == "__main__":
    main()
