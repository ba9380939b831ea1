"""Settings: parameters that declare their type, default, help and bounds in one place, their annotation.

    weight: Annotated[float, Setting("weight of the contrastive term", least=0)] = 0.5

A plain annotation, `weight: float = 0.5`, works too; it has no help and no bounds.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from .errors import UserError, unknown

TYPES: dict[Any, tuple[str, Any]] = {  # in words, and what is accepted
    bool: ("true or false", bool),
    int: ("a whole number", Integral),
    float: ("a number", Real),
    str: ("text", (str, PathLike)),
    dict: ("a dictionary", dict),
}
LARGEST = 1e15  # of any number: more does not fit where numbers are used


@dataclass(frozen=True)
class Setting:
    """The help text of a parameter, its bounds, and its group in the help."""

    help: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None  # more than
    below: float | None = None  # less than
    group: str = ""

    def check_bounds(self, name: str, value: float) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{name} must be a finite number, not {value}.")
        if abs(value) > LARGEST:
            shown = str(value)
            shown = shown if len(shown) <= 20 else f"{shown[:20]}..."
            raise UserError(f"{name} must be a number below {LARGEST:g}, not {shown}.")
        bounds = (
            ("at least", self.least, self.least is None or value >= self.least),
            ("at most", self.most, self.most is None or value <= self.most),
            ("more than", self.above, self.above is None or value > self.above),
            ("less than", self.below, self.below is None or value < self.below),
        )
        for words, bound, respected in bounds:
            if not respected:
                raise UserError(f"{name} must be {words} {bound:g}, not {value}.")


class Parameter(NamedTuple):
    """A declared parameter."""

    annotation: Any
    default: Any
    setting: Setting

    def check(self, name: str, value: Any) -> Any:
        """The value in Python's own type; refuses other types and values out of bounds. Called `name` in the error."""
        kinds = get_args(self.annotation)
        optional = NoneType in kinds
        if optional and value is None:
            return None
        kind = kinds[0] if optional else self.annotation
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise unknown(f"value of {name}", str(value), get_args(kind))
            return value
        kind = get_origin(kind) or kind
        if kind not in TYPES:
            return value
        words, accepted = TYPES[kind]
        if not isinstance(value, accepted) or isinstance(value, bool) != (kind is bool):
            raise UserError(f"{name} must be {words}, not {value!r}.")
        if kind in (int, float):
            self.setting.check_bounds(name, value)
        return kind(value)


def parameters_of(owner: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters that a function, or the constructor of a class, can be given by name."""
    found = {}
    for name, parameter in inspect.signature(owner, eval_str=True).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            annotation, setting = parameter.annotation, Setting()
            if get_origin(annotation) is Annotated:
                annotation, *notes = get_args(annotation)
                setting = next((note for note in notes if isinstance(note, Setting)), setting)
            found[name] = Parameter(annotation, parameter.default, setting)
    return found
