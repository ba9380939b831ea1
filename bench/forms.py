"""Which form of ICL pays? Candidates against FixMatch at equal images through the network; the protocol is docs/icl.md.

    python -m bench.forms screen --root DIR --sentences FILE --features DIR     seeds 0 to 4, all candidates
    python -m bench.forms confirm --root DIR --sentences FILE --features DIR    seeds 5 to 14, the announced one
    python -m bench.forms show

`--features` is a folder with runs of `fewlabel pretrain svhn` and `fewlabel pretrain cifar10`, called svhn and cifar10:
the first stage that all candidates share. `--sentences` is made by `python -m bench.sentences`. Every result is added
to docs/results/forms.jsonl, and what is there is not run again. One thread for each run. Candidates are chosen by the
hidden labels of training examples, and confirmed on test examples.
"""

import argparse
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
import torch
from numpy.typing import NDArray

from bench import forms
from bench.candidates import AS_IT_WAS, BASES, CANDIDATES, CONFIRMED, FROM_SCRATCH, ON_FEATURES
from bench.choices import hidden_accuracy
from bench.results import FOLDER, keep_results, read_results
from fewlabel import METHODS, Dataset, Recipe, load
from fewlabel.data import FeatureKind
from fewlabel.data.examples import Examples, numbered
from fewlabel.evaluate import features_by
from fewlabel.guessing import Guess, first_guess
from fewlabel.methods import TERMS, Term
from fewlabel.networks.saved import load_network
from fewlabel.training import Trainer, check_recipe, make_plan
from fewlabel.training.length import Part, for_images

RESULTS = FOLDER / "forms.jsonl"
# Labels per class and images through the network, the same for all.
SETS = {
    "digits": (2, 100_000),
    "sentences": (2, 150_000),
    "mnist": (1, 160_000),
    "svhn": (25, 200_000),
    "cifar10": (4, 200_000),
}
CHOOSE, CONFIRM = range(5), range(5, 15)


# ---- data


@cache
def data_of(name: str, root: str | None, sentences: str | None, features: str | None) -> Dataset:
    if name in ("digits", "mnist"):
        return load(name, root)
    if name == "sentences":
        assert sentences is not None, "give --sentences"
        table = np.load(sentences)
        order = np.random.default_rng(0).permutation(len(table["y"]))
        parts = order[:8000], order[8000:12000]
        classes = tuple(str(label) for label in np.unique(table["y"]))

        def rows(part: Any, title: str) -> Examples:
            inputs, labels = torch.from_numpy(table["x"][part]), torch.from_numpy(table["y"][part])
            kind = FeatureKind(inputs.shape[1], encoder="minilm")  # whose defaults are those of texts
            return Examples(inputs, labels, classes, numbered(title, len(part)), kind)

        return Dataset("sentences", rows(parts[0], "train"), rows(parts[1], "test"), flip=False)
    assert features is not None, "give --features"
    images, (_, network) = load(name, root), load_network(Path(features) / name)

    def encoded(examples: Examples) -> Examples:
        rows = features_by(network, examples.inputs)
        kind = FeatureKind(rows.shape[1], encoder=name)
        return Examples(rows, examples.labels, examples.classes, examples.names, kind)

    assert images.test is not None
    return replace(images, train=encoded(images.train), test=encoded(images.test))


# ---- runs

_guesses: dict[bytes, Guess] = {}


def guess_once(rows: NDArray[np.float32], labelled: NDArray[np.int64], labels: NDArray[np.int64]) -> Guess:
    """The first guess, which is the same for all candidates: on 70,000 rows it takes longer than the training."""
    key = labelled.tobytes() + labels.tobytes() + rows[:10].tobytes()
    if key not in _guesses:
        _guesses.clear()
        _guesses[key] = first_guess(rows, labelled, labels)
    return _guesses[key]


