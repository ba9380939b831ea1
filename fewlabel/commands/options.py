"""The options of `fewlabel train`: one for each field of Recipe and for each setting of the chosen method."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Group, Parameter

from ..methods import Method, parts_of, settings_of
from ..settings import Parameter as Declared
from ..settings import Setting, parameters_of
from ..training import Recipe
from ..training.recipe import GROUPS, OUTPUT

MORE = {  # options of `train` that are no part of a recipe
    "resume": Declared(bool, False, Setting("continue the run in --out", group=OUTPUT)),
    "overwrite": Declared(bool, False, Setting("replace the run in --out", group=OUTPUT)),
}

Action = Callable[..., None]


def train_command(action: Action, words: Sequence[str]) -> Callable[..., None]:
    """`train` with the options that these words may use; it calls `action(recipe, resume, overwrite)`."""
    groups = {name: Group(name, sort_key=i) for i, name in enumerate(GROUPS)}
    recipe = parameters_of(Recipe)
    data, _ = recipe.pop("data"), recipe.pop("settings")
    parts = parts_of(chosen_method(words))
    settings = {
        identifier(part, name): (f"{part}.{name}", with_other_defaults(declared, name, method))
        for part, method in parts.items()
        for name, declared in settings_of(method).items()
    }
    options = [inspect.Parameter("data", inspect.Parameter.POSITIONAL_ONLY, annotation=described(data))]
    for name, declared in (recipe | MORE).items():
        flag = f"--{name.replace('_', '-')}"
        negative = "" if name in MORE else None
        options.append(option(name, declared, flag, groups[declared.setting.group], negative=negative))
    for name, (full, declared) in settings.items():
        group = Group(f"Settings of {full.partition('.')[0]}", sort_key=len(groups))
        options.append(option(name, declared, f"--{full}", group))

    def command(data: str, **values: Any) -> None:
        more = {name: values.pop(name, False) for name in MORE}
        given = {settings[name][0]: values.pop(name) for name in list(values) if name in settings}
        chosen = {name: value for name, value in given.items() if value is not None}
        action(Recipe(data=data, settings=chosen, **values), **more)

    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {entry.name: entry.annotation for entry in options}
    return command


def option(name: str, declared: Declared, flag: str, group: Group, negative: str | None = None) -> inspect.Parameter:
    annotation = described(declared, name=flag, group=group, negative=negative)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared.default, annotation=annotation)


def described(declared: Declared, **more: Any) -> Any:
    """The type with what the parser needs to know."""
    return Annotated[declared.annotation, Parameter(help=declared.setting.help, **more)]


def with_other_defaults(declared: Declared, name: str, method: type[Method]) -> Declared:
    """The help also tells the default for other kinds of data; not given, a setting is decided by the kind."""
    others = [f"for {kind} {values[name]}" for kind, values in method.defaults_for.items() if name in values]
    if not others:
        return declared
    text = f"{declared.setting.help}; default {declared.default}, {', '.join(others)}"
    return Declared(declared.annotation | None, None, replace(declared.setting, help=text))


def identifier(part: str, setting: str) -> str:
    """A name for Python: `pi_model__ramp`."""
    return f"{part}__{setting}".replace("-", "_")


def chosen_method(words: Sequence[str]) -> str:
    """What --method says, before the rest can be parsed."""
    method = Recipe.method
    for position, word in enumerate(words):
        if word == "--method" and position + 1 < len(words):
            method = words[position + 1]
        elif word.startswith("--method="):
            method = word.partition("=")[2]
    return method
