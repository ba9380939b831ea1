"""The options of `train` and `pretrain`: one for each field of Recipe and for each setting of the chosen methods."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Group, Parameter

from ..methods import SELF_SUPERVISED, Method, check_first_stage, parts_of, settings_of
from ..run_files import FIRST_STAGE
from ..settings import Parameter as Declared
from ..settings import Setting, parameters_of
from ..training import Recipe
from ..training.recipe import ADVANCED, GROUPS, OUTPUT, TRAINING

MORE = {  # options of `train` that are no part of a recipe
    "resume": Declared(bool, False, Setting("continue the run in --out", group=OUTPUT)),
    "overwrite": Declared(bool, False, Setting("replace the run in --out", group=OUTPUT)),
}

FIRST = "simclr"  # the method of `pretrain`
PRETRAIN_FIELDS = (
    *(
        "data",
        "root",
        "download",
        "size",
        "range",
        "flip",
        "without",
        "method",
        "network",
        "batch",
        "images",
        "minutes",
    ),
    *("steps", "learning_rate", "seed", "out", "device", "threads", "horizon", "weight_decay", "ema", "evaluations"),
    *("precision", "share_norms"),
)

Action = Callable[..., None]


def train_command(action: Action, words: Sequence[str]) -> Callable[..., None]:
    """The command `train` with the options for these arguments; it calls `action(recipe, resume, overwrite)`."""
    recipe = parameters_of(Recipe)
    del recipe["settings"]
    parts = parts_of(chosen(words, "--method", Recipe.method))
    if first := chosen(words, "--pretrain"):
        check_first_stage(first)
        both = {f"{FIRST_STAGE}.{part}": method for part, method in parts_of(first).items() if part in parts}
        parts |= parts_of(first) | both
    return recipe_command(action, recipe, parts)


def pretrain_command(action: Action, words: Sequence[str]) -> Callable[..., None]:
    """The command `pretrain`, with the fields of a recipe that apply without labels."""
    recipe = parameters_of(Recipe)
    method = chosen(words, "--method", FIRST)
    check_first_stage(method)
    help_text = f"without labels: {', '.join(SELF_SUPERVISED)}"
    other = {
        "method": recipe["method"]._replace(default=FIRST, setting=Setting(help_text, group=TRAINING)),
        "batch": recipe["pretrain_batch"]._replace(setting=Setting("examples per step", least=2, group=TRAINING)),
        "images": recipe["pretrain_images"]._replace(
            setting=Setting(
                "length in images, counting views; default 1,200,000, at most 400 per image",
                least=1,
                group=TRAINING,
            )
        ),
        "steps": recipe["steps"]._replace(setting=Setting("length in steps", least=1, group=TRAINING)),
        "minutes": recipe["minutes"]._replace(
            setting=Setting("length in minutes; steps are timed first", above=0, group=TRAINING)
        ),
        "evaluations": recipe["evaluations"]._replace(
            setting=Setting("number of nearest-neighbour evaluations; default 20", least=1, group=ADVANCED)
        ),
        "precision": recipe["pretrain_precision"],
        "learning_rate": recipe["pretrain_rate"]._replace(setting=Setting("default 0.3", above=0, group=TRAINING)),
    }
    fields = {name: other.get(name, recipe[name]) for name in PRETRAIN_FIELDS}
    return recipe_command(action, fields, parts_of(method), mu=1)


def recipe_command(
    action: Action, fields: dict[str, Declared], parts: dict[str, type[Method]], **fixed: Any
) -> Callable[..., None]:
    """A command with an option for each of these fields of a recipe and for each setting of these parts of a method."""
    groups = {name: Group(name, sort_key=i) for i, name in enumerate(GROUPS)}
    data = fields.pop("data")
    if "labels" in fields:
        fields["labels"] = fields["labels"]._replace(annotation=list[str] | None)  # a file for each --labels
    usual = {name: declared.default for name, declared in fields.items()} | fixed
    settings = {
        identifier(part, name): (f"{part}.{name}", with_other_defaults(declared, name, method))
        for part, method in parts.items()
        for name, declared in settings_of(method).items()
    }
    options = [inspect.Parameter("data", inspect.Parameter.POSITIONAL_ONLY, annotation=described(data))]
    for name, declared in (fields | MORE).items():
        flag = f"--{name.replace('_', '-')}"
        negative = "" if name in MORE or name == "labels" else None
        options.append(option(name, declared, flag, groups[declared.setting.group], negative=negative))
    for name, (full, declared) in settings.items():
        group = Group(f"Settings of {full.rpartition('.')[0]}", sort_key=len(groups))
        options.append(option(name, declared, f"--{full}", group))

    def command(data: str, **values: Any) -> None:
        more = {name: values.pop(name, False) for name in MORE}
        given = {settings[name][0]: values.pop(name) for name in list(values) if name in settings}
        chosen = {name: value for name, value in given.items() if value is not None}
        action(Recipe(data=data, settings=chosen, **(usual | values)), **more)

    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {entry.name: entry.annotation for entry in options}
    return command


def option(name: str, declared: Declared, flag: str, group: Group, negative: str | None = None) -> inspect.Parameter:
    annotation = described(declared, name=flag, group=group, negative=negative)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared.default, annotation=annotation)


def described(declared: Declared, **more: Any) -> Any:
    """The type, annotated for the parser."""
    return Annotated[declared.annotation, Parameter(help=declared.setting.help, **more)]


def with_other_defaults(declared: Declared, name: str, method: type[Method]) -> Declared:
    """The help also tells the default for other kinds of data; not given, a setting is decided by the kind."""
    others = [f"for {kind} {values[name]}" for kind, values in method.defaults_for.items() if name in values]
    if name in method.first_stage:
        others.append(f"for a first stage {method.first_stage[name]}")
    if not others:
        return declared
    text = f"{declared.setting.help}; default {declared.default}, {', '.join(others)}"
    return Declared(declared.annotation | None, None, replace(declared.setting, help=text))


def identifier(part: str, setting: str) -> str:
    """A name for Python: `pi_model__ramp`."""
    return f"{part}__{setting}".replace("-", "_").replace(".", "__")


def chosen(words: Sequence[str], flag: str, default: str = "") -> str:
    """The value of a flag, read before the rest can be parsed."""
    value = default
    for position, word in enumerate(words):
        if word == flag and position + 1 < len(words):
            value = words[position + 1]
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value
