"""Methods by name. A new one is a file of its own and its name in the list here."""

import inspect
import math
from typing import Any, Literal, get_args, get_origin

from ..errors import UserError, of_kind, unknown
from .adamatch import AdaMatch
from .aug_contrast import AugContrast
from .comatch import CoMatch
from .combine import Combine
from .fixmatch import FixMatch
from .flexmatch import FlexMatch
from .freematch import FreeMatch
from .icl import ICL
from .ict import ICT
from .mean_teacher import MeanTeacher
from .method import Method, Outputs, Problem, Step, Term
from .mixmatch import MixMatch
from .mixup import Mixup
from .pi_model import PiModel
from .pseudo_label import PseudoLabel
from .remixmatch import ReMixMatch
from .simmatch import SimMatch
from .softmatch import SoftMatch
from .supervised import Supervised
from .uda import UDA
from .vat import VAT

__all__ = [
    "ALIASES",
    "METHODS",
    "TERMS",
    "Combine",
    "Method",
    "Outputs",
    "Problem",
    "Step",
    "Term",
    "full_settings",
    "in_words",
    "make_method",
    "parts_of",
    "settings_of",
]

METHODS: dict[str, type[Method]] = {
    "supervised": Supervised,
    "mixup": Mixup,
    "pseudo-label": PseudoLabel,
    "pi-model": PiModel,
    "mean-teacher": MeanTeacher,
    "vat": VAT,
    "ict": ICT,
    "mixmatch": MixMatch,
    "remixmatch": ReMixMatch,
    "uda": UDA,
    "fixmatch": FixMatch,
    "comatch": CoMatch,
    "flexmatch": FlexMatch,
    "freematch": FreeMatch,
    "softmatch": SoftMatch,
    "adamatch": AdaMatch,
    "simmatch": SimMatch,
}
TERMS: dict[str, type[Term]] = {
    "icl": ICL,
    "aug-contrast": AugContrast,
}
ALIASES = {"icl-ssl": "fixmatch+icl"}
MORE_THAN_0 = {"temperature", "beta", "queue"}  # settings, of whatever method
AT_MOST_1 = {"momentum", "smoothing", "threshold", "like", "align"}


def parts_of(name: str) -> dict[str, type[Method]]:
    """The classes that a name such as `fixmatch+icl` stands for."""
    base, *terms = ALIASES.get(name, name).split("+")
    if base in ALIASES:
        base, *more = ALIASES[base].split("+")
        terms = more + terms
    if base not in METHODS:
        if base in TERMS:
            raise UserError(f"'{base}' only adds to a method: write, for example, fixmatch+{base}.")
        raise unknown("method", base, [*METHODS, *ALIASES])
    parts: dict[str, type[Method]] = {base: METHODS[base]}
    for term in terms:
        if term in METHODS:
            raise UserError(f"'{term}' cannot follow a '+': only {', '.join(TERMS)} can.")
        if term not in TERMS:
            raise unknown("term", term, TERMS)
        if term in parts:
            raise UserError(f"method '{name}' names the term '{term}' twice.")
        parts[term] = TERMS[term]
    return parts


def settings_of(method: type[Method]) -> dict[str, inspect.Parameter]:
    """The settings of a method: the keyword arguments of its `__init__`, read from its signature."""
    parameters = inspect.signature(method, eval_str=True).parameters
    return {name: p for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}


def check(name: str, value: Any, setting: inspect.Parameter) -> Any:
    """The value, if the setting can take it."""
    kind = get_args(setting.annotation)[0]
    if get_origin(kind) is Literal and value not in get_args(kind):
        raise unknown(f"value of {name}", str(value), get_args(kind))
    if kind in (bool, int, float):
        value = of_kind(name, value, kind)
    if kind in (int, float):
        if not 0 <= value < math.inf:
            raise UserError(f"{name} must be at least 0 and finite, not {value!r}.")
        if value == 0 and setting.name in MORE_THAN_0:
            raise UserError(f"{name} must be more than 0.")
        if value > 1 and setting.name in AT_MOST_1:
            raise UserError(f"{name} must be at most 1, not {value!r}.")
    return value


def full_settings(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Every setting of a method under its full name: the given ones and the defaults of the others."""
    chosen = chosen_settings(name, settings)
    return {
        f"{part}.{setting}": chosen[part].get(setting, parameter.default)
        for part, kind in parts_of(name).items()
        for setting, parameter in settings_of(kind).items()
    }


def in_words(name: str, settings: dict[str, Any]) -> str:
    """The method and what differs from its defaults: `icl-ssl with icl.weight 0.25`."""
    usual = full_settings(name, {})
    changed = [f"{key} {value}" for key, value in full_settings(name, settings).items() if value != usual[key]]
    return f"{name} with {', '.join(changed)}" if changed else name


def chosen_settings(name: str, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The given settings, sorted by the part they belong to."""
    parts = parts_of(name)
    valid = {f"{part}.{setting}": (part, setting) for part, kind in parts.items() for setting in settings_of(kind)}
    chosen: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for key, value in settings.items():
        owners = [full for full in valid if full == key or full.endswith(f".{key}")]
        if not owners:
            raise unknown(f"setting of {name}", key, valid)
        if len(owners) > 1:
            raise UserError(f"setting '{key}' of {name} is ambiguous: write {' or '.join(owners)}.")
        part, setting = valid[owners[0]]
        if setting in chosen[part]:
            raise UserError(f"setting {owners[0]} of {name} is given twice.")
        chosen[part][setting] = check(owners[0], value, settings_of(parts[part])[setting])
    return chosen


def make_method(name: str, **settings: Any) -> Method:
    """A method from its name and settings, each spelled with its part: `make_method("icl-ssl", **{"icl.weight": 1})`.

    The part may be left out where only one has a setting of that name: `make_method("fixmatch", threshold=0.9)`.
    """
    chosen = chosen_settings(name, settings)
    made = [kind(**chosen[part]) for part, kind in parts_of(name).items()]
    return made[0] if len(made) == 1 else Combine(*made)
