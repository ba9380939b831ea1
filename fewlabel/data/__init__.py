"""Data: `load` gives a Dataset from a folder, an .npz file or a name."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError, unknown
from .decode import CHANNELS
from .download import download as fetch
from .folder import read_folder, read_labelled
from .images import Dataset, Images
from .named import NAMED
from .npz import read_npz
from .split import few_label_split

__all__ = ["Dataset", "Images", "few_label_split", "load", "load_test"]


def load(
    data: str | Path,
    root: str | Path | None = None,
    *,
    labels: str | Path | None = None,
    test: str | Path | None = None,
    size: int | None = None,
    download: bool = False,
) -> Dataset:
    """Training and test images of a named data set, an .npz file or a folder of pictures.

    >>> load("digits").train.pixels.shape
    torch.Size([1297, 1, 8, 8])
    """
    name, path = str(data), Path(data)
    if name in NAMED or path.suffix == ".npz":
        for given, flag in ((labels, "--labels"), (test, "--test"), (size, "--size")):
            if given is not None:
                raise UserError(f"{flag} is for folders of pictures; {name} brings its own.")
    if name in NAMED:
        if download:
            fetch(name, Path(root or "."))
        return NAMED[name](Path(root or "."))
    if download:
        raise unknown("data set to download", name, NAMED)
    if path.suffix == ".npz" and path.is_file():
        return read_npz(path)
    if path.is_dir():
        return read_folder(path, labels=labels, test=test, size=size)
    if path.exists():
        raise UserError(f"{path} is neither a folder of pictures nor an .npz file.")
    if path.suffix or len(path.parts) > 1 or name.endswith("/"):
        raise UserError(f"there is no folder or .npz file {name}.")
    raise unknown("data set or folder", name, NAMED)


def load_test(
    data: str | Path,
    root: str | Path | None,
    *,
    labels: str | Path | None,
    classes: Sequence[str],
    channels: int,
    size: int,
) -> Images:
    """Images to judge a model by, which fit its classes and picture size."""
    if Path(data).is_dir() and str(data) not in NAMED:
        test: Images | None = read_labelled(Path(data), classes, size, labels)
        channels = CHANNELS  # pictures of a folder are made to fit
    else:
        test = load(data, root, labels=labels).test
    if test is None:
        raise UserError(f"{data} has no test part.")
    if not test.known:
        raise UserError(f"the test images of {data} have no labels: nothing can be judged by them.")
    if test.classes != tuple(classes) or (test.channels, test.size) != (channels, size):
        raise UserError(f"the images of {data} have other classes or another size than those the model was trained on.")
    return test
