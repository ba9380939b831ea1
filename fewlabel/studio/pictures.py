"""Pictures for the page: upright, no larger than needed, in a format that browsers support."""

import io
import warnings
from pathlib import Path

from PIL import Image, ImageOps

from ..decode import rgb
from ..errors import UserError
from ..value_range import extremes, spanning

SIZES = {"small": 200, "large": 1600}  # pixels of the longer side, at most
QUALITY = 88


def shown_picture(path: Path, size: str) -> tuple[bytes, str]:
    """The picture of a file, and its media type."""
    if size not in SIZES:
        raise UserError("the size of a picture is small or large.")
    side = SIZES[size]
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as picture:
            picture.draft("RGB", (side, side))  # a JPEG decoder can shrink while it reads
            upright = ImageOps.exif_transpose(picture)
            plain = rgb(upright, spanning([extremes(upright)]))
    except Exception as error:  # decoders raise many kinds of errors for damaged files
        raise UserError(f"this picture cannot be read ({error}).") from error
    plain.thumbnail((side, side))
    buffer = io.BytesIO()
    if max(plain.size) <= 256:  # small ones without loss
        plain.save(buffer, "png")
        return buffer.getvalue(), "image/png"
    plain.save(buffer, "jpeg", quality=QUALITY)
    return buffer.getvalue(), "image/jpeg"
