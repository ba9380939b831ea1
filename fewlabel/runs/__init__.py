"""Runs: directories that store a training, and the functions `train` and `pretrain`."""

from typing import TYPE_CHECKING

from ..lazy import import_lazily

__all__ = ["Run", "RunDirectory", "pretrain", "train"]

if TYPE_CHECKING:
    from .directory import RunDirectory
    from .run import Run, pretrain, train
else:
    import_lazily(__name__, {"directory": ("RunDirectory",), "run": ("Run", "pretrain", "train")})
