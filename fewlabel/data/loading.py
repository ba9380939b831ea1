"""`load` gives a Dataset from a folder, an .npz file, a file of rows or a name."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..encoders import NONE, Encoder, find_encoder
from ..errors import UserError, unknown
from ..settings import parameters_of
from ..value_range import ValueRange, as_range
from .download import download as fetch
from .examples import Dataset, Examples
from .features import FeatureKind
from .folder import read_folder
from .images import ImageKind
from .kind import Kind
from .labels import LabelFiles
from .named import NAMED
from .npz import read_npz
from .records import SUFFIXES, open_records
from .row_files import Roles, RowFile, is_row_file
from .row_kind import RowKind, read_row_file
from .table_kind import TableKind, table_kind
from .text_kind import TextKind, text_kind
from .vectors import VectorKind

KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (ImageKind, VectorKind, FeatureKind, TextKind, TableKind)}


def kind_from(description: dict[str, Any]) -> Kind:
    """The kind described by `Kind.to_dict`; other entries are ignored."""
    kind = KINDS[description["kind"]]
    given = {name: description[name] for name in parameters_of(kind) if name in description}
    if "value_range" in given:
        given["value_range"] = as_range(given["value_range"])
    return kind(**given)


def load(
    data: str | Path,
    root: str | Path | None = None,
    *,
    labels: LabelFiles = None,
    subfolders: bool | None = None,
    test: str | Path | None = None,
    size: int | None = None,
    download: bool = False,
    encoder: str | None = None,
    encoder_views: int = 0,
    roles: Roles | None = None,
    value_range: ValueRange | None = None,
) -> Dataset:
    """Training and test examples of a named data set, an .npz file, a folder of pictures or a file of rows.

    `roles` name the columns of a file of rows.

    With the name of an `encoder` (see `fewlabel encoders`) the examples are features of the pictures, and of
    `encoder_views` weak and strong views of each training picture. For pictures with more than 8 bits, `value_range` is
    mapped to black to white; by default it is measured.

    >>> load("digits").train.inputs.shape
    torch.Size([1297, 1, 8, 8])
    """
    name, path = str(data), Path(data)
    if name not in NAMED and is_row_file(name):
        pictures = {"--size": size, "--range": value_range, "--encoder-views": encoder_views or None}
        refuse_given(pictures, f"is for pictures, not for the rows of {name}")
        if subfolders and path.is_file():
            raise UserError(f"--subfolders is for folders, not for the file {name}.")
        return load_rows(path, roles or Roles(), labels, test, encoder)
    if roles not in (None, Roles()):
        raise UserError(
            f"--text-column, --label-column, --id-column and --drop are for files of rows ({', '.join(SUFFIXES)}), "
            f"not for {name}."
        )
    of_folders: dict[str, Any] = {"labels": labels, "subfolders": subfolders, "test": test, "value_range": value_range}
    if encoder is not None and encoder != NONE:
        if is_folder(name):
            refuse_given({"--size": size}, "cannot be used with an encoder, which has its own size")
            return read_folder(path, encoder=find_encoder(encoder), views=encoder_views, **of_folders)
        found = load(data, root, size=size, download=download, **of_folders)
        return encoded(found, find_encoder(encoder), encoder_views)
    if name in NAMED or path.suffix == ".npz":
        folders = {"--labels": labels, "--subfolders": subfolders, "--test": test, "--size": size}
        refuse_given(folders | {"--range": value_range}, f"is for folders of pictures; {name} has its own")
    if name in NAMED:
        if download:
            fetch(name, Path(root or "."))
        return NAMED[name](Path(root or "."))
    if download:
        raise unknown("data set to download", name, NAMED)
    if path.suffix == ".npz" and path.is_file():
        return read_npz(path)
    if is_folder(name):
        return read_folder(path, size=size, **of_folders)
    if path.exists():
        raise UserError(
            f"{path} is neither a folder of pictures nor an .npz file nor a file of rows ({', '.join(SUFFIXES)})."
        )
    if path.suffix or len(path.parts) > 1 or name.endswith("/"):
        raise UserError(f"there is no folder or .npz file {name}.")
    nearby = sorted(f"{entry.name}/" for entry in Path().iterdir() if entry.is_dir())
    raise unknown("data set or folder", name, [*NAMED, *get_close_matches(name, nearby)])


def refuse_given(options: dict[str, Any], why: str) -> None:
    """Refuse options that have no effect on these data."""
    for flag, value in options.items():
        if value is not None and value is not False:
            raise UserError(f"{flag} {why}.")


def roles_in_training(path: Path, roles: Roles, labels: LabelFiles, test: str | Path | None) -> Roles:
    """The roles of columns in the training file: beside label files, the column of classes may be of the test alone."""
    beside = labels is not None and test is not None and roles.label is not None
    return replace(roles, label=None) if beside and roles.label not in open_records(path).header else roles


def load_rows(path: Path, roles: Roles, labels: LabelFiles, test: str | Path | None, encoder: str | None) -> Dataset:
    """Texts where a column of texts is named, else rows of a table."""
    file = RowFile(path, roles_in_training(path, roles, labels, test))
    kind: RowKind
    if roles.text is not None:
        if encoder in (None, NONE):
            raise UserError("texts need a text encoder, such as --encoder minilm.")
        kind, notes = text_kind(file, str(encoder))
    elif encoder not in (None, NONE):
        raise UserError(
            f"--encoder {encoder} is for pictures and texts, not for tables: for texts, name their column with "
            "--text-column."
        )
    else:
        kind, notes = table_kind(file)
    if roles.label is not None:
        kind = kind.with_label_column(roles.label)  # of the test file, if not of this one
    dataset = read_row_file(file, kind, labels, test)
    return replace(dataset, notes=(*notes, *dataset.notes))


def is_folder(data: str) -> bool:
    """Whether `load` reads it as a folder of pictures."""
    return data not in NAMED and Path(data).is_dir() and not is_row_file(data)


def load_for(
    kind: Kind,
    data: str,
    root: str | Path | None = None,
    *,
    labels: LabelFiles = None,
    subfolders: bool | None = None,
    encoder: str | None = None,
) -> Examples:
    """The training examples of a data set, as inputs of a model."""
    if data not in NAMED and is_row_file(data):
        return kind.load_file(Path(data), labels)
    encoder, pictures = encoder or kind.encoder, is_folder(data)
    size, value_range = kind.shape[-1] if pictures and kind.encoder == NONE else None, kind.value_range
    value_range = value_range if pictures else None
    return load(
        data, root, labels=labels, subfolders=subfolders, size=size, encoder=encoder, value_range=value_range
    ).train


def encoded(dataset: Dataset, encoder: Encoder, views: int = 0) -> Dataset:
    """A data set of images as features."""
    train, test = dataset.train, dataset.test
    return replace(
        dataset,
        train=train.kind.encoded(train, encoder, views, dataset.flip),
        test=None if test is None else test.kind.encoded(test, encoder),
    )


def load_test(
    data: str | Path,
    root: str | Path | None = None,
    *,
    labels: LabelFiles = None,
    classes: Sequence[str],
    kind: Kind,
) -> Examples:
    """Labelled examples to evaluate a model of these classes and this kind on."""
    if is_folder(str(data)) or (str(data) not in NAMED and is_row_file(data)):
        test: Examples | None = kind.load_test(Path(data), classes, labels)
    else:
        test = load(data, root, labels=labels, encoder=kind.encoder).test
    if test is None:
        raise UserError(f"{data} has no test part.")
    if not test.known:
        raise UserError(f"the test examples of {data} have no labels: accuracy cannot be measured on them.")
    if not kind.accepts(test.kind):
        raise UserError(f"{data} holds {test.kind.describe()}, but the model needs {kind.describe()}.")
    if test.classes != tuple(classes):
        raise UserError(f"the classes of {data} differ from those of the model: {', '.join(classes)}.")
    return test
