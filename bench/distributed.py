"""A step on one process with two threads beside the same step on two processes with one thread each.

    python -m bench.distributed                       cnn on 28x28x1, fixmatch and icl-ssl, batch 64, mu 1
    python -m bench.distributed --network wrn-28-2    on 32x32x3

Each side is started in turn, takes some steps that do not count and then some that do; the median time and the
median ratio to the first side are printed, and what each process sends to the other in a step. Also with norms of
each process alone.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch

from bench.timing import images_for
from fewlabel import Recipe
from fewlabel.ranks import all_ranks
from fewlabel.training import Trainer, make_plan


def measure(options: argparse.Namespace) -> None:
    """In one of the processes: take the steps, and say how long one took."""
    torch.set_num_threads(options.threads)
    dataset = images_for(options.network)
    with all_ranks() as ranks:
        for method in options.methods:
            recipe = Recipe(
                labels_per_class=4,
                method=method,
                network=options.network,
                batch=options.batch,
                mu=options.mu,
                steps=10_000,
                share_norms=options.share_norms,
            )
            training = Trainer(make_plan(recipe, dataset), dataset, ranks=ranks)
            for index in range(2):
                training.step(index)
            ranks.sent = ranks.messages = 0
            began = time.perf_counter()
            for index in range(2, 2 + options.steps):
                training.step(index)
            seconds = (time.perf_counter() - began) / options.steps
            facts = {"method": method, "seconds": seconds, "images": training.step(0).images}
            facts |= {"sent": ranks.sent // (options.steps + 1), "messages": ranks.messages // (options.steps + 1)}
            facts["weights"] = 4 * sum(p.numel() for p in training.model.parameters())
            if ranks.first:
                print(json.dumps(facts), flush=True)


def launch(options: argparse.Namespace, processes: int, share_norms: bool) -> dict[str, dict[str, float]]:
    """The facts of each method, from processes that were started for it."""
    words = ["--network", options.network, "--batch", str(options.batch), "--mu", str(options.mu)]
    words += ["--steps", str(options.steps), "--threads", str(2 // processes), "--methods", *options.methods]
    words += ["--measure", "--share-norms" if share_norms else "--no-share-norms"]
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    done = subprocess.run([*launcher, "bench.distributed", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    facts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {fact.pop("method"): fact for fact in facts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mu", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=["fixmatch", "icl-ssl"])
    parser.add_argument("--threads", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--share-norms", action=argparse.BooleanOptionalAction, default=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options)
        return
    sides = {
        "one process, two threads": (1, True),
        "two processes": (2, True),
        "two processes, norms alone": (2, False),
    }
    runs: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in sides}
    for _ in range(options.repeats):
        for name, (processes, share_norms) in sides.items():
            runs[name].append(launch(options, processes, share_norms))
    print(f"torch {torch.__version__}; {options.network}, batch {options.batch}, mu {options.mu}")
    first = next(iter(sides))
    for method in options.methods:
        weights = runs[first][0][method]["weights"]
        print(f"{method}: {runs[first][0][method]['images']:.0f} images a step, {weights / 1e6:.2f} MB of weights")
        for name, results in runs.items():
            times = [result[method]["seconds"] for result in results]
            ratio = statistics.median(
                mine / other[method]["seconds"] for mine, other in zip(times, runs[first], strict=True)
            )
            fact = results[0][method]
            sent = f", {fact['sent'] / 1e6:.2f} MB sent in {fact['messages']:.0f} messages" if fact["messages"] else ""
            print(f"  {name:27} {1000 * statistics.median(times):7.1f} ms a step, {ratio:.2f} x{sent}")


if __name__ == "__main__":
    main()
