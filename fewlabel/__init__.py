"""fewlabel trains a classifier from two labels per class and everything you never labelled."""

from typing import TYPE_CHECKING

from .lazy import import_lazily

__version__ = "0.2.0"

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
else:
    import_lazily(
        __name__,
        {
            "data": ("Dataset", "Examples", "Images", "Vectors", "few_label_split", "load"),
            "encoders": ("ENCODERS",),
            "errors": ("UserError",),
            "estimator": ("FewLabelClassifier",),
            "losses": (),
            "methods": ("METHODS", "SELF_SUPERVISED", "make_method"),
            "model": ("Model", "load_model"),
            "runs": ("Run", "pretrain", "train"),
            "settings": ("Setting",),
            "suggesting": ("suggest",),
            "training": ("Recipe",),
        },
    )
