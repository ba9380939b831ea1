"""Networks by name: `wrn-DEPTH-WIDTH`, `cnn`, `cnn-WIDTH`, `mlp`."""

from .classifier import Classifier, Output
from .make import NETWORKS, TUNED, make_classifier, make_encoder
from .norm import norms_untouched, set_norm_momentum, share_norms, with_precise_norms

__all__ = [
    "NETWORKS",
    "TUNED",
    "Classifier",
    "Output",
    "make_classifier",
    "make_encoder",
    "norms_untouched",
    "set_norm_momentum",
    "share_norms",
    "with_precise_norms",
]
