"""Data: `load` gives a Dataset from a folder, an .npz file, a file of rows or a name."""

from typing import TYPE_CHECKING

from ..lazy import import_lazily

__all__ = [
    "KINDS",
    "NAMED",
    "UNLABELLED",
    "Dataset",
    "Examples",
    "FeatureKind",
    "ImageKind",
    "Images",
    "Kind",
    "Roles",
    "TableKind",
    "TextKind",
    "VectorKind",
    "Vectors",
    "encoded",
    "few_label_split",
    "folder_roles",
    "is_folder",
    "is_row_file",
    "kind_from",
    "load",
    "load_for",
    "load_test",
]

if TYPE_CHECKING:
    from .examples import UNLABELLED, Dataset, Examples
    from .features import FeatureKind
    from .images import ImageKind, Images
    from .kind import Kind
    from .loading import KINDS, encoded, is_folder, kind_from, load, load_for, load_test
    from .named import NAMED
    from .row_files import Roles, folder_roles, is_row_file
    from .split import few_label_split
    from .table_kind import TableKind
    from .text_kind import TextKind
    from .vectors import VectorKind, Vectors
else:
    import_lazily(
        __name__,
        {
            "examples": ("UNLABELLED", "Dataset", "Examples"),
            "features": ("FeatureKind",),
            "images": ("ImageKind", "Images"),
            "kind": ("Kind",),
            "loading": ("KINDS", "encoded", "is_folder", "kind_from", "load", "load_for", "load_test"),
            "named": ("NAMED",),
            "row_files": ("Roles", "folder_roles", "is_row_file"),
            "split": ("few_label_split",),
            "table_kind": ("TableKind",),
            "text_kind": ("TextKind",),
            "vectors": ("VectorKind", "Vectors"),
        },
    )
