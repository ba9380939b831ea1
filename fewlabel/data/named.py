"""Data sets by name, read from their official files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from ..errors import UserError
from .cifar import read_batch, read_names
from .examples import Dataset, Examples, numbered
from .idx import IMAGES, LABELS, read_idx
from .images import Images

DIGITS_TEST, DIGITS_SEED = 500, 0  # scikit-learn's digits have no official test part: this one is fixed
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DIGIT_NAMES = tuple("0123456789")


def images(part: str, pixels: np.ndarray, labels: np.ndarray, classes: Sequence[str]) -> Examples:
    if len(pixels) != len(labels):
        raise UserError(f"the {part} part has {len(pixels)} pictures but {len(labels)} labels: its files do not match.")
    if len(labels) and not (0 <= labels.min() and labels.max() < len(classes)):
        raise UserError(f"the {part} part has labels outside 0 to {len(classes) - 1}: its files are damaged.")
    pixels = np.ascontiguousarray(pixels)
    if not pixels.flags.writeable:
        pixels = pixels.copy()
    return Images(
        torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64)), tuple(classes), numbered(part, len(labels))
    )


def find(root: Path, folders: Sequence[str], names: Sequence[str], data: str) -> Path:
    """The first of `names` in root itself or in one of the usual subfolders."""
    for folder in ("", *folders):
        for name in names:
            if (path := root / folder / name).is_file():
                return path
    raise UserError(
        f"{data}: no {' or '.join(names)} in {root} or its {', '.join(folders)}: "
        "give the folder of the official files with --root, or fetch them with "
        f"`fewlabel train {data} --root {root} --download`."
    )


def digits(root: Path) -> Dataset:
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = np.round(raw.images * (255 / 16)).astype(np.uint8)[:, None]  # bundled as 0 to 16
    order = np.argsort(np.random.PCG64(DIGITS_SEED).random_raw(len(pixels)), kind="stable")
    test, train = order[:DIGITS_TEST], order[DIGITS_TEST:]
    return Dataset(
        "digits",
        images("train", pixels[train], raw.target[train], DIGIT_NAMES),
        images("test", pixels[test], raw.target[test], DIGIT_NAMES),
        flip=False,
    )


def _idx(name: str, folders: Sequence[str], classes: Sequence[str], flip: bool) -> Callable[[Path], Dataset]:
    def read(root: Path) -> Dataset:
        def part(prefix: str, title: str) -> Examples:
            stems = (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
            pixels, labels = (
                read_idx(find(root, folders, (stem, f"{stem}.gz"), name), magic)
                for stem, magic in zip(stems, (IMAGES, LABELS), strict=True)
            )
            return images(title, pixels[:, None], labels, classes)

        return Dataset(name, part("train", "train"), part("t10k", "test"), flip)

    return read


def svhn(root: Path) -> Dataset:
    from scipy.io import loadmat

    def part(title: str) -> Examples:
        path = find(root, ("svhn", "SVHN"), (f"{title}_32x32.mat",), "svhn")
        try:
            content = loadmat(path, variable_names=("X", "y"))
        except Exception as error:  # scipy raises many kinds for a damaged file
            raise UserError(f"{path} cannot be read as a .mat file ({error}): download it again.") from error
        if "X" not in content or "y" not in content:
            raise UserError(f"{path} holds no X and y, so it is not the expected SVHN file: download it again.")
        pictures, numbers = content["X"], content["y"]
        shape = (32, 32, 3, numbers.size)
        if pictures.dtype != np.uint8 or pictures.shape != shape or numbers.dtype.kind not in "iuf":
            raise UserError(
                f"{path} holds X and y of other types, so it is not the expected SVHN file: download it again."
            )
        labels = numbers.reshape(-1).astype(np.int64) % 10  # the official files write digit 0 as 10
        return images(title, pictures.transpose(3, 2, 0, 1), labels, DIGIT_NAMES)

    return Dataset("svhn", part("train"), part("test"), flip=False)


def cifar10(root: Path) -> Dataset:
    def path(name: str) -> Path:
        return find(root, ("cifar-10-batches-py",), (name,), "cifar10")

    classes = read_names(path("batches.meta"), "label_names")
    batches = [read_batch(path(f"data_batch_{i}"), "labels") for i in range(1, 6)]
    pixels, labels = (np.concatenate(column) for column in zip(*batches, strict=True))
    test = images("test", *read_batch(path("test_batch"), "labels"), classes)
    return Dataset("cifar10", images("train", pixels, labels, classes), test, flip=True)


def cifar100(root: Path) -> Dataset:
    def path(name: str) -> Path:
        return find(root, ("cifar-100-python",), (name,), "cifar100")

    classes = read_names(path("meta"), "fine_label_names")
    train, test = (images(part, *read_batch(path(part), "fine_labels"), classes) for part in ("train", "test"))
    return Dataset("cifar100", train, test, flip=True)


NAMED: dict[str, Callable[[Path], Dataset]] = {
    "digits": digits,
    "mnist": _idx("mnist", ("mnist", "MNIST/raw"), DIGIT_NAMES, flip=False),
    "fashion-mnist": _idx("fashion-mnist", ("fashion-mnist", "FashionMNIST/raw"), FASHION, flip=True),
    "svhn": svhn,
    "cifar10": cifar10,
    "cifar100": cifar100,
}
