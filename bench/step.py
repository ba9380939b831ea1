"""Our whole training step beside its limit: as many images through the same network, ready tensors, nothing else.

    python -m bench.step                       cnn on 28x28x1, fixmatch and icl-ssl, batch 64, mu 1
    python -m bench.step --network wrn-28-2    on 32x32x3
    python -m bench.step --mu 7 --repeats 9

Both sides run in turn in one process; the medians and their ratio are printed.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from fewlabel import Recipe
from fewlabel.data import Dataset, Images
from fewlabel.data.images import numbered
from fewlabel.plan import make_plan
from fewlabel.training import Training, make_optimiser


def noise_images(count: int, channels: int, size: int) -> Dataset:
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, channels, size, size), generator=draw).to(torch.uint8)
    classes = tuple("0123456789")
    return Dataset(
        "noise", Images(pixels, torch.arange(count) % 10, classes, numbered("train", count)), None, flip=True
    )


def bare_step(training: Training, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """Forward, backward and update of the same network on ready tensors."""
    network = training.network
    optimiser = make_optimiser(network, training.plan.recipe)

    def step() -> None:
        output = network(images)
        loss = torch.nn.functional.cross_entropy(output.logits, labels)
        if output.embedding is not None:
            loss = loss + output.embedding.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def measure(method: str, network: str, batch: int, mu: int, repeats: int, steps: int) -> None:
    channels, size = (1, 28) if network == "cnn" else (3, 32)
    dataset = noise_images(10_000, channels, size)
    recipe = Recipe(method=method, network=network, batch=batch, mu=mu, labels_per_class=4, steps=10_000)
    ours, bare = (Training(make_plan(recipe, dataset), dataset) for _ in range(2))
    rows = ours.advance(0).images
    limit = bare_step(bare, torch.randn(rows, channels, size, size), torch.arange(rows) % 10)
    limit()
    index, times = 1, {"ours": [0.0] * repeats, "limit": [0.0] * repeats}
    for repeat in range(repeats):
        for _ in range(steps):
            began = time.perf_counter()
            ours.advance(index)
            between = time.perf_counter()
            limit()
            times["ours"][repeat] += (between - began) / steps
            times["limit"][repeat] += (time.perf_counter() - between) / steps
            index += 1
    ratio = statistics.median(a / b for a, b in zip(times["ours"], times["limit"], strict=True))
    step, bound = (statistics.median(times[side]) for side in ("ours", "limit"))
    print(
        f"{method:10} {network:9} batch {batch} mu {mu}: {rows} images a step, "
        f"{1000 * step:.1f} ms, limit {1000 * bound:.1f} ms, ratio {ratio:.3f} ({rows / step:.0f} images/s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["fixmatch", "icl-ssl"])
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mu", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="a repeat")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for method in options.methods:
        measure(method, options.network, options.batch, options.mu, options.repeats, options.steps)


if __name__ == "__main__":
    main()
