"""Every method, alone and with ICL, on few labels, each given as many images through the network, all passes counted.

    python -m bench.methods --root DIR                    the table of docs/methods.md: MNIST, 20 labels, seeds 0 to 2
    python -m bench.methods --root DIR --methods fixmatch flexmatch --seeds 0

It can be stopped at any time: the same command goes on from there. The table is printed at the end, and with --show
at once, from what there is.
"""

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

from fewlabel import METHODS, Recipe
from fewlabel.grid import Result, read_result, run_grid
from fewlabel.plan import check_recipe


def recipe(options: argparse.Namespace, method: str, seed: int) -> Recipe:
    return Recipe(
        data=options.data,
        root=options.root,
        labels_per_class=options.labels_per_class,
        method=method,
        network="cnn",
        images=options.images,
        evaluations=1,
        floor=False,
        seed=seed,
    )


def tell(result: Result) -> None:
    what = f"{result.recipe['method']}, seed {result.recipe['seed']}"
    print(f"{what}: {result.error or f'{result.accuracy:.2%} in {result.seconds / 60:.1f} min'}", flush=True)


def table(results: list[Result]) -> str:
    """Markdown: a row for each method, alone and with ICL side by side."""
    by_method = defaultdict(list)
    for result in results:
        by_method[result.recipe["method"]].append(result)
    lines = ["| method | steps | alone | minutes | steps | `+icl` | minutes |", "|---|---|---|---|---|---|---|"]
    for name in METHODS:
        if name in by_method or f"{name}+icl" in by_method:
            cells = [cell for full in (name, f"{name}+icl") for cell in summary(by_method[full])]
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(results: list[Result]) -> tuple[str, str, str]:
    """Steps; mean and standard deviation over seeds, with the seeds behind; minutes."""
    done = [result for result in results if result.accuracy is not None]
    if not done:
        return "", "not run", ""
    percent = [100 * (result.accuracy or 0) for result in done]
    spread = f" ± {statistics.stdev(percent):.2f}" if len(percent) > 1 else ""
    each = ", ".join(f"{value:.1f}" for value in percent)
    minutes = statistics.mean(result.seconds for result in done) / 60
    return str(done[0].steps), f"{statistics.mean(percent):.2f}{spread} ({each})", f"{minutes:.1f}"


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
    parser.add_argument("--show", action="store_true", help="run nothing, show what there is")
    options = parser.parse_args()
    recipes = [recipe(options, method, seed) for seed in options.seeds for method in options.methods]
    if options.show:
        found = [read_result(options.out, check_recipe(one)) for one in recipes]
        results = [result for result in found if result]
    else:
        results = run_grid(recipes, options.out, options.jobs, tell)
    print(table(results))


if __name__ == "__main__":
    main()
