"""Mistakes a user can make: each is one sentence that names the file or setting and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from os import PathLike
from typing import Any

KINDS: dict[Any, tuple[str, Any]] = {  # of settings: in words, and what will do
    bool: ("true or false", bool),
    int: ("a whole number", Integral),
    float: ("a number", Real),
    str: ("text", (str, PathLike)),
    dict: ("a dictionary", dict),
}


class UserError(ValueError):
    """Shown without a traceback; the command line ends with exit code 2."""

    shared = False  # do all processes of the run know of it? then one of them says it


class LostContact(UserError):
    """Another process of the same run has ended."""


def unknown(what: str, name: str, valid: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest valid ones."""
    valid = list(valid)
    near = get_close_matches(name, valid, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(valid)}."
    return UserError(f"unknown {what} '{name}': {advice}")


def of_kind(name: str, value: Any, kind: Any) -> Any:
    """The value of a setting in Python's own type; refuses text for a number and the like, which Python lets pass."""
    words, fits = KINDS[kind]
    if not isinstance(value, fits) or isinstance(value, bool) != (kind is bool):
        raise UserError(f"{name} must be {words}, not {value!r}.")
    return kind(value)
