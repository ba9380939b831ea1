"""The run directory: what a run writes, atomically, and how it is found again."""

import csv
import errno
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from .errors import UserError
from .networks import Classifier, make_classifier
from .recipe import Recipe

MAGIC = b"fewlabel checkpoint 1\n"
DIGEST = 32  # bytes of the SHA-256 that follows


def write_atomically(path: Path, content: bytes) -> None:
    """Either the whole new file is there or the old one still is."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "free some space and continue with --resume" if full else "check the folder and continue with --resume"
        raise UserError(
            f"could not save {path} ({error.strerror}): {advice}; what was saved before is kept."
        ) from error


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode("utf-8", "surrogateescape"))


class RunDirectory:
    """recipe.json, labels.csv, metrics.jsonl, last.ckpt and previous.ckpt, model.safetensors and model.json, ..."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.report = path / "report.html"
        self.predictions = path / "predictions.csv"

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def open(self, recipe: Recipe, data: str, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """Make the directory ready; gives the saved facts of the run that is to be continued, or None for a new run.

        `data` is a fingerprint of the training images: a run is continued on the same ones only.
        """
        saved = self / "recipe.json"
        if saved.exists() and resume:
            facts = json.loads(saved.read_text())
            if changed := recipe.differences(facts["recipe"]):
                raise UserError(
                    f"{self.path} was started with another {', '.join(changed)}: "
                    "resume with the same settings, or choose another --out."
                )
            if facts["data"] != data:
                raise UserError(f"the images have changed since {self.path} was started: choose another --out.")
            return facts
        if saved.exists() and not overwrite:
            raise UserError(
                f"{self.path} already holds a run: continue it with --resume or replace it with --overwrite."
            )
        if self.path.is_dir() and not saved.exists() and any(self.path.iterdir()):
            raise UserError(f"{self.path} is not empty and holds no run: choose another --out.")
        if saved.exists():
            shutil.rmtree(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot make the run directory {self.path} ({error.strerror}): choose another --out."
            ) from error
        return None

    # ---- the split

    def write_labels(self, names: Sequence[str], labels: Sequence[str]) -> None:
        write_csv(self / "labels.csv", ("file", "label"), zip(names, labels, strict=True))

    def read_labels(self) -> list[str]:
        """The names of the labelled images."""
        with open(self / "labels.csv", newline="", encoding="utf-8", errors="surrogateescape") as file:
            return [row["file"] for row in csv.DictReader(file)]

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
        except FileNotFoundError as error:
            raise UserError(f"{self.path} holds no trained model: give the directory of a finished run.") from error
        except (json.JSONDecodeError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise UserError(f"the model in {self.path} is damaged: train it again.") from error
        return network.to(device).eval(), description


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
