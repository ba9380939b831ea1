"""Every method, alone and with ICL, on few labels, each given as many images through the network, all passes counted.

    python -m bench.methods --root DIR                    MNIST, 20 labels, seeds 0 to 2: docs/results/methods.md
    python -m bench.methods --root DIR --methods fixmatch flexmatch --seeds 0

It can be stopped at any time: the same command goes on from there, also on another machine, since every result is added
to docs/results/methods.jsonl. The table is printed at the end, and with --show at once, from what there is.
"""

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

from bench.results import FOLDER, keep_result, restore_grid
from fewlabel import METHODS, Recipe, UserError
from fewlabel.grid import Result, read_result, run_grid
from fewlabel.methods import ALIASES, parts_of
from fewlabel.training import check_recipe


def recipe(options: argparse.Namespace, method: str, seed: int) -> Recipe:
    return Recipe(
        data=options.data,
        root=options.root,
        labels_per_class=options.labels_per_class,
        method=method,
        settings={"icl.weight": 0.5} if "icl" in parts_of(method) else {},  # as published
        network="cnn",
        batch=64,
        mu=1,
        learning_rate=0.06,
        images=options.images,
        evaluations=1,
        floor=False,
        seed=seed,
    )


RESULTS = FOLDER / "methods.jsonl"


def told(result: Result, results: Path) -> None:
    tell(result)
    keep_result(result, results)


def tell(result: Result) -> None:
    what = f"{result.recipe['method']}, seed {result.recipe['seed']}"
    print(f"{what}: {result.error or f'{result.accuracy:.2%} in {result.seconds / 60:.1f} min'}", flush=True)


def table(results: list[Result]) -> str:
    """Markdown: a row for each method; alone and with each term side by side."""
    cells: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        base, plus, terms = ALIASES.get(name := result.recipe["method"], name).partition("+")
        cells[base][plus + terms].append(result)
    columns = list(dict.fromkeys(terms for row in cells.values() for terms in row))
    head = " | ".join(f"steps | {f'`{terms}`' if terms else 'alone'} | minutes" for terms in columns)
    lines = [f"| method | {head} |", "|---" * (1 + 3 * len(columns)) + "|"]
    for base in (name for name in METHODS if name in cells):
        lines.append(f"| `{base}` | {' | '.join(summary(cells[base][terms]) for terms in columns)} |")
    return "\n".join(lines)


def summary(results: list[Result]) -> str:
    """Steps; mean and standard deviation over seeds, with the seeds behind; minutes. A star: an alarm was on."""
    done = [result for result in results if result.accuracy is not None]
    failed = f" {len(results) - len(done)} failed" if len(results) > len(done) else ""
    if not done:
        return f" |{failed or ' not run'} | "
    percent = [100 * (result.accuracy or 0) for result in done]
    spread = f" ± {statistics.stdev(percent):.2f}" if len(percent) > 1 else ""
    each = ", ".join(f"{value:.1f}{'*' * bool(one.alarms)}" for value, one in zip(percent, done, strict=True))
    minutes = statistics.mean(result.seconds for result in done) / 60
    return f"{done[0].steps} | {statistics.mean(percent):.2f}{spread} ({each}){failed} | {minutes:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--root", help="where the official files lie")
    parser.add_argument("--labels-per-class", type=int, default=2)
    parser.add_argument("--images", type=int, default=160_000, help="through the network in a run, all passes counted")
    parser.add_argument("--methods", nargs="+", default=[name + term for name in METHODS for term in ("", "+icl")])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, which share the cores")
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="file to which each result is added")
    parser.add_argument("--show", action="store_true", help="run nothing, show what there is")
    options = parser.parse_args()
    recipes = [recipe(options, method, seed) for seed in options.seeds for method in options.methods]
    try:
        restore_grid(options.out, options.results)
        if options.show:
            found = [read_result(options.out, check_recipe(one)) for one in recipes]
            results = [result for result in found if result]
        else:
            results = run_grid(recipes, options.out, options.jobs, lambda result: told(result, options.results))
    except UserError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        parser.exit(130, "stopped; the same command goes on from there.\n")
    print(table(results))


if __name__ == "__main__":
    main()
