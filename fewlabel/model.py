"""Model: a trained network with everything needed to predict; it saves and loads itself."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import __version__
from .data import UNLABELLED, Examples, Kind, kind_from, load_test
from .encoders import MODULE, NONE, PixelEncoder, find_encoder
from .errors import UserError
from .evaluate import CHUNK, Evaluation, cross_fitted_error, features_by, fit_temperature, predict_probabilities
from .export import export_onnx
from .files import write_atomically, write_json
from .methods import SELF_SUPERVISED
from .networks import TUNED, Classifier
from .networks.saved import DAMAGE, FORMAT, damaged, load_network, portable, read_description
from .predictions import Predictions, texts_of
from .run_files import DESCRIPTION, FIRST_STAGE, WEIGHTS
from .scratch import Growing, Strings
from .training import choose_device


@dataclass(frozen=True)
class Calibration:
    """Temperature scaling: the temperature, and the expected calibration error before and after."""

    temperature: float
    before: float
    after: float  # cross-fitted: each half of the examples with the temperature of the other


@dataclass(eq=False)
class Model:
    """A trained classifier, from `load_model(run)` or from training."""

    network: Classifier
    kind: Kind
    classes: tuple[str, ...]
    architecture: str  # name of the network
    method: str  # by which it was trained
    encoder: str = NONE  # name of the encoder: a frozen one comes before the network, a tuned one is part of it

    def predict(self, inputs: Any) -> NDArray[np.str_]:
        """The most probable class of each input; see `predict_proba` for valid inputs."""
        return np.array(self.classes)[self.predict_proba(inputs).argmax(1)]

    def predict_proba(self, inputs: Any) -> NDArray[np.float64]:
        """Class probabilities (N, classes), in the order of `classes`.

        `inputs` is a folder (its pictures in sorted order), a picture file, a PIL image, a list of either, an array,
        a tensor, or Examples.
        """
        parts = [self.network_probabilities(part) for part in self._batches(inputs)]
        probabilities = torch.cat(parts).double().numpy()
        probabilities /= probabilities.sum(1, keepdims=True)
        return probabilities

    @property
    def calibrated(self) -> bool:
        """Whether its confidence was fitted to labelled examples."""
        return self.network.temperature.item() != 1

    def features(self, inputs: Any) -> NDArray[np.float32]:
        """The features f(x) of each input."""
        return torch.cat([features_by(self.network, part) for part in self._batches(inputs)]).numpy()

    def label(self, path: str | Path) -> Predictions:
        """Predictions for a folder of pictures, a picture or a file of rows; unreadable files are listed, not raised.

        The next pictures are decoded while the network is at work.
        """
        names, texts, skipped = Strings(), Strings(), dict[str, str]()
        found = Growing(np.float32, len(self.classes))
        for examples in self.kind.stream(Path(path), CHUNK, title="Predicting"):
            names.extend(examples.names)
            texts.extend(texts_of(examples, range(len(examples))))
            skipped |= examples.skipped
            if len(examples):
                found.extend(self.network_probabilities(self.kind.adapt(examples.inputs)).numpy())
        if not names:
            name, reason = next(iter(skipped.items()))
            raise UserError(
                f"none of the {len(skipped)} pictures in {path} can be read, beginning with {name} ({reason})."
            )
        probabilities = torch.from_numpy(found.array())
        return Predictions(names, probabilities, self.classes, skipped, texts, self.kind.shown_column)

    def evaluate(self, data: Any, labels: Any = None, *, root: str | Path | None = None) -> Evaluation:
        """Predictions beside labels, for accuracy, confusion matrix and calibration.

        `data` is a folder with one subfolder per class (or with a label file as `labels`), an .npz file or the name of
        a data set with a test part, Examples, or an array with the class names of its rows as `labels`.
        """
        if isinstance(data, str | Path):
            data = load_test(data, root, labels=labels, classes=self.classes, kind=self.kind)
        if not isinstance(data, Examples):
            if labels is None:
                raise UserError("give the class of each input as labels: evaluate(inputs, labels).")
            data = self._examples(self.kind.read(data), [str(label) for label in labels])
        if not self.kind.accepts(data.kind):
            raise UserError(f"the examples are {data.kind.describe()}, but the model needs {self.kind.describe()}.")
        if set(data.classes) != set(self.classes):
            raise UserError(f"the classes of the examples differ from those of the model: {', '.join(self.classes)}.")
        if not data.known:
            raise UserError("none of the examples has a label, so accuracy cannot be measured on them.")
        number = torch.tensor([self.classes.index(name) for name in data.classes] + [UNLABELLED])
        rows = [self.network_probabilities(self.kind.adapt(part)) for part in data.inputs.split(CHUNK)]
        temperature = self.network.temperature.item()
        return Evaluation(self.classes, torch.cat(rows), number[data.labels], data.skipped, temperature)

    def _examples(self, inputs: Tensor, labels: list[str]) -> Examples:
        if len(inputs) != len(labels):
            raise UserError(f"there are {len(inputs)} inputs and {len(labels)} labels.")
        for label in labels:
            if label not in self.classes:
                raise UserError(f"the model has no class '{label}': its classes are {', '.join(self.classes)}.")
        numbers = torch.tensor([self.classes.index(label) for label in labels], dtype=torch.int64)
        return Examples(inputs, numbers, self.classes, labels, self.kind)

    def calibrate(self, evaluation: Evaluation) -> Calibration:
        """Fit the temperature to an evaluation, so that confidence matches accuracy; `save` keeps it."""
        count, correct = evaluation.count, evaluation.correct
        if count < 10:
            raise UserError(f"there are only {count} labelled examples: calibration needs 10 or more.")
        if correct == count:
            raise UserError(f"all {count} predictions are correct: calibration needs some mistakes to learn from.")
        after = cross_fitted_error(evaluation.probabilities, evaluation.labels)
        fitted = fit_temperature(evaluation.probabilities, evaluation.labels)
        self.network.temperature.fill_(evaluation.temperature * fitted)
        return Calibration(self.network.temperature.item(), evaluation.calibration_error, after)

    def export(self, path: str | Path) -> None:
        """Write an ONNX file with the preprocessing inside; class names are in its metadata."""
        metadata = {"classes": json.dumps(list(self.classes)), "method": self.method, **self.kind.export_metadata()}
        if self.kind.value_range is not None:
            metadata["range of values"] = json.dumps(list(self.kind.value_range))
        if self.encoder != NONE:
            name = FIRST_STAGE if Path(self.encoder).name == FIRST_STAGE else self.encoder  # no path of this machine
            metadata |= {
                "encoder": name,
                "licence of the encoder": self.kind.licence() or find_encoder(self.encoder).licence,
            }
        export_onnx(self.network, self.kind, metadata, Path(path))

    def network_probabilities(self, inputs: Tensor) -> Tensor:
        return predict_probabilities(self.network, inputs)

    # ---- files

    def save(self, directory: str | Path) -> None:
        """Write model.safetensors and model.json. They hold numbers and names only: loading them runs no code."""
        if self.encoder == MODULE:
            raise UserError("a model with an encoder of your own cannot be saved: pickle the classifier instead.")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        description = {
            "format": FORMAT,
            "network": self.architecture,
            **self.kind.to_dict(),
            "encoder": portable(self.encoder, Path(directory)),
            "shape": list(self.kind.shape),
            "classes": list(self.classes),
            "projector": self.network.projector is not None,
            "method": self.method,
            "version": __version__,
        }
        write_atomically(Path(directory) / WEIGHTS, safetensors.torch.save(tensors))
        write_json(Path(directory) / DESCRIPTION, description)

    def _batches(self, inputs: Any) -> Iterator[Tensor]:
        """A user's inputs, as batches of this model's kind."""
        if isinstance(inputs, Examples):
            yield from (self.kind.adapt(part) for part in inputs.inputs.split(CHUNK))
        elif isinstance(inputs, str | Path) and Path(inputs).is_dir():
            for examples in self.kind.stream(Path(inputs), CHUNK):
                for name, reason in examples.skipped.items():
                    raise UserError(f"cannot read the picture {name} ({reason}): use Model.label, which lists such.")
                yield self.kind.adapt(examples.inputs)
        else:
            yield self.kind.read(inputs)


def load_model(run: str | Path, device: str | None = None) -> Model:
    """Load the model of a finished run, also of version 0.1."""
    run = Path(run)
    facts = read_description(run)
    if facts.get("method") in SELF_SUPERVISED:
        raise UserError(
            f"{run} was trained without labels, so it has no classes to predict: train a classifier on top with "
            f"`fewlabel train DATA --encoder {run}`."
        )
    tuned = facts.get("network") == TUNED
    body = PixelEncoder(find_encoder(facts["encoder"])) if tuned else None
    facts, network = load_network(run, body)
    try:
        kind, classes = kind_from(facts), tuple(facts["classes"])
        if kind.shape != tuple(facts["shape"]) or not classes:
            raise damaged(run)
        model = Model(network, kind, classes, facts["network"], facts["method"], facts.get("encoder", NONE))
    except DAMAGE as error:
        raise damaged(run) from error
    network.to(choose_device(device))
    return model
