"""Runs: a directory that remembers a training, and `train`, which makes one."""

from .directory import RunDirectory
from .run import Run, train

__all__ = ["Run", "RunDirectory", "train"]
