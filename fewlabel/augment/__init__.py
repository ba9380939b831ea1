"""Views of a batch of images, made of whole tensors on the device where the images are."""

from .simclr import simclr
from .strong import strong
from .weak import weak

__all__ = ["VIEWS", "simclr", "strong", "weak"]

VIEWS = {"weak": weak, "strong": strong, "simclr": simclr}  # name -> function(images, generator, flip)
