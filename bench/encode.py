"""How fast pictures are encoded, and what would be faster: torch with several batch sizes, folded norms, onnxruntime.

    python -m bench.encode                 on an idle machine; one thread, sides in turn, medians
    python -m bench.encode --folders       folders by `encode_folder`: 600 small PNGs, 60 JPEGs of 12 megapixels
    python -m bench.encode --memory        most memory that a training on 5,000 and on 100,000 pictures takes

The rule that this is to justify: torch on every device, so that features do not depend on which other packages are
installed; batches of 4 on a CPU, in one process per core with one thread each.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from bench.timing import in_turn
from fewlabel.encoders import encode_folder, find_encoder
from fewlabel.encoders.encoder import inference_form

PICTURES, ROUNDS = 40, 7


def by_onnxruntime(module: nn.Module, size: int, batch: int) -> Callable[[Tensor], object]:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        torch.onnx.export(
            module, (torch.zeros(batch, 3, size, size),), path, dynamo=True, verbose=False, external_data=False
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda images: session.run(None, {name: images.numpy()})


def encode_all(call: Callable[[Tensor], object], inputs: Tensor, batch: int) -> None:
    for part in inputs.split(batch):
        call(part)


def sides() -> None:
    torch.set_num_threads(1)
    encoder = find_encoder("lite0")
    assert encoder.size is not None
    pixels = torch.randint(256, (PICTURES, 3, encoder.size, encoder.size), dtype=torch.uint8)
    images = encoder.normalise(pixels)
    plain = images.contiguous()

    fused = inference_form(encoder.module)
    session = by_onnxruntime(copy.deepcopy(encoder.module), encoder.size, 4)
    ways: dict[str, tuple[Callable[[Tensor], object], Tensor, int]] = {
        f"torch, folded norms, batches of {batch}": (fused, images, batch) for batch in (1, 2, 4, 8, 20)
    }
    ways["torch, batches of 4"] = (encoder.module, images, 4)
    ways["onnxruntime, batches of 4"] = (session, plain, 4)
    with torch.inference_mode():
        difference = (fused(images[:4]) - encoder.module(images[:4])).abs().max().item()
        work = {name: partial(encode_all, call, inputs, batch) for name, (call, inputs, batch) in ways.items()}
        seconds = in_turn(work, ROUNDS, 1)
    for name, times in seconds.items():
        print(f"| {name} | {PICTURES / statistics.median(times):.0f} pictures/s |")
    print(f"folded norms change features by {difference:.1g} at most")


def folders() -> None:
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as top:
        os.environ["FEWLABEL_CACHE"] = f"{top}/cache"
        for title, suffix, count, size in (
            ("32x32 PNG", "png", 600, (32, 32)),
            ("12 MP JPEG", "jpg", 60, (4000, 3000)),
        ):
            folder = Path(top, suffix)
            folder.mkdir()
            for number in range(count):
                small = Image.fromarray(draw.integers(0, 256, (24, 32, 3), np.uint8))
                small.resize(size, Image.Resampling.BICUBIC).save(folder / f"{number}.{suffix}")
            files = sorted(path.name for path in folder.iterdir())
            encode_folder(find_encoder("lite0"), folder, files[:40])  # starts the processes
            began = time.perf_counter()
            encode_folder(find_encoder("lite0"), folder, files)
            print(f"| {title} | {(count - 40) / (time.perf_counter() - began):.0f} pictures/s |", flush=True)
            began = time.perf_counter()
            encode_folder(find_encoder("lite0"), folder, files)
            print(f"| {title}, again | {time.perf_counter() - began:.2f} s for all |", flush=True)


class Small(nn.Module):
    """As many features as EfficientNet-Lite0 has, in no time: what is to be measured is all the rest."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1).repeat(1, 7)[:, :1280]


def memory() -> None:
    with tempfile.TemporaryDirectory() as top:
        example = torch.zeros(4, 3, 8, 8)
        dynamic = ({0: torch.export.Dim("n")},)
        program = torch.onnx.export(Small(), (example,), dynamic_shapes=dynamic, dynamo=True, verbose=False)
        assert program is not None
        program.save(f"{top}/encoder.onnx")
        for count in (5_000, 100_000):
            folder = Path(top, str(count))
            folder.mkdir()
            draw = np.random.default_rng(0)
            for number in range(count):
                Image.fromarray(draw.integers(0, 256, (8, 8, 3), np.uint8)).save(folder / f"{number}.png")
            labels = "".join(f"{number}.png,{'ab'[number % 2]}\n" for number in range(20))
            Path(top, f"{count}.csv").write_text(f"file,label\n{labels}")
            words = ["train", str(folder), "--labels", f"{top}/{count}.csv", "--encoder", f"{top}/encoder.onnx"]
            code = (
                "import resource, sys; from fewlabel.commands.main import main; main(sys.argv[1:]); "
                "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
            )
            command = [sys.executable, "-c", code, *words, "--steps", "100", "--out", f"{top}/run-{count}"]
            environment = {**os.environ, "FEWLABEL_CACHE": f"{top}/cache-{count}"}
            began = time.perf_counter()
            result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
            seconds = time.perf_counter() - began
            print(f"| {count:,} pictures | {result.stdout.split()[-1]} MB | {seconds:.0f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", action="store_true")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.memory:
        memory()
    elif options.folders:
        folders()
    else:
        sides()


if __name__ == "__main__":
    main()
