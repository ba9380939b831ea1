"""Encoders: networks trained elsewhere, by name, and the features that they make of pictures."""

from .encode import Encoded, Picture, encode_folder, encode_pictures, encoders_of_views, features_of
from .encoder import MODULE, Encoder, PixelEncoder, from_module
from .find import ENCODERS, NONE, Listed, find_encoder, full_name
from .libraries import LIBRARIES
from .lite import PHOTOS
from .onnx_file import OnnxModule

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
