"""fewlabel trains a classifier from two labels per class and everything you never labelled."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import losses
    from .data import Dataset, Images, few_label_split, load
    from .errors import UserError
    from .estimator import FewLabelClassifier
    from .loop import Run, train
    from .methods import METHODS, make_method
    from .recipe import Recipe

__all__ = [
    "METHODS",
    "Dataset",
    "FewLabelClassifier",
    "Images",
    "Recipe",
    "Run",
    "UserError",
    "__version__",
    "few_label_split",
    "load",
    "losses",
    "make_method",
    "train",
]

_HOME = {
    **dict.fromkeys(("Dataset", "Images", "few_label_split", "load"), "data"),
    **dict.fromkeys(("METHODS", "make_method"), "methods"),
    **dict.fromkeys(("Run", "train"), "loop"),
    "FewLabelClassifier": "estimator",
    "Recipe": "recipe",
    "UserError": "errors",
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
