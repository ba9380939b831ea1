"""Views of a batch of images, made of whole tensors on the device where the images are."""

from .strong import strong
from .weak import weak

__all__ = ["VIEWS", "strong", "weak"]

VIEWS = {"weak": weak, "strong": strong}  # name -> function(images, generator, flip)
