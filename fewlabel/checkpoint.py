"""The run directory: what a run writes, atomically, and how it is found again."""

import csv
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from .errors import UserError
from .files import cannot_write, make_folder, write_atomically, write_csv, write_json
from .networks import Classifier, make_classifier
from .recipe import Recipe

MAGIC = b"fewlabel checkpoint 1\n"
DIGEST = 32  # bytes of the SHA-256 that follows
LOCK = ".lock"  # it stays when a run has ended: whether it is held is what counts
FILES = {"recipe.json", "labels.csv", "metrics.jsonl", "last.ckpt", "previous.ckpt", "new.ckpt", "model.safetensors"}
FILES |= {"model.json", "predictions.csv", "report.html", "floor", LOCK}  # with the above: all that a run writes


class RunDirectory:
    """recipe.json, labels.csv, metrics.jsonl, last.ckpt and previous.ckpt, model.safetensors and model.json, ...

    Who opens it to train uses it in a `with` block: nobody else can open it in the meantime.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.report = path / "report.html"
        self.predictions = path / "predictions.csv"
        self._lock: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def refuse_occupied(self, *, resume: bool, overwrite: bool) -> None:
        """Before any work is done: may a run be written here?"""
        if resume and overwrite:
            raise UserError("give --resume or --overwrite, not both.")
        if self.facts() and not resume and not overwrite:
            raise UserError(
                f"{self.path} already holds a run: continue it with --resume or replace it with --overwrite."
            )
        if not self.facts() and self.path.is_dir():
            there = list(self.path.iterdir())
            begun = (self / LOCK).exists()  # by a run that was killed before it had written its recipe
            if any(not ours(entry) for entry in there) or (there and not begun):
                raise UserError(f"{self.path} is not empty and holds no run: choose another --out.")

    def facts(self) -> dict[str, Any] | None:
        """What recipe.json says, or None where there is no run."""
        if not (self / "recipe.json").exists():
            return None
        try:
            facts = json.loads((self / "recipe.json").read_text())
            if not {"recipe", "data", "steps"} <= facts.keys():
                raise ValueError
        except (ValueError, AttributeError, OSError) as error:
            raise UserError(f"{self / 'recipe.json'} is not that of a run: choose another --out.") from error
        return facts

    def open(self, recipe: Recipe, data: str, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """Make the directory ready; gives the saved facts of the run that is to be continued, or None for a new run.

        `data` is a fingerprint of the images: a run is continued on the same ones only.
        """
        make_folder(self.path)
        self._keep_others_out()
        self.refuse_occupied(resume=resume, overwrite=overwrite)  # by a run that has come in the meantime
        facts = self.facts()
        if facts and resume:
            if changed := recipe.differences(facts["recipe"]):
                raise UserError(
                    f"{self.path} was started with another {', '.join(changed)}: "
                    "resume with the same settings, or choose another --out."
                )
            if facts["data"] != data:
                raise UserError(f"the images have changed since {self.path} was started: choose another --out.")
            return facts
        try:
            for entry in sorted(self.path.iterdir(), key=lambda entry: entry.name == "recipe.json"):  # recipe.json last
                if ours(entry) and entry.name != LOCK:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError as error:
            raise cannot_write(self.path, error) from error
        return None

    def _keep_others_out(self) -> None:
        """Until `with` is left, or the process ends, however it ends."""
        if sys.platform == "win32" or self._lock is not None:
            return
        import fcntl

        try:
            lock = os.open(self / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UserError(
                f"another process is training in {self.path}: wait for it, or choose another --out."
            ) from error
        except OSError:
            pass  # a disk without locks
        self._lock = lock

    # ---- the split; it is written before recipe.json, which makes a directory a run

    def write_labels(self, names: Sequence[str], labels: Sequence[str]) -> None:
        write_csv(self / "labels.csv", ("file", "label"), zip(names, labels, strict=True))

    def read_labels(self) -> list[str]:
        """The names of the labelled images."""
        try:
            with open(self / "labels.csv", newline="", encoding="utf-8", errors="surrogateescape") as file:
                return [row["file"] for row in csv.DictReader(file)]
        except (OSError, KeyError) as error:
            raise UserError(f"{self / 'labels.csv'} is gone or damaged: the run cannot be continued.") from error

    # ---- checkpoints

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """A new last.ckpt; the one before becomes previous.ckpt."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        payload = safetensors.torch.save(tensors, {"facts": json.dumps(facts)})
        new = self / "new.ckpt"
        write_atomically(new, MAGIC + hashlib.sha256(payload).digest() + payload)
        if (self / "last.ckpt").exists():
            os.replace(self / "last.ckpt", self / "previous.ckpt")
        os.replace(new, self / "last.ckpt")

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that is whole, or None."""
        for name in ("last.ckpt", "previous.ckpt"):
            if (self / name).exists() and (content := read_checkpoint(self / name)):
                return content
        return None

    # ---- the model

    def write_model(self, network: Classifier, description: dict[str, Any]) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        write_atomically(self / "model.safetensors", safetensors.torch.save(tensors))
        write_json(self / "model.json", description)

    def read_model(self, device: torch.device) -> tuple[Classifier, dict[str, Any]]:
        """The trained classifier and its description. No code of the file is run: it holds numbers only."""
        try:
            description = json.loads((self / "model.json").read_text())
            tensors = safetensors.torch.load_file(self / "model.safetensors")
            network = make_classifier(
                description["network"],
                description["channels"],
                description["size"],
                len(description["classes"]),
                projector=description["projector"],
                seed=0,
            )
            network.load_state_dict(tensors)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"{self.path} holds no trained model: give the directory of a finished run.") from error
        except (json.JSONDecodeError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise UserError(f"the model in {self.path} is damaged: train it again.") from error
        return network.to(device).eval(), description


def ours(entry: Path) -> bool:
    """Was this written by a run? Nothing else in its directory is ever touched."""
    return entry.name in FILES or (entry.name.startswith(".") and entry.name.endswith(".partial"))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and facts of a checkpoint, or None if it was cut off or changed."""
    content = path.read_bytes()
    start = len(MAGIC) + DIGEST
    payload = content[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(payload).digest() != content[len(MAGIC) : start]:
        return None
    header = int.from_bytes(payload[:8], "little")  # safetensors: length of a JSON header, the header, the numbers
    facts = json.loads(json.loads(payload[8 : 8 + header])["__metadata__"]["facts"])
    return safetensors.torch.load(payload), facts
