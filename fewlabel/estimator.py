"""FewLabelClassifier: fewlabel with scikit-learn's conventions."""

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from .confidence import fit_confidence
from .data import UNLABELLED, Dataset, Examples, ImageKind, Kind, VectorKind
from .data.arrays import as_array, as_pictures, as_pixels, brightest
from .data.examples import numbered
from .data.features import kind_of
from .data.frames import read_cells, row_kind
from .data.row_kind import RowKind
from .data.targets import numbered_labels
from .decode import decode_each, default_size
from .encoders import MODULE, NONE, Encoder, features_of, find_encoder, from_module
from .errors import UserError
from .model import Model
from .networks import Classifier
from .terminal import Terminal
from .training import Listener, Plan, Recipe, Trainer, check_recipe, choose_device, fit, make_plan
from .training.listeners import Alarms, DivergenceCheck, History, ProgressBar
from .value_range import ValueRange, measure

LINES = 20  # of history_


class FewLabelClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classifier, trained on labelled and unlabelled rows.

    `X` may be an array of numbers (vectors), a DataFrame, an array of images of shape (N, H, W), (N, H, W, 3) or
    (N, 3, H, W) in uint8 or float, a list of picture files or PIL images, or a list of texts with `encoder="minilm"`.
    In `y`, -1 means unlabelled, as in scikit-learn's own semi-supervised estimators; so do None, NaN and the empty
    string. Categories of a DataFrame are one-hot encoded, rare and new ones as "other". Missing numbers are replaced by
    the median of their column and marked in an extra column. Dates raise an error.

    Parameters
    ----------
    method : name of the method, see `fewlabel methods`; `+icl` may follow any. `remixmatch` is for images only
    settings : settings of the method's parts, such as {"icl.temperature": 0.5}. For vectors the defaults differ:
        "fixmatch.align" is 0.5 (1 suits classes of equal size) and "icl.weight" is 0.1
    network : "cnn", "cnn-WIDTH", "wrn-DEPTH-WIDTH" or "mlp"; the default depends on data and device. Vectors need "mlp"
    encoder : name of a pre-trained encoder for pictures ("lite0", "timm/NAME", "model.onnx", ...) or texts ("minilm",
        "sentence-transformers/NAME"), see `fewlabel encoders`; or your own torch module that maps a batch to features.
        A module receives pixels as float32 from 0 to 255 (N, C, H, W), or unchanged vectors, and must do its own
        preprocessing (resizing, normalisation). The encoder is frozen: each row is encoded once, and training takes
        seconds
    tune : whether to train the encoder too
    encoder_rate : learning rate of a tuned encoder, as a fraction of the head's
    steps : number of training steps
    batch, mu : labelled rows per step, and unlabelled rows per step as a multiple of `batch`
    learning_rate, weight_decay, ema : of the optimiser, and the decay of the averaged weights
    noise, dropout : views of vectors: standard deviations of noise, and share of columns dropped
    flip : whether images are mirrored at random; by default not for images of one channel
    without : augmentations to disable, such as "rotate,hue"
    size : side to which picture files are resized; by default 32 for small ones, else 64
    device : "cpu", "cuda" or "mps"; by default the best available
    warm_start : whether `fit` continues from the current weights
    random_state : seed of all random numbers
    verbose : 1 to show a progress bar
    frozen : deprecated; use `tune`, its opposite

    Attributes
    ----------
    classes_ : the class labels, sorted
    transduction_ : a label for each row of X passed to `fit`: the given label, or else the predicted one
    history_ : training metrics, one dictionary for each of 20 parts of the training
    n_features_in_, feature_names_in_ : number of columns of a table, and their names if X is a DataFrame

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(200, centers=3, random_state=0)
    >>> y[10:] = -1
    >>> model = FewLabelClassifier(steps=50, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (200,)

    >>> import pandas as pd  # a table with categories and missing values
    >>> fruit = pd.DataFrame({"grams": [120, 9, None, 8, 130], "colour": ["green", "red", "green", "red", None]})
    >>> model = FewLabelClassifier(steps=50, random_state=0).fit(fruit, ["apple", "cherry", "", "", ""])
    >>> model.predict(fruit).tolist()
    ['apple', 'cherry', 'apple', 'cherry', 'apple']
    """

    classes_: NDArray[Any]
    transduction_: NDArray[Any]
    history_: list[dict[str, Any]]
    model_: Model
    encoder_: Encoder | None
    kind_: RowKind | None  # of texts and of tables with categories
    size_: int | None
    shape_: tuple[int, ...]
    white_: int | None
    range_: ValueRange | None  # of pictures with more than 8 bits

    def __init__(
        self,
        method: str = "icl-ssl",
        *,
        settings: dict[str, Any] | None = None,
        network: str | None = None,
        encoder: str | nn.Module | None = None,
        tune: bool = False,
        encoder_rate: float = 0.01,
        steps: int = 1000,
        batch: int = 32,
        mu: int = 2,
        learning_rate: float | None = None,
        weight_decay: float = 5e-4,
        ema: float = 0.999,
        noise: float = 0.0,
        dropout: float = 0.0,
        flip: bool | None = None,
        without: str = "",
        size: int | None = None,
        device: str | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        frozen: bool | None = None,
    ) -> None:
        self.method = method
        self.settings = settings
        self.network = network
        self.encoder = encoder
        self.tune = tune
        self.encoder_rate = encoder_rate
        self.steps = steps
        self.batch = batch
        self.mu = mu
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.ema = ema
        self.noise = noise
        self.dropout = dropout
        self.flip = flip
        self.without = without
        self.size = size
        self.device = device
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.frozen = frozen

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on all rows; unlabelled ones have the label -1, None, NaN or "" in y."""
        before = dict(self.__dict__)
        try:
            return self._fit(X, y)
        except BaseException:
            self.__dict__ = before  # what was there stays usable
            raise

    def _fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        labels, classes = numbered_labels(y)
        rows = self._inputs(X, fitting=True)
        if len(rows) != len(labels):
            raise ValueError(f"X has {len(rows)} rows and y has {len(labels)} labels.")
        if len(rows) < 2:
            raise ValueError(f"1 sample is too few to train on: n_samples={len(rows)}.")
        continued = getattr(self, "model_", None) if self.warm_start else None
        if continued is not None and not np.array_equal(classes, self.classes_):
            raise ValueError("warm_start needs the same classes as before.")
        names = tuple(str(name) for name in classes)
        examples = Examples(rows, labels, names, numbered("X", len(rows)), self._kind(rows))
        dataset = Dataset("X", examples, None, flip=examples.kind.shape[0] == 3)
        plan = make_plan(check_recipe(self._recipe()), dataset, self._encoder_name())
        self.classes_ = classes
        with torch.random.fork_rng(devices=[], enabled=self._tuned()):
            if self._tuned():  # in whose dropout torch's global generator draws
                torch.manual_seed(plan.recipe.seed)
            network = self._train(plan, dataset, continued)
        self.model_ = Model(network, examples.kind, names, plan.network, plan.recipe.method, plan.encoder)
        fit_confidence(self.model_, examples, plan)
        guesses = self.classes_[self.model_.network_probabilities(rows).argmax(1).numpy()]
        known = (labels != UNLABELLED).numpy()
        self.transduction_ = np.where(known, self.classes_[labels.clamp(min=0).numpy()], guesses)
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities of the classes, in the order of `classes_`."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._inputs(X))

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """The learned features f(x), one vector per row."""
        check_is_fitted(self)
        return self.model_.features(self._inputs(X))

    @property
    def network_(self) -> Classifier:
        """The trained network, a torch module."""
        check_is_fitted(self)
        return self.model_.network

    # ---- from arguments to data, plan and network

    def _tuned(self) -> bool:
        if self.frozen is not None:
            warnings.warn("frozen is deprecated: use tune, which is its opposite.", FutureWarning, stacklevel=4)
            return self.encoder is not None and not self.frozen
        return self.encoder is not None and self.tune

    def _encoder_name(self) -> str:
        if self.encoder is None:
            return NONE
        return self.encoder if isinstance(self.encoder, str) else MODULE

    def _find_encoder(self) -> Encoder | None:
        """The frozen encoder."""
        if self.encoder is None or self.encoder == NONE or self._tuned():
            return None
        if isinstance(self.encoder, str):
            return find_encoder(self.encoder)
        encoder = from_module(self.encoder)
        encoder.module.to(choose_device(self.device))
        return encoder

    def _recipe(self) -> Recipe:
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        return Recipe(
            data="X",
            method=self.method,
            settings=dict(self.settings or {}),
            network=self.network,
            tune=self._tuned(),
            encoder_rate=self.encoder_rate,
            batch=self.batch,
            mu=self.mu,
            steps=self.steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            ema=self.ema,
            flip=self.flip,
            without=self.without,
            seed=int(seed),
            device=self.device,
        )

    def _inputs(self, X: Any, fitting: bool = False) -> Tensor:  # noqa: N803
        """The inputs of the network: the rows, or their features from a frozen encoder."""
        if fitting:
            self.kind_ = row_kind(X, self.encoder, self._tuned())
            self.encoder_ = self._find_encoder() if self.kind_ is None else None
        if (kind := self.kind_) is not None:
            self.size_, self.white_, self.shape_ = None, None, kind.shape
            if kind.encoder == NONE:
                validate_data(self, X, reset=fitting, skip_check_array=True)  # names and number of columns
            return read_cells(kind, X)
        pictures = as_pictures(X)
        if fitting and not (self.warm_start and hasattr(self, "model_")):
            self.range_ = measure(pictures)
        if fitting:
            self.encoder_ = self.encoder_ and replace(self.encoder_, value_range=self.range_)
        encoder = self.encoder_
        if encoder is not None and encoder.by_name and pictures:
            side = encoder.size or 0
            self.size_, self.white_, self.shape_ = side, None, (3, side, side)
            return kind_of(encoder).read(X)
        rows = self._rows(X, fitting)
        if fitting:
            self.shape_ = tuple(rows.shape[1:])
        elif tuple(rows.shape[1:]) != self.shape_:
            raise ValueError(f"X has rows of {tuple(rows.shape[1:])}, fit had rows of {self.shape_}.")
        if encoder is None:
            return rows
        if encoder.by_name and len(self.shape_) < 3:
            raise ValueError(f"the encoder {encoder.name} is for pictures, not for rows of numbers.")
        features = features_of(encoder, rows, "Encoding" if self.verbose else "")
        self.encoder_ = replace(encoder, features=features.shape[1])
        return features

    def _rows(self, X: Any, fitting: bool) -> Tensor:  # noqa: N803
        """The rows as in `fit`: uint8 (N, C, H, W) for images, float32 (N, D) for vectors."""
        if fitting:
            self.size_ = self.white_ = None
        if pictures := as_pictures(X):
            if self.size is not None and self.size < 1:
                raise ValueError(f"size must be at least 1, not {self.size}.")
            if fitting:
                self.size_ = self.size or default_size(pictures)
            if self.size_ is None:
                raise ValueError("X holds pictures, fit had arrays.")
            return torch.from_numpy(decode_each(pictures, self.size_, self.range_))
        if isinstance(X, Tensor):
            X = as_array(X)  # noqa: N806
        if (X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim) in (3, 4):
            array = np.asarray(X)
            white = brightest(array)
            if array.dtype.kind == "f":  # a dark picture by itself may look like one of values from 0 to 1
                if fitting:
                    self.white_ = white
                white = self.white_ or white
            return as_pixels(array, white)
        X = validate_data(self, X, dtype=np.float32, reset=fitting, ensure_min_samples=1)  # noqa: N806
        return torch.from_numpy(np.ascontiguousarray(X))

    def _kind(self, rows: Tensor) -> Kind:
        if self.noise < 0 or not 0 <= self.dropout < 1:
            raise ValueError("noise must be at least 0, and dropout at least 0 and less than 1.")
        if self.kind_ is not None:
            return self.kind_.with_views(self.noise, self.dropout)
        match rows.shape[1:]:
            case (columns,) if self.encoder_ is not None and len(self.shape_) == 3:
                return replace(kind_of(self.encoder_), noise=self.noise, dropout=self.dropout)
            case (columns,):
                return VectorKind(columns, self.noise, self.dropout)
            case (channels, size, _):
                return ImageKind(channels, size, self.white_, value_range=self.range_)
        raise ValueError(f"X has rows of shape {tuple(rows.shape[1:])}, which are neither images nor vectors.")

    def _train(self, plan: Plan, dataset: Dataset, continued: Model | None) -> Classifier:
        start = None if continued is None else continued.network.state_dict()
        body = self.encoder if plan.recipe.tune and isinstance(self.encoder, nn.Module) else None
        try:
            trainer = Trainer(plan, dataset, encoder=body, start=start)
        except UserError as error:
            if start is None:
                raise
            raise ValueError(f"warm_start is not possible: {error}") from error
        history = History()
        listeners: list[Listener] = [DivergenceCheck(), Alarms(history, warn, flags=False), history]
        terminal = Terminal(stderr=True)
        if self.verbose and terminal.live:
            listeners.append(ProgressBar("Training", terminal))
        fit(trainer, listeners, LINES)
        self.history_ = [{name: line[name] for name in line if name != "evaluated"} for line in history.lines]
        return trainer.averaged().cpu()


def warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=7)  # where the user called `fit`
