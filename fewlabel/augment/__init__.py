"""Views of a batch of images, made of whole tensors on the device where the images are."""

from .randaugment import OPERATIONS
from .simclr import simclr
from .small import small
from .strong import strong
from .weak import weak

__all__ = ["CHANGES", "VIEWS", "simclr", "small", "strong", "weak"]

VIEWS = {"weak": weak, "strong": strong, "simclr": simclr, "small": small}  # name -> function(images, draws, without)
# What views may do to a picture, by the names that `without` knows; no view turns one upside down.
CHANGES = ("horizontal-flip", "vertical-flip", "shift", "crop", "cutout", "hue", "grey", *OPERATIONS[1:])
