"""Options of the command line, derived from annotations.

They say the type, then the help, then the short name (in a command) or the group that the help shows it in (Recipe).
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Annotated, Any, get_args, get_type_hints

from .recipe import Recipe


def described(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with its annotations in the form that the parser reads."""
    from cyclopts import Parameter

    def parameter(entry: inspect.Parameter) -> inspect.Parameter:
        kind, text, *short = get_args(entry.annotation)
        return entry.replace(annotation=Annotated[kind, Parameter(help=text, alias=short)])

    @functools.wraps(command)
    def wrapped(*values: Any, **options: Any) -> Any:
        return command(*values, **options)

    return with_parameters(wrapped, [parameter(entry) for entry in inspect.signature(command).parameters.values()])


def with_parameters(command: Callable[..., Any], parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {entry.name: entry.annotation for entry in parameters}
    return command


def of_recipe(train: Callable[..., None], words: Sequence[str]) -> Callable[..., None]:
    """`train` with one option for each field of Recipe and for each setting of the method that `words` ask for."""
    from cyclopts import Group, Parameter

    from .methods import parts_of, settings_of

    groups = {name: Group(name, sort_key=i) for i, name in enumerate(("Data", "Training", "Machine"))}

    def option(name: str, annotation: Any, default: Any, flag: str, group: Group, **more: Any) -> inspect.Parameter:
        text, _ = help_of(annotation)
        kind: Any = get_args(annotation)[0]
        annotated: Any = Annotated[kind, Parameter(name=flag, help=text, group=group, **more)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated)

    hints = get_type_hints(Recipe, include_extras=True)
    options = [
        inspect.Parameter(
            "data",
            inspect.Parameter.POSITIONAL_ONLY,
            annotation=Annotated[str, Parameter(help=help_of(hints["data"])[0])],
        )
    ]
    for entry in fields(Recipe):
        if entry.name not in ("data", "settings"):
            group = groups[help_of(hints[entry.name])[1]]
            flag = f"--{entry.name.replace('_', '-')}"
            options.append(option(entry.name, hints[entry.name], entry.default, flag, group))
    for name, text in (("resume", "continue the run in --out"), ("overwrite", "replace the run in --out")):
        options.append(option(name, Annotated[bool, text, ""], False, f"--{name}", groups["Machine"], negative=""))
    settings: dict[str, str] = {}
    for part, kind in parts_of(chosen_method(words)).items():
        for setting, parameter in settings_of(kind).items():
            settings[key := f"{part}__{setting}".replace("-", "_")] = full = f"{part}.{setting}"
            group = Group(f"Settings of {part}", sort_key=len(groups))
            options.append(option(key, parameter.annotation, parameter.default, f"--{full}", group))

    def command(data: str, **values: Any) -> None:
        flags = {name: values.pop(name, False) for name in ("resume", "overwrite")}
        chosen = {settings[key]: values.pop(key) for key in list(values) if key in settings}
        train(Recipe(data=data, settings=chosen, **values), **flags, words=words)

    command.__doc__ = f"{train.__doc__}\n\nThe settings of another method are shown by --method NAME --help."
    return with_parameters(command, options)


def help_of(annotation: Any) -> tuple[str, str]:
    """Help and group out of Annotated[type, help] or Annotated[type, help, group]."""
    _, text, *group = get_args(annotation)
    return text, group[0] if group else ""


def chosen_method(words: Sequence[str]) -> str:
    """What --method says, before the rest can be parsed."""
    for position, word in enumerate(words):
        if word == "--method" and position + 1 < len(words):
            return words[position + 1]
        if word.startswith("--method="):
            return word.partition("=")[2]
    return Recipe.method
