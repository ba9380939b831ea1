"""FewLabelClassifier: fewlabel with scikit-learn's conventions."""

import copy
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from .data import Dataset, Images
from .data.decode import decode, default_size, square
from .data.images import UNLABELLED, channels_first, numbered
from .data.vectors import Vectors
from .evaluate import CHUNK, calibrated, probabilities
from .loop import due
from .methods import parts_of, settings_of
from .networks import Classifier
from .plan import Plan, check_recipe, choose_device, make_plan
from .recipe import Recipe
from .terminal import with_progress
from .training import Training

LINES = 20  # of history_
SLACK = 1.001  # by which a resampled image may exceed white


class FewLabelClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from the rows that have a label and from those that have none.

    X may be a table of numbers (vectors), an array of images, (N, H, W), (N, H, W, 3) or (N, 3, H, W) in uint8 or
    float, or a list of picture files or of PIL images. In y, -1 stands for "unlabelled", as in scikit-learn's own
    semi-supervised estimators; so do None, NaN and the empty string.

    Parameters
    ----------
    method : name of a method, see `fewlabel methods`; `+icl` may follow any. `remixmatch` is for images only
    settings : of the method's parts, such as {"icl.temperature": 0.5}. Of vectors FixMatch's guesses are half
        aligned ({"fixmatch.align": 0.5}; 1 suits classes of equal size), and ICL has a weight of 0.1
    network : "cnn", "mlp" or "wrn-DEPTH-WIDTH"; by default what suits the data and the device. Vectors need "mlp"
    encoder : a torch module of your own that maps a batch to features. It gets pixels as float32 from 0 to 255
        (N, C, H, W), or vectors as they are: what it needs beforehand (a size, a normalisation) belongs into it
    frozen : does the encoder stay as it is? Then it looks at every row once, and training takes seconds
    steps : length of training
    batch, mu : labelled rows a step, and how many times as many unlabelled ones
    learning_rate, weight_decay, ema : of the optimiser and of the average of the weights
    noise, dropout : of views of vectors: standard deviations of noise, and the share of columns that are lost
    flip : is a mirrored image the same thing? By default not for images of one channel
    without : changes that no view of an image may make, such as "rotate,hue"
    size : side of the squares that picture files are made to; by default 32 where they are small, else 64
    device : "cpu", "cuda" or "mps"; by default the best there is
    warm_start : does another `fit` go on from the weights that are there?
    random_state : of everything random
    verbose : 1 for a bar

    Attributes
    ----------
    classes_ : the labels, sorted
    transduction_ : a label for each row of the X that was fitted, its own where it had one
    history_ : what was measured on the way, a dictionary for each of 20 parts of the training
    n_features_in_ : columns of a table

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(200, centers=3, random_state=0)
    >>> y[10:] = -1
    >>> model = FewLabelClassifier(steps=50, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (200,)
    """

    classes_: NDArray[Any]
    transduction_: NDArray[Any]
    history_: list[dict[str, Any]]
    network_: Classifier
    encoder_: nn.Module | None
    size_: int | None

    def __init__(
        self,
        method: str = "icl-ssl",
        *,
        settings: dict[str, Any] | None = None,
        network: str | None = None,
        encoder: nn.Module | None = None,
        frozen: bool = True,
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
    ) -> None:
        self.method = method
        self.settings = settings
        self.network = network
        self.encoder = encoder
        self.frozen = frozen
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on all rows, with the labels there are."""
        before = dict(self.__dict__)
        try:
            return self._fit(X, y)
        except BaseException:
            self.__dict__ = before  # what was there stays usable
            raise

    def _fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        labels, classes = encoded(y)
        if self.encoder is not None and self.frozen:
            self.encoder_ = copy.deepcopy(self.encoder).to(choose_device(self.device)).eval()
        else:
            self.encoder_ = None
        rows = self._inputs(X, fitting=True)
        if len(rows) != len(labels):
            raise ValueError(f"X has {len(rows)} rows and y has {len(labels)} labels.")
        if len(rows) < 2:
            raise ValueError(f"1 sample is too few to train on: n_samples={len(rows)}.")
        continued = getattr(self, "network_", None) if self.warm_start else None
        if continued is not None and not np.array_equal(classes, self.classes_):
            raise ValueError("warm_start needs the same classes as before.")
        images = self._images(rows, labels, tuple(str(name) for name in classes))
        dataset = Dataset("X", images, None, flip=images.channels == 3)
        plan = make_plan(check_recipe(self._recipe(vectors=rows.ndim == 2)), dataset)
        self.classes_ = classes
        drawing = self.encoder is not None and not self.frozen  # in whose dropout torch's global generator draws
        with torch.random.fork_rng(devices=[], enabled=drawing):
            if drawing:
                torch.manual_seed(plan.recipe.seed)
            self.network_ = self._train(plan, dataset, continued)
        guesses = self.classes_[probabilities(self.network_, images.pixels).argmax(1).numpy()]
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
        guesses = probabilities(self.network_, self._inputs(X)).double().numpy()
        return guesses / guesses.sum(1, keepdims=True)

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """The features f(x) that the network has learnt: a vector for each row."""
        check_is_fitted(self)
        rows = self._inputs(X)
        with torch.inference_mode():
            parts = [self.network_.encoder(self.network_.normalise(part)) for part in rows.split(CHUNK)]
        return torch.cat(parts).numpy()

    # ---- from arguments to data, plan and network

    def _recipe(self, vectors: bool) -> Recipe:
        settings = dict(self.settings or {})
        for part, kind in parts_of(self.method).items() if vectors else ():
            for name, value in kind.for_vectors.items():
                if name in settings_of(kind) and name not in settings:
                    settings.setdefault(f"{part}.{name}", value)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        return Recipe(
            data="X",
            method=self.method,
            settings=settings,
            network=self.network,
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
        """What the network is to learn from: the rows, or what a frozen encoder says of them."""
        rows = self._rows(X, fitting)
        if fitting:
            self.shape_ = tuple(rows.shape[1:])
        elif tuple(rows.shape[1:]) != self.shape_:
            raise ValueError(f"X has rows of {tuple(rows.shape[1:])}, fit had rows of {self.shape_}.")
        if self.encoder_ is None:
            return rows
        features = features_of(self.encoder_, rows, "Encoding" if self.verbose else "")
        if not features.isfinite().all():
            raise ValueError("the encoder gives NaN or infinity for some rows.")
        return features

    def _rows(self, X: Any, fitting: bool) -> Tensor:  # noqa: N803
        """uint8 (N, C, H, W) of images, float32 (N, D) of vectors; as `fit` had them."""
        if fitting:
            self.size_ = self.white_ = None
        if pictures := as_pictures(X):
            if self.size is not None and self.size < 1:
                raise ValueError(f"size must be at least 1, not {self.size}.")
            if fitting:
                self.size_ = self.size or default_size(pictures)
            if self.size_ is None:
                raise ValueError("X holds pictures, fit had arrays.")
            return decoded(pictures, self.size_)
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()  # noqa: N806
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

    def _images(self, rows: Tensor, labels: Tensor, classes: tuple[str, ...]) -> Images:
        if self.noise < 0 or not 0 <= self.dropout < 1:
            raise ValueError("noise must be at least 0, and dropout at least 0 and less than 1.")
        names = numbered("X", len(rows))
        if rows.ndim == 4:
            return Images(rows, labels, classes, names)
        return Vectors(rows, labels, classes, names, noise=self.noise, dropout=self.dropout)

    def _train(self, plan: Plan, dataset: Dataset, continued: Classifier | None) -> Classifier:
        training = Training(plan, dataset, encoder=None if self.frozen else self.encoder)
        if continued is not None:
            old, new = (n.state_dict() for n in (continued, training.network))
            parts = ("encoder.", "head.")  # not the projector, which only some methods have
            if any(old[k].shape != new[k].shape if k in old and k in new else k.startswith(parts) for k in old | new):
                raise ValueError("warm_start needs the same network and the same kind of rows as before.")
            for network in (training.network, training.teacher):
                network.load_state_dict(old, strict=False)
        self.history_ = []
        steps: Any = range(plan.steps)
        for index in with_progress(steps, plan.steps, "Training") if self.verbose else steps:
            training.advance(index)
            if due(index, plan.steps, LINES):
                self.history_.append({"step": index + 1} | training.meter.read())
        if not all(parameter.isfinite().all() for parameter in training.teacher.parameters()):
            raise ValueError("training has diverged: try a lower learning_rate.")
        return calibrated(training.teacher, dataset.train.pixels).cpu()


def features_of(encoder: nn.Module, rows: Tensor, title: str = "") -> Tensor:
    """What a module in evaluation mode says of every row, flattened; some at a time."""
    device = next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))
    # Pre-trained encoders make pictures large, and a processor's cache holds few: EfficientNet-Lite0 on two cores looks
    # at 34 pictures a second 4 at a time, at 12 a second 128 at a time.
    parts = rows.split(4 if rows.ndim > 2 and device.type == "cpu" else CHUNK // 4)
    with torch.inference_mode():
        shown = with_progress(parts, len(parts), title) if title else parts
        return torch.cat([encoder(part.to(device).float()).flatten(1).float().cpu() for part in shown])


# ---- what users give


def encoded(y: Any) -> tuple[Tensor, NDArray[Any]]:
    """Labels as positions among the classes, -1 where there is none; and the classes, sorted."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: give -1 for unlabelled rows.")
    # In an array of strings a NaN or -1 among them would become a string too.
    values = column_or_1d(np.array(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y), warn=True)
    if values.dtype.kind == "U" and np.isin(values, ("nan", str(UNLABELLED))).any():
        raise ValueError("y is an array of strings, in which NaN and -1 have become strings too: give a list.")
    known = np.array([not is_unlabelled(value) for value in values.tolist()], dtype=bool)
    there = values[known]
    if there.dtype == object:  # a list of strings, say, with None among them
        there = np.array(there.tolist())
    if not len(there):
        raise ValueError("y has no label: every row is unlabelled.")
    check_classification_targets(there)
    classes, positions = np.unique(there, return_inverse=True)
    labels = torch.full((len(values),), UNLABELLED)
    labels[torch.from_numpy(known)] = torch.from_numpy(positions).long()
    return labels, classes


def is_unlabelled(value: Any) -> bool:
    try:
        return bool(value is None or value == "" or value == UNLABELLED or value != value)
    except TypeError:  # pandas' NA, of which one cannot tell whether it is itself
        return True


def as_pictures(X: Any) -> list[Path | Image.Image]:  # noqa: N803
    """Files and PIL images, where X is a list of such; else nothing."""
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "UO":
        X = X.tolist()  # noqa: N806
    if not isinstance(X, list | tuple) or not all(isinstance(item, str | Path | Image.Image) for item in X):
        return []
    return [item if isinstance(item, Image.Image) else Path(item) for item in X]


def decoded(pictures: Sequence[Path | Image.Image], size: int) -> Tensor:
    arrays = [square(item, size) if isinstance(item, Image.Image) else decode(item, size) for item in pictures]
    return torch.from_numpy(np.stack(arrays))


def brightest(array: NDArray[Any]) -> int:
    """What white is in these images: 255, or 1 of truth values and where no float exceeds that."""
    floats_to_1 = array.dtype.kind == "f" and array.size and np.nanmax(array) <= SLACK
    return 1 if floats_to_1 or array.dtype.kind == "b" else 255


def as_pixels(array: NDArray[Any], white: int) -> Tensor:
    """uint8 (N, C, H, W) of any usual array of images, in which `white` is the largest value."""
    ordered = channels_first(array)
    if ordered is None:
        raise ValueError(f"images must be square and of one or three channels, not of shape {array.shape[1:]}.")
    if ordered.dtype != np.uint8:
        values = ordered.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("X contains NaN or infinity.")
        if values.size and (values.min() < 0 or values.max() > SLACK * white):
            raise ValueError(f"images lie between 0 and {white} here; there are values outside of that.")
        ordered = (values * (255 / white)).round().clip(0, 255).astype(np.uint8)
    return torch.from_numpy(np.ascontiguousarray(ordered))
