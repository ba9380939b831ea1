"""Errors that users can cause: each is one sentence that names the file or setting and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Shown without a traceback; the command line ends with exit code 2."""

    shared = False  # do all processes of the run know of it? then one of them prints it


class LostContact(UserError):
    """Another process of the same run has ended."""


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C: the run was saved and can be resumed."""


def unknown(what: str, name: str, valid: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest valid ones."""
    valid = list(valid)
    near = get_close_matches(name, valid, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(valid)}."
    return UserError(f"unknown {what} '{name}': {advice}")
