"""Strong views per second: ours, a whole batch at once, beside Pillow, image by image; one core.

    python -m bench.augment                    32x32x3, batches of 448
    python -m bench.augment --size 28 --channels 1

Also the time of each operation by itself, on the whole batch.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from PIL import Image
from torch import Tensor

from bench import usual
from bench.timing import noise_images
from fewlabel.augment import strong
from fewlabel.augment.randaugment import LEVELS, OPERATIONS, apply_geometric, apply_point
from fewlabel.randomness import Draws


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=448)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pixels = noise_images(options.batch, options.channels, options.size).train.pixels
    pictures = [Image.fromarray((p[0] if len(p) == 1 else p.permute(1, 2, 0)).numpy()) for p in pixels]
    draw = torch.Generator().manual_seed(0)

    def ours() -> None:
        strong(pixels, Draws(draw, len(pixels)))

    def theirs() -> None:
        torch.stack([usual.to_tensor(usual.strong(picture)) for picture in pictures])

    ours()
    times = [(seconds(ours), seconds(theirs)) for _ in range(options.repeats)]
    mine, pillow = (statistics.median(side) for side in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in times)
    shape = f"{options.size}x{options.size}x{options.channels}"
    print(f"torch {torch.__version__}, 1 thread; {options.batch} images of {shape}")
    speeds = f"ours {options.batch / mine:.0f} views/s, Pillow {options.batch / pillow:.0f} views/s"
    print(f"{speeds}: {ratio:.1f} times as fast")

    level = torch.randint(1, LEVELS + 1, (options.batch, 1), generator=draw)
    alone = {}
    for position, name in enumerate(OPERATIONS):
        chosen = torch.full((options.batch, 1), position)

        def apply(chosen: Tensor = chosen) -> None:
            apply_geometric(apply_point(pixels, chosen[:, 0], level[:, 0]), chosen, level)

        alone[name] = statistics.median(seconds(apply) for _ in range(options.repeats))
    middle = statistics.median(alone.values())
    print("each operation on the whole batch, and in medians of all:")
    for name, time_taken in sorted(alone.items(), key=lambda item: -item[1]):
        print(f"  {name:13} {1e3 * time_taken:6.2f} ms  {time_taken / middle:4.1f}")


if __name__ == "__main__":
    main()
