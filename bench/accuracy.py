"""Seconds of training until the averaged weights reach an accuracy, with the default recipe and with the first one.

    python -m bench.accuracy --root DIR                       MNIST, 20 labels, cnn, to 95%, seeds 0 to 2
    python -m bench.accuracy --root DIR --stop                no further than to 95%
    python -m bench.accuracy --root DIR --sides ours --recipe mu=4 learning_rate=0.1

The clock stands still while the test images are looked at, every 40 steps. The first defaults of the project (batch 64,
mu 1, learning rate 0.03) run with today's code: what has become faster since then serves both sides.
"""

import argparse
import json
import math
import statistics
import time
from typing import Any

import torch

from fewlabel import Recipe, load
from fewlabel.data import Dataset
from fewlabel.evaluate import accuracy, predict_probabilities
from fewlabel.networks import with_precise_norms
from fewlabel.training import Trainer, make_plan

FIRST = {"batch": 64, "mu": 1, "learning_rate": 0.03}


def seconds_to(goal: float, recipe: Recipe, dataset: Dataset, every: int, stop: bool) -> tuple[float, int, float]:
    """Seconds and steps until the goal (infinite and 0 where it is not reached), and the accuracy found last."""
    assert dataset.test is not None
    plan = make_plan(recipe, dataset)
    training = Trainer(plan, dataset)
    spent, reached, found = 0.0, (math.inf, 0), 0.0
    for done in range(1, plan.steps + 1):
        began = time.perf_counter()
        training.step(done - 1)
        spent += time.perf_counter() - began
        if done == plan.steps or (done % every == 0 and not reached[1]):
            network = with_precise_norms(training.teacher, dataset.train.pixels)
            found = accuracy(predict_probabilities(network, dataset.test.pixels).argmax(1), dataset.test.labels)
            if found >= goal and not reached[1]:
                reached = (spent, done)
        if stop and reached[1]:
            break
    return *reached, found


def value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--root", help="where the official files lie")
    parser.add_argument("--labels-per-class", type=int, default=2)
    parser.add_argument("--goal", type=float, default=0.95)
    parser.add_argument("--methods", nargs="+", default=["fixmatch", "icl-ssl"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--sides", nargs="+", choices=["first", "ours"], default=["first", "ours"])
    parser.add_argument("--stop", action="store_true", help="end a run where it has reached the goal")
    parser.add_argument("--recipe", nargs="*", default=[], help="changes of our side: NAME=VALUE of Recipe")
    options = parser.parse_args()
    changes = {name: value(text) for name, _, text in (word.partition("=") for word in options.recipe)}
    sides = {side: FIRST if side == "first" else changes for side in options.sides}
    dataset = load(options.data, options.root)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; to {options.goal:.0%}")
    for method in options.methods:
        times: dict[str, list[float]] = {side: [] for side in sides}
        for seed in options.seeds:
            for side, settings in sides.items():
                common: dict[str, Any] = {"network": "cnn", "method": method, "seed": seed}
                recipe = Recipe(options.data, labels_per_class=options.labels_per_class, **common | settings)
                seconds, steps, last = seconds_to(options.goal, recipe, dataset, options.every, options.stop)
                times[side].append(seconds)
                print(
                    f"  {method}, {side}, seed {seed}: {seconds:.0f} s, {steps} steps; at the end {last:.2%}",
                    flush=True,
                )
        medians = {side: statistics.median(of_side) for side, of_side in times.items()}
        print(f"{method}: median " + ", ".join(f"{side} {median:.0f} s" for side, median in medians.items()))
        if len(medians) == 2:
            print(f"{method}: {medians['ours'] / medians['first']:.2f} of the time")


if __name__ == "__main__":
    main()
