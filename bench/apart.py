"""What passes of their own cost a term: a step of icl-ssl as it is, and with all images in one pass.

    python -m bench.apart                         cnn on 28x28x1, batch 64, mu 1
    python -m bench.apart --network wrn-28-2      on 32x32x3

Both sides look at the same images and take turns; the ratio is the median over repeats.
"""

import argparse
import itertools
import statistics

import torch

from bench.timing import images_for, in_turn
from fewlabel import Recipe
from fewlabel.training import Trainer, make_plan

FIRST = 200  # step: before it norms settle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--method", default="icl-ssl")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mu", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="a repeat")
    options = parser.parse_args()
    dataset = images_for(options.network)
    recipe = Recipe(
        method=options.method,
        network=options.network,
        batch=options.batch,
        mu=options.mu,
        labels_per_class=4,
        steps=10_000,
    )
    apart, joint = (Trainer(make_plan(recipe, dataset), dataset) for _ in range(2))
    joint.method.apart = {}  # type: ignore[misc]
    assert apart.step(0).images == joint.step(0).images
    count = {name: itertools.count(FIRST) for name in ("apart", "joint")}
    sides = {"apart": lambda: apart.step(next(count["apart"])), "joint": lambda: joint.step(next(count["joint"]))}
    times = in_turn(sides, options.repeats, options.steps)
    ratio = statistics.median(a / b for a, b in zip(times["apart"], times["joint"], strict=True))
    each = ", ".join(f"{name} {1000 * statistics.median(times[name]):.1f} ms" for name in sides)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{options.method}, {options.network}: {each}, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
