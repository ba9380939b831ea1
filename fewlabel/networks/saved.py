"""Trained networks in a run directory."""

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from ..errors import UserError
from ..files import parse_json
from ..run_files import DESCRIPTION, FIRST_STAGE, WEIGHTS
from .classifier import Classifier
from .make import TUNED, make_classifier, make_encoder

FORMAT = 2  # of model.json; 1 is that of version 0.1
LARGEST = 1_000_000  # side of a picture, or columns of a table
DAMAGE = (ValueError, LookupError, AttributeError, TypeError, RuntimeError, OverflowError, SafetensorError)


def read_description(run: Path) -> dict[str, Any]:
    """The content of model.json, in the current format."""
    try:
        facts: dict[str, Any] = parse_json((run / DESCRIPTION).read_text(encoding="utf-8"))
        if facts.get("format", 1) > FORMAT:
            raise UserError(f"the model in {run} was written by a newer version of fewlabel: upgrade fewlabel.")
        facts.setdefault("kind", "images")  # format 1 had images only
        if facts.get("encoder") == FIRST_STAGE:  # within the run, wherever that is
            if not all((run / FIRST_STAGE / name).exists() for name in (DESCRIPTION, WEIGHTS)):
                raise UserError(
                    f"{run} has lost its folder {FIRST_STAGE}, whose network computes the features for predictions: "
                    "restore it, or continue the run with --resume, which recreates it."
                )
            facts["encoder"] = str((run / FIRST_STAGE).resolve())
        if "shape" not in facts:
            image = facts["kind"] == "images"
            facts["shape"] = [facts["channels"], facts["size"], facts["size"]] if image else [facts["columns"]]
        check_description(facts)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"{run} holds no trained model: give the directory of a finished run.") from error
    except UserError:
        raise
    except DAMAGE as error:
        raise damaged(run) from error
    return facts


def check_description(facts: dict[str, Any]) -> None:
    """Raise ValueError if model.json is not valid."""
    shape, classes = facts["shape"], facts["classes"]
    texts = [facts["network"], facts["kind"], facts["method"], facts.get("encoder", ""), *classes]
    if not all(isinstance(text, str) for text in texts) or len(set(classes)) < len(classes):
        raise ValueError("a name is not text, or there twice")
    if not isinstance(facts["projector"], bool) or not isinstance(classes, list) or not isinstance(shape, list):
        raise ValueError("a field is not of its type")
    if len(shape) not in (1, 3) or not all(
        isinstance(side, int) and not isinstance(side, bool) and 0 < side <= LARGEST for side in shape
    ):
        raise ValueError("the shape is not one of inputs")
    if (values := facts.get("value_range")) is not None:
        low, high = (float(value) for value in values)
        if not low < high:
            raise ValueError("the range of values is empty")


def check_weights(run: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Check shapes and values of the weights before a network is made for them."""
    if facts["network"] != TUNED:
        with torch.device("meta"):  # which takes no memory
            made, _ = make_encoder(facts["network"], tuple(facts["shape"]))
        if sum(p.numel() for p in made.parameters()) > sum(tensor.numel() for tensor in tensors.values()):
            raise damaged(run)
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values() if tensor.is_floating_point()):
        raise UserError(f"the model in {run} contains NaN or infinity, so it cannot predict: train it again.")


def portable(encoder: str, run: Path) -> str:
    """The name of an encoder that lies within a run, by the place within: the run may be moved."""
    path, run = Path(encoder), run.resolve()
    return str(path.relative_to(run)) if path.is_absolute() and path.is_relative_to(run) else encoder


def load_network(run: Path, encoder: nn.Module | None = None) -> tuple[dict[str, Any], Classifier]:
    """The content of model.json, and the network on the CPU in evaluation mode; its body may be a tuned `encoder`."""
    facts = read_description(run)
    try:
        tensors = safetensors.torch.load_file(run / WEIGHTS)
        check_weights(run, tensors, facts)
        network = make_classifier(
            facts["network"],
            tuple(facts["shape"]),
            len(facts["classes"]) or 1,  # a first stage knows none
            projector=facts["projector"],
            seed=0,
            encoder=encoder,
        )
        network.load_state_dict(tensors)
    except FileNotFoundError as error:
        raise UserError(f"{run} holds no trained model: give the directory of a finished run.") from error
    except UserError:
        raise
    except DAMAGE as error:
        raise damaged(run) from error
    return facts, network.eval()


def damaged(run: Path) -> UserError:
    return UserError(f"the model in {run} is damaged: train it again.")
