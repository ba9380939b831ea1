"""Pre-trained encoders by name, and their features of pictures."""

from typing import TYPE_CHECKING

from ..lazy import import_lazily

__all__ = [
    "ENCODERS",
    "LIBRARIES",
    "MODULE",
    "NONE",
    "PHOTOS",
    "Encoded",
    "Encoder",
    "Listed",
    "OnnxModule",
    "Picture",
    "PixelEncoder",
    "encode_folder",
    "encode_pictures",
    "encoders_of_views",
    "features_of",
    "find_encoder",
    "from_module",
    "full_name",
]

if TYPE_CHECKING:
    from .encode import Encoded, Picture, encode_folder, encode_pictures, encoders_of_views, features_of
    from .encoder import MODULE, Encoder, PixelEncoder, from_module
    from .find import find_encoder, full_name
    from .libraries import LIBRARIES
    from .listed import ENCODERS, NONE, PHOTOS, Listed
    from .onnx_file import OnnxModule
else:
    import_lazily(
        __name__,
        {
            "encode": (
                "Encoded",
                "Picture",
                "encode_folder",
                "encode_pictures",
                "encoders_of_views",
                "features_of",
            ),
            "encoder": ("MODULE", "Encoder", "PixelEncoder", "from_module"),
            "find": ("find_encoder", "full_name"),
            "libraries": ("LIBRARIES",),
            "listed": ("ENCODERS", "NONE", "PHOTOS", "Listed"),
            "onnx_file": ("OnnxModule",),
        },
    )
