"""Methods by name. A new method is one file and one entry in the list here."""

from collections.abc import Sequence
from typing import Any

from ..errors import UserError, unknown
from ..settings import Parameter, parameters_of
from .adamatch import AdaMatch
from .aug_contrast import AugContrast
from .barlow_twins import BarlowTwins
from .comatch import CoMatch
from .combine import Combine
from .fixmatch import FixMatch
from .flexmatch import FlexMatch
from .freematch import FreeMatch
from .icl import ICL
from .ict import ICT
from .mean_teacher import MeanTeacher
from .method import Method, Outputs, Problem, Term
from .mixmatch import MixMatch
from .mixup import Mixup
from .moco import MoCo
from .pi_model import PiModel
from .pseudo_label import PseudoLabel
from .remixmatch import ReMixMatch
from .simclr import SimCLR
from .simmatch import SimMatch
from .simsiam import SimSiam
from .softmatch import SoftMatch
from .step import Step
from .supervised import Supervised
from .uda import UDA
from .vat import VAT

__all__ = [
    "ALIASES",
    "METHODS",
    "SELF_SUPERVISED",
    "TERMS",
    "Combine",
    "Method",
    "Outputs",
    "Problem",
    "Step",
    "Term",
    "check_first_stage",
    "check_kind",
    "check_method",
    "chosen_settings",
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
SELF_SUPERVISED: dict[str, type[Term]] = {  # which need no labels: for a first stage, and as terms
    "simclr": SimCLR,
    "moco": MoCo,
    "barlow-twins": BarlowTwins,
    "simsiam": SimSiam,
    "icl": ICL,
}
ALIASES = {"icl-ssl": "fixmatch+icl"}


def parts_of(name: str) -> dict[str, type[Method]]:
    """The classes that a name such as `fixmatch+icl`, or that of a first stage such as `simclr`, stands for."""
    base, *terms = ALIASES.get(name, name).split("+")
    if base in ALIASES:
        base, *more = ALIASES[base].split("+")
        terms = more + terms
    if name in SELF_SUPERVISED:
        return {name: SELF_SUPERVISED[name]}
    if base not in METHODS:
        check_method(base)
    parts: dict[str, type[Method]] = {base: METHODS[base]}
    after_plus = SELF_SUPERVISED | TERMS
    for term in terms:
        if term in METHODS:
            raise UserError(f"'{term}' cannot follow a '+': only {', '.join(after_plus)} can.")
        if term not in after_plus:
            raise unknown("term", term, after_plus)
        if term in parts:
            raise UserError(f"method '{name}' names the term '{term}' twice.")
        parts[term] = after_plus[term]
    return parts


def check_method(name: str) -> None:
    """Refuse names that are not a method by themselves: a term, or a first stage."""
    base = name.partition("+")[0]
    if base in SELF_SUPERVISED:
        raise UserError(
            f"'{base}' uses no labels: write --pretrain {base} for a first stage, or add it to a method: "
            f"fixmatch+{base}."
        )
    if base in TERMS:
        raise UserError(f"'{base}' only adds to a method: write, for example, fixmatch+{base}.")
    if base not in METHODS and base not in ALIASES:
        raise unknown("method", base, [*METHODS, *ALIASES])


def check_first_stage(name: str) -> None:
    """Refuse names that cannot be a first stage."""
    if name not in SELF_SUPERVISED:
        raise unknown("method of a first stage", name, SELF_SUPERVISED)


def settings_of(method: type[Method]) -> dict[str, Parameter]:
    """The settings of a method, as its `__init__` declares them."""
    return parameters_of(method)


def full_settings(name: str, settings: dict[str, Any], kind: str = "images") -> dict[str, Any]:
    """All settings of a method under their full names: the given values, and defaults for the others."""
    chosen = chosen_settings(name, settings)
    full: dict[str, Any] = {}
    for part, method in parts_of(name).items():
        usual = {setting: parameter.default for setting, parameter in settings_of(method).items()}
        suiting = method.first_stage if name in SELF_SUPERVISED else method.defaults_for.get(kind, {})
        values = usual | dict(suiting) | chosen[part]
        full |= {f"{part}.{setting}": value for setting, value in values.items()}
    return full


def in_words(name: str, settings: dict[str, Any], kind: str = "images") -> str:
    """The method and what differs from its defaults: `icl-ssl with icl.weight 0.25`."""
    usual = full_settings(name, {}, kind)
    given = full_settings(name, settings, kind)
    changed = [f"{key} {value}" for key, value in given.items() if value != usual[key]]
    return f"{name} with {', '.join(changed)}" if changed else name


def chosen_settings(names: str | Sequence[str | None], settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The given settings of a method, or of the methods of several stages, checked and sorted by their part."""
    given = [names] if isinstance(names, str) else [name for name in names if name]
    name = " and ".join(given)
    parts = {part: method for name in given for part, method in parts_of(name).items()}
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
        chosen[part][setting] = settings_of(parts[part])[setting].check(owners[0], value)
    return chosen


def check_kind(name: str, kind: str) -> None:
    """Refuse a method that does not work on that kind of data."""
    for part, method in parts_of(name).items():
        if kind not in method.kinds:
            raise UserError(f"{part} works on {' and '.join(method.kinds)} only, not on {kind}: choose another method.")


def make_method(name: str, **settings: Any) -> Method:
    """A method from its name and settings, each spelled with its part: `make_method("icl-ssl", **{"icl.weight": 1})`.

    The part may be left out where only one has a setting of that name: `make_method("fixmatch", threshold=0.9)`.
    """
    chosen = chosen_settings(name, settings)
    made = [kind(**chosen[part]) for part, kind in parts_of(name).items()]
    return made[0] if len(made) == 1 else Combine(*made)
