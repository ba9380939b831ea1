"""How many inputs at a time predictions are made of: milliseconds an input for several chunk sizes.

    python -m bench.evaluate                      the networks that fewlabel chooses by default, on the CPU
    python -m bench.evaluate --device cuda

`chunk_for` in fewlabel/evaluate.py follows from this table. Chunk sizes take turns; medians are printed.
"""

import argparse
import statistics
from functools import partial

import torch

from bench.timing import in_turn
from fewlabel.networks import make_classifier

NETWORKS = {
    "wrn-28-2": (3, 32, 32),
    "wrn-16-1": (3, 32, 32),
    "wrn-10-1": (1, 8, 8),
    "cnn": (3, 32, 32),
    "mlp": (1280,),
}
CHUNKS = (16, 32, 64, 128, 256, 512, 1024)
INPUTS = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.device}; ms an input")
    print(f"{'':10}" + "".join(f"{chunk:>9}" for chunk in CHUNKS))
    for name in options.networks:
        shape = NETWORKS[name]
        network = make_classifier(name, shape, 10, projector=False, seed=0).eval().to(options.device)
        inputs = torch.randint(256, (INPUTS, *shape)).to(torch.uint8 if len(shape) == 3 else torch.float32)

        def predict(chunk: int) -> None:
            with torch.inference_mode():
                for part in inputs.split(chunk):  # noqa: B023
                    network.probabilities(part.to(options.device)).cpu()  # noqa: B023

        times = in_turn({str(chunk): partial(predict, chunk) for chunk in CHUNKS}, options.repeats, 1)
        found = [1000 * statistics.median(times[str(chunk)]) / INPUTS for chunk in CHUNKS]
        print(f"{name:10}" + "".join(f"{value:9.4f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
