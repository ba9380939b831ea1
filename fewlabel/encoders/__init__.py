"""Encoders by name. A new library is a file of its own and its prefix in the list here."""

from dataclasses import dataclass

from ..errors import unknown
from .efficientnet_lite import FEATURES, VARIANTS
from .encoder import Encoder
from .lite import LICENCE, PHOTOS, is_installed, load_lite

__all__ = ["ENCODERS", "Encoder", "Listed", "find_encoder"]


@dataclass(frozen=True)
class Listed:
    """What is known of an encoder before it is loaded."""

    name: str
    size: int  # side of its input
    features: int
    megabytes: int  # of its weights
    licence: str
    install: str  # how to get it

    @property
    def installed(self) -> bool:
        return is_installed(self.name)


ENCODERS: dict[str, Listed] = {
    name: Listed(name, size, FEATURES, megabytes, LICENCE, PHOTOS)
    for (name, (_, _, size)), megabytes in zip(VARIANTS.items(), (17, 20, 23), strict=True)
}
ENCODERS["lite"] = Listed("lite", max(one.size for one in ENCODERS.values()), 3 * FEATURES, 60, LICENCE, PHOTOS)


def find_encoder(name: str) -> Encoder:
    """The encoder of that name, loaded."""
    if name in ENCODERS:
        return load_lite(name)
    raise unknown("encoder", name, ENCODERS)
