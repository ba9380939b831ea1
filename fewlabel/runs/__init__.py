"""Runs: a directory that remembers a training, and `train` and `pretrain`, which make one."""

from .directory import RunDirectory
from .run import Run, pretrain, train

__all__ = ["Run", "RunDirectory", "pretrain", "train"]
