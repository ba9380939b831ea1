"""Are two runs the same?"""

import json
from pathlib import Path
from typing import Any

import torch

from fewlabel.runs.checkpoint import read_checkpoint
from fewlabel.training.listeners import TIME_FIELDS


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIME_FIELDS} for line in lines]


def assert_same_run(first: Path, second: Path) -> None:
    """The same bytes of weights and, time fields aside, the same metrics, of the run and of its floor."""
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    assert (first / "labels.csv").read_bytes() == (second / "labels.csv").read_bytes()
    assert metrics(first) == metrics(second)
    floors = [run / "floor" for run in (first, second)]
    assert floors[0].exists() == floors[1].exists()
    if floors[0].exists():
        assert metrics(floors[0]) == metrics(floors[1])
    checkpoints = [read_checkpoint(run / "last.ckpt") for run in (first, second)]
    assert checkpoints[0] is not None
    assert checkpoints[1] is not None
    assert checkpoints[0][0].keys() == checkpoints[1][0].keys()
    assert all(torch.equal(tensor, checkpoints[1][0][name]) for name, tensor in checkpoints[0][0].items())
