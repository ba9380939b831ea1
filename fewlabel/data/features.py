"""Features of pictures from a frozen encoder. The network gets the features; people see the pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from ..decode import decode, square
from ..encoders import (
    Encoder,
    PixelEncoder,
    encode_folder,
    encode_pictures,
    encoders_of_views,
    features_of,
    find_encoder,
)
from ..errors import UserError
from ..value_range import ValueRange
from .arrays import as_array, as_pictures, as_pixels, brightest
from .examples import UNLABELLED, Examples
from .images import png
from .kind import without_range
from .labels import LabelFiles
from .vectors import VectorKind

SHOWN = 96  # side of the pictures that people are shown


@dataclass(frozen=True)
class FeatureKind(VectorKind):
    """float32 (N, columns), computed from pictures by an encoder."""

    encoder: str = ""  # its name
    digest: str = ""  # of its weights
    value_range: ValueRange | None = None  # of files with more than 8 bits
    given: Encoder | None = field(default=None, compare=False, repr=False)  # the encoder itself, once it is loaded

    name = "features"
    family = "features"
    noun = "images"
    input_name = "pixels"

    def describe(self) -> str:
        return f"images as {self.columns} features of {self.encoder}"

    def to_dict(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "given"}
        return {"kind": self.name, **without_range(own)}

    def find(self) -> Encoder:
        """The encoder, whose weights must be those that computed the features."""
        encoder = self.given or replace(find_encoder(self.encoder), value_range=self.value_range)
        if encoder.digest != self.digest:
            raise UserError(
                f"the encoder {self.encoder} has other weights than in training: restore the original weights, or "
                "train again."
            )
        if encoder.features != self.columns:
            raise UserError(f"the encoder {self.encoder} gives {encoder.features} features, not {self.columns}.")
        return encoder

    def read(self, inputs: Any) -> Tensor:
        """Picture files, PIL images or arrays of images, which are encoded; or a table of features."""
        encoder = self.find()
        if pictures := as_pictures(inputs):
            return read_and_encode(encoder, pictures)
        array = as_array(inputs)
        if array.ndim <= 2:
            return super().read(inputs)
        return features_of(encoder, as_pixels(array, brightest(array)))

    def stream(self, path: Path, chunk: int, title: str = "") -> Iterator[Examples]:
        """Features of a folder of pictures, or of one picture."""
        from .picture_files import scan

        folder, files = (path.parent, [path.name]) if path.is_file() else (path, scan(path))
        whole = encode_files(self.find(), folder, files)
        for first in range(0, len(whole), chunk):
            part = slice(first, first + chunk)
            yield replace(whole, inputs=whole.inputs[part], labels=whole.labels[part], names=whole.names[part])

    def load_test(self, folder: Path, classes: Sequence[str], labels: LabelFiles) -> Examples:
        from .folder import read_labelled

        return read_labelled(folder, classes, 0, labels, self.find())

    def licence(self) -> str:
        return self.find().licence

    def exported(self) -> tuple[nn.Module, tuple[int, ...], torch.dtype]:
        """The encoder belongs into the file."""
        encoder = self.find()
        if not encoder.exportable:
            raise UserError(f"a model on the encoder {self.encoder} cannot be exported: export the encoder itself.")
        assert encoder.size is not None
        return PixelEncoder(encoder), (3, encoder.size, encoder.size), torch.uint8


@dataclass(frozen=True)
class PictureFiles:
    """The pictures behind the features."""

    folder: Path
    names: Sequence[str]
    value_range: ValueRange | None = None

    def show(self, position: int) -> bytes:
        return png(decode(self.folder / self.names[position], SHOWN, self.value_range))


def encode_files(
    encoder: Encoder,
    folder: Path,
    files: Sequence[str],
    classes: Sequence[str] = (),
    classes_of: Mapping[str, str] = MappingProxyType({}),
    views: int = 0,
) -> Examples:
    """Features of the pictures of a folder, with their labels, and of `views` views of each."""
    found = encode_folder(encoder, folder, files)
    kept = [files[row] for row in found.rows]
    stored = {
        kind: [encode_folder(one, folder, kept).features for one in made]
        for kind, made in encoders_of_views(encoder, views, flip=True).items()
    }
    names = [files[row] for row in found.rows]
    number = {name: i for i, name in enumerate(classes)} | {"": UNLABELLED}
    return Examples(
        found.features,
        torch.tensor([number[classes_of.get(name, "")] for name in names], dtype=torch.int64),
        tuple(classes),
        names,
        kind_of(encoder),
        {files[position]: reason for position, reason in found.skipped.items()},
        source=found.key,
        original=PictureFiles(folder, names, encoder.value_range),
        views=stored,
    )


def encode_images(encoder: Encoder, images: Examples, views: int = 0, flip: bool = True) -> Examples:
    """Features of images in memory, and of `views` views of each."""
    features = features_of(encoder, images.inputs)
    stored = {
        kind: [features_of(one, images.inputs) for one in made]
        for kind, made in encoders_of_views(encoder, views, flip).items()
    }
    return Examples(
        features,
        images.labels,
        images.classes,
        images.names,
        kind_of(encoder),
        images.skipped,
        images.source,
        original=images,
        views=stored,
    )


def kind_of(encoder: Encoder) -> FeatureKind:
    assert encoder.features is not None
    return FeatureKind(
        encoder.features,
        encoder=encoder.name,
        digest=encoder.digest,
        value_range=encoder.value_range,
        given=encoder,
    )


def read_and_encode(encoder: Encoder, pictures: Sequence[Path | Image.Image]) -> Tensor:
    """One that cannot be read is an error."""
    assert encoder.size is not None
    items = [
        square(item, encoder.size, encoder.value_range) if isinstance(item, Image.Image) else item for item in pictures
    ]
    found = encode_pictures(encoder, items)
    for position, reason in found.skipped.items():
        raise UserError(f"cannot read the picture {pictures[position]} ({reason}).")
    return found.features
