"""Our whole training step beside its limit: as many images through the same network, ready tensors, nothing else.

    python -m bench.step                       cnn on 28x28x1, fixmatch and icl-ssl, batch 64, mu 1
    python -m bench.step --network wrn-28-2    on 32x32x3
    python -m bench.step --mu 7

Both sides run in turn in one process; the medians and their ratio are printed, and where the rest of our step goes:
data (fetching the pixels), views, the method's loss, EMA, and counting for progress and report.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from bench.timing import images_for, in_turn
from fewlabel import Recipe
from fewlabel.training import Trainer, make_plan
from fewlabel.training.trainer import make_optimiser
from fewlabel.training.views import BatchViews

FIRST = 200  # step: before it norms settle


def bare_step(training: Trainer, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """Forward, backward and update of the same network on ready tensors."""
    network = training.network
    optimiser = make_optimiser(network, training.plan)

    def step() -> None:
        output = network(images)
        loss = torch.nn.functional.cross_entropy(output.logits, labels)
        if output.embedding is not None:
            loss = loss + output.embedding.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


class Parts:
    """Seconds spent in parts of our step; a part within another is not counted twice."""

    def __init__(self, training: Trainer) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = 0.0
        for name, owner, function in (
            ("data", BatchViews, "_batch"),
            ("views", training.method, "inputs"),
            ("loss", training.method, "loss"),
            ("EMA", training.ema, "update"),
            ("counting", training.meter, "add"),
        ):
            self.seconds[name] = 0.0
            setattr(owner, function, self.timed(name, getattr(owner, function)))

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            outer, self._inner = self._inner, 0.0
            began = time.perf_counter()
            result = function(*values)
            taken = time.perf_counter() - began
            self.seconds[name] += taken - self._inner
            self._inner = outer + taken
            return result

        return call


def measure(recipe: Recipe, repeats: int, steps: int) -> None:
    assert recipe.network is not None
    dataset = images_for(recipe.network)
    ours, bare, plain = (Trainer(make_plan(recipe, dataset), dataset) for _ in range(3))
    plain.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    rows = ours.step(0).images
    pixels = torch.randn(rows, *dataset.train.pixels.shape[1:])
    index = itertools.count(FIRST)
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.step(next(index)),
        "limit": bare_step(bare, pixels, torch.arange(rows) % 10),
        "layout": bare_step(plain, pixels, torch.arange(rows) % 10),
    }
    with mock.patch.object(BatchViews, "_batch", BatchViews._batch):  # what is wrapped there is unwrapped again
        parts = Parts(ours)
        times = in_turn(sides, repeats, steps)
    ratio = statistics.median(a / b for a, b in zip(times["ours"], times["limit"], strict=True))
    step, bound = (statistics.median(times[side]) for side in ("ours", "limit"))
    print(
        f"{recipe.method:10} {recipe.network:9} batch {recipe.batch} mu {recipe.mu}: {rows} images a step, "
        f"{1000 * step:.1f} ms, limit {1000 * bound:.1f} ms, ratio {ratio:.3f} ({rows / step:.0f} images/s)"
    )
    layout = statistics.median(a / b for a, b in zip(times["layout"], times["limit"], strict=True))
    print(f"{'':10} the limit in torch's default memory layout, not channels_last: {layout:.3f} times as long")
    whole = statistics.mean(times["ours"]) * (next(index) - FIRST)
    print(f"{'':10} of our step: {', '.join(f'{name} {part / whole:.1%}' for name, part in parts.seconds.items())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["fixmatch", "icl-ssl"])
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mu", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="a repeat")
    parser.add_argument("--large", action="store_true", help="allow wrn-28-2 at mu 7, which takes about 15 GB")
    options = parser.parse_args()
    if options.network != "cnn" and options.batch * options.mu > 256 and not options.large:
        parser.error("that takes about 15 GB of memory: say --large.")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for method in options.methods:
        recipe = Recipe(
            method=method,
            network=options.network,
            batch=options.batch,
            mu=options.mu,
            labels_per_class=4,
            steps=10_000,
        )
        measure(recipe, options.repeats, options.steps)


if __name__ == "__main__":
    main()
