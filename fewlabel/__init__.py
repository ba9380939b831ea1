"""fewlabel trains a classifier from two labels per class and everything you never labelled."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from . import losses
    from .data import Dataset, Examples, Images, Vectors, few_label_split, load
    from .encoders import ENCODERS
    from .errors import UserError
    from .estimator import FewLabelClassifier
    from .methods import METHODS, SELF_SUPERVISED, make_method
    from .model import Model, load_model
    from .runs import Run, pretrain, train
    from .settings import Setting
    from .suggesting import suggest
    from .training import Recipe

__all__ = [
    "ENCODERS",
    "METHODS",
    "SELF_SUPERVISED",
    "Dataset",
    "Examples",
    "FewLabelClassifier",
    "Images",
    "Model",
    "Recipe",
    "Run",
    "Setting",
    "UserError",
    "Vectors",
    "__version__",
    "few_label_split",
    "load",
    "load_model",
    "losses",
    "make_method",
    "pretrain",
    "suggest",
    "train",
]

_HOME = {
    **dict.fromkeys(("Dataset", "Examples", "Images", "Vectors", "few_label_split", "load"), "data"),
    **dict.fromkeys(("METHODS", "SELF_SUPERVISED", "make_method"), "methods"),
    **dict.fromkeys(("Model", "load_model"), "model"),
    **dict.fromkeys(("Run", "pretrain", "train"), "runs"),
    "ENCODERS": "encoders",
    "FewLabelClassifier": "estimator",
    "Recipe": "training",
    "Setting": "settings",
    "UserError": "errors",
    "suggest": "suggesting",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import on first use, so that `fewlabel --help` need not wait for torch."""
    if name == "losses":
        return import_module(".losses", __name__)
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'fewlabel' has no attribute '{name}'")
