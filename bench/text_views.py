"""Do views of texts pay? Each text is encoded again with words left out, or with its sentences in another order.

    pip download --no-deps --no-binary :all: vaderSentiment
    python -m bench.text_views vaderSentiment-3.3.2.tar.gz          can be stopped and continued
    python -m bench.text_views --show

3,000 snippets of four kinds (bench/sentences.py), minilm, 2 and 4 labels per class, seeds 0 to 4, the settings of
`fewlabel train`. Judged by snippets whose labels were hidden. Results go into docs/results/text-views.jsonl.
"""

import argparse
import random
import re
import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from bench.choices import hidden_accuracy
from bench.results import FOLDER, add_result, read_results
from bench.sentences import KINDS, snippets
from fewlabel import Dataset, Recipe
from fewlabel.data import TextKind
from fewlabel.data.examples import Examples, numbered
from fewlabel.encoders.minilm import load_minilm
from fewlabel.encoders.texts import encode_texts
from fewlabel.training import Trainer, check_recipe, fit, make_plan

RESULTS = FOLDER / "text-views.jsonl"
TEXTS, LABELS, SEEDS = 3000, (2, 4), range(5)


def without_words(share: float) -> Callable[[str, random.Random], str]:
    """Each word is left out with that probability; one is always left."""

    def view(text: str, draw: random.Random) -> str:
        words = text.split()
        kept = [word for word in words if draw.random() >= share]
        return " ".join(kept or words[:1])

    return view


def shuffled(text: str, draw: random.Random) -> str:
    """Its sentences, or the parts between commas, in another order."""
    parts = re.split(r"(?<=[.!?,;])\s+", text)
    draw.shuffle(parts)
    return " ".join(parts)


# name -> the weak and the strong view
WAYS: dict[str, tuple[Callable[[str, random.Random], str], ...]] = {
    "none": (),
    "words left out: 10%, 30%": (without_words(0.1), without_words(0.3)),
    "sentences shuffled; words left out: 30%": (shuffled, without_words(0.3)),
}


@cache
def examples(archive: str, way: str) -> Examples:
    texts, kinds = snippets(archive)
    chosen = np.random.default_rng(0).permutation(len(texts))[:TEXTS]
    texts = [texts[i] for i in chosen]
    encoder = load_minilm()
    views = {}
    for name, view in zip(("weak", "strong"), WAYS[way], strict=False):
        made = [[view(text, random.Random(f"{name} {number} {text}")) for text in texts] for number in range(2)]
        views[name] = [torch.from_numpy(encode_texts(encoder, part)) for part in made]
    kind = TextKind(encoder.features, encoder=encoder.name, digest=encoder.digest, given=encoder)
    labels = torch.tensor([kinds[i] for i in chosen])
    rows = torch.from_numpy(encode_texts(encoder, texts))
    return Examples(rows, labels, KINDS, numbered("text", TEXTS), kind, views=views)


def run(archive: str, way: str, per_class: int, seed: int) -> float:
    dataset = Dataset("sentences", examples(archive, way), None, flip=False)
    recipe = check_recipe(Recipe(data="sentences", labels_per_class=per_class, steps=600, seed=seed, device="cpu"))
    trainer = Trainer(make_plan(recipe, dataset), dataset)
    fit(trainer)
    return hidden_accuracy(trainer, dataset)


def show() -> str:
    found = {(r["views"], r["per_class"], r["seed"]): 100 * r["hidden"] for r in read_results(RESULTS)}
    lines = ["| views | labels per class | accuracy | over none |", "|---|---|---|---|"]
    for way in WAYS:
        for per_class in LABELS:
            seeds = [seed for seed in SEEDS if (way, per_class, seed) in found and ("none", per_class, seed) in found]
            if len(seeds) > 1:
                values = [found[way, per_class, seed] for seed in seeds]
                changes = [value - found["none", per_class, s] for value, s in zip(values, seeds, strict=True)]
                error = statistics.stdev(changes) / len(changes) ** 0.5
                change = f"{statistics.mean(changes):+.1f} ± {error:.1f}"
                lines.append(f"| {way} | {per_class} | {statistics.mean(values):.1f} | {change} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", nargs="?", help="vaderSentiment-3.3.2.tar.gz")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    there = {(r["views"], r["per_class"], r["seed"]) for r in read_results(RESULTS)}
    for way in () if options.show or options.archive is None else WAYS:
        for per_class in LABELS:
            for seed in SEEDS:
                if (way, per_class, seed) not in there:
                    line: dict[str, Any] = {"views": way, "per_class": per_class, "seed": seed}
                    add_result(RESULTS, line | {"hidden": run(options.archive, way, per_class, seed)})
    print(show())


if __name__ == "__main__":
    main()
