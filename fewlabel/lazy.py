"""Import the names of a package on first use, so that code without torch need not wait for it."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any


def import_lazily(package: str, homes: Mapping[str, Sequence[str]]) -> None:
    """Give a package its modules and the names that `homes` lists for each, all imported on first use.

    No module may be called as one of the names: once imported it would hide that.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in homes:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    module: Any = sys.modules[package]
    module.__getattr__, module.__dir__ = find, lambda: module.__all__
