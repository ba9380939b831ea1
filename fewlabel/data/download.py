"""The official files of the named data sets, fetched with their checksums."""

import contextlib
import hashlib
import http.client
import os
import sys
import tarfile
import tempfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ..errors import UserError, unknown


@dataclass(frozen=True)
class File:
    """A file to fetch; a tar archive is unpacked and then removed."""

    folder: str
    address: str
    md5: str  # as published with the files or in the field's common loaders


def _idx(folder: str, address: str, sums: tuple[str, str, str, str]) -> list[File]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return [File(folder, f"{address}/{name}-ubyte.gz", md5) for name, md5 in zip(names, sums, strict=True)]


SOURCES: dict[str, list[File]] = {
    "mnist": _idx(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "fashion-mnist": _idx(
        "fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "svhn": [
        File("svhn", "http://ufldl.stanford.edu/housenumbers/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        File("svhn", "http://ufldl.stanford.edu/housenumbers/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ],
    "cifar10": [
        File("", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    ],
    "cifar100": [
        File("", "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
    ],
}


def download(name: str, root: Path) -> None:
    """Download missing files; a file with a wrong checksum is refused and removed."""
    if name == "digits":
        return  # bundled with scikit-learn
    if name not in SOURCES:
        raise unknown("data set to download", name, SOURCES)
    for file in SOURCES[name]:
        target = root / file.folder / file.address.rsplit("/", 1)[1]
        unpacked = root / {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}.get(name, "-")
        if unpacked.is_dir():
            continue
        if not target.exists() and not target.with_suffix("").exists():
            fetch(file, target)
        if target.name.endswith(".tar.gz"):
            unpack(target, unpacked)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into `folder`, which appears under its name only when it is complete."""
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="unpacking-") as temporary:
            with tarfile.open(archive) as members:
                members.extractall(temporary, filter="data")
            os.rename(Path(temporary) / folder.name, folder)
        archive.unlink()
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise UserError(
            f"could not unpack {archive} ({error}): free some space or delete it, then try again."
        ) from error


def fetch(file: File, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    digest = hashlib.md5(usedforsecurity=False)
    bar = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(file.address, timeout=60) as source, open(partial, "wb") as sink, bar:
            length = source.headers.get("Content-Length")
            task = bar.add_task(f"Fetching {target.name}", total=int(length) if length else None)
            while block := source.read(1 << 16):
                digest.update(block)
                sink.write(block)
                bar.update(task, advance=len(block))
        if digest.hexdigest() != file.md5:
            raise UserError(f"the file from {file.address} has an unexpected checksum: try again later.")
        partial.rename(target)
    except (http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise UserError(
            f"could not fetch {file.address} ({reason}): try again, or put the file into {target.parent}."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