def run(data: str, candidate: str, seed: int, places: tuple[str | None, ...]) -> dict[str, Any]:
    """One training: to choose by hidden labels of training examples, or to confirm on test examples."""
    torch.set_num_threads(1)
    method, form, settings, changes = CANDIDATES[candidate]
    if candidate == CONFIRMED:
        settings = {"icl.weight": 0.03} if data in FROM_SCRATCH else ON_FEATURES
    if "+icl" in method:
        settings = AS_IT_WAS[data in FROM_SCRATCH] | settings
    before = {**TERMS}
    if form is not None and issubclass(form, Term):
        TERMS["icl"] = form
    elif form is not None:
        METHODS[method] = form
    dataset = data_of(data, *places)
    labels, images = SETS[data]
    try:
        recipe = Recipe(
            data=data, labels_per_class=labels, method=method, settings=settings, seed=seed, images=images, device="cpu"
        )
        usual: dict[str, Any] = {"batch": 64, "mu": 1, "evaluations": 1}
        recipe = check_recipe(replace(recipe, **(usual | changes)))
        with patch("fewlabel.methods.fixmatch.first_guess", guess_once):
            trainer = Trainer(for_images(images, Part(make_plan(recipe, dataset), dataset)), dataset)
        for index in range(trainer.plan.steps):  # without the evaluation at the end of `fit`
            trainer.step(index)
        found = {"hidden": hidden_accuracy(trainer, dataset)}
        if seed in CONFIRM:
            found["accuracy"] = trainer.evaluate()["accuracy"]
    finally:
        TERMS.update(before)  # a worker has other runs to do
    return {"data": data, "candidate": candidate, "seed": seed, "steps": trainer.plan.steps, **found}


def differences(data: str, candidate: str, seeds: Any, measure: str) -> list[float]:
    """The candidate minus its base in points, for each seed that has both."""
    lines = [line for line in read_results(RESULTS) if measure in line]
    found = {(line["data"], line["candidate"], line["seed"]): 100 * line[measure] for line in lines}
    base = BASES.get(candidate, "fixmatch")
    return [
        found[data, candidate, seed] - found[data, base, seed]
        for seed in seeds
        if (data, candidate, seed) in found and (data, base, seed) in found
    ]


def show(seeds: Any, measure: str) -> str:
    lines = [f"| candidate | {' | '.join(SETS)} |", "|---" * (1 + len(SETS)) + "|"]
    for candidate in CANDIDATES:
        cells = []
        for data in SETS:
            changes = differences(data, candidate, seeds, measure)
            error = f" ± {statistics.stdev(changes) / len(changes) ** 0.5:.1f}" if len(changes) > 1 else ""
            cells.append(f"{statistics.mean(changes):+.1f}{error}" if changes else "")
        if any(cells):
            lines.append(f"| {candidate} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("screen", "confirm", "show"))
    parser.add_argument("--root")
    parser.add_argument("--sentences")
    parser.add_argument("--features")
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES), choices=CANDIDATES)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(CHOOSE), help="of the screen")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.part != "show":
        confirm = options.part == "confirm"
        if confirm and not CONFIRMED:
            parser.error("no candidate has been announced: see CONFIRMED in bench/forms.py.")
        names = [BASES.get(CONFIRMED, "fixmatch"), CONFIRMED] if confirm else options.candidates
        there = {(line["data"], line["candidate"], line["seed"]) for line in read_results(RESULTS)}
        places = (options.root, options.sentences, options.features)
        work = [(d, c, s) for d in options.data for s in (CONFIRM if confirm else options.seeds) for c in names]
        task = joblib.delayed(forms.run)  # by its module, since __main__ has another name in a worker
        keep_results(RESULTS, (task(*one, places) for one in work if one not in there), options.jobs)
    print(show(CHOOSE, "hidden"))
    if CONFIRMED:
        print(show(CONFIRM, "accuracy"))


if __name__ == "__main__":
    main()
