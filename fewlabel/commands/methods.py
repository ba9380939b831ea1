"""methods: list the methods, or describe one with its settings."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from ..methods import ALIASES, METHODS, SELF_SUPERVISED, TERMS, Method, parts_of, settings_of
from ..training import Recipe
from ..training.cost import try_step

AFTER_PLUS = TERMS | SELF_SUPERVISED


def methods(name: Annotated[str | None, Parameter(help="name of the method to describe")] = None, /) -> None:
    """List the methods, or describe one with its settings."""
    console = Console(highlight=False)
    if name:
        name = name.removeprefix("+")
        for part, method in ({name: AFTER_PLUS[name]} if name in AFTER_PLUS else parts_of(name)).items():
            print_method(console, part, method)
            print_settings(console, part, method)
            console.print(f"    Code: {method.__module__.replace('.', '/')}.py")
        console.print(cost(f"fixmatch+{name}" if name in AFTER_PLUS else name), soft_wrap=True)
        if name in SELF_SUPERVISED:
            console.print(
                f"As a first stage: fewlabel train digits --labels-per-class 2 --pretrain {name}", soft_wrap=True
            )
        return
    for part, method in {**METHODS, **AFTER_PLUS}.items():
        print_method(console, part, method)
    for alias, meaning in ALIASES.items():
        console.print(f"[bold]{alias}[/]  is another name for {meaning}")
    console.print(
        f"\n{', '.join(f'+{term}' for term in AFTER_PLUS)} can be added to any method: mixmatch+icl. "
        f"{', '.join(SELF_SUPERVISED)} need no labels and can be a first stage: --pretrain simclr. "
        "`fewlabel methods NAME` describes one, with its settings.",
        soft_wrap=True,
    )


def print_method(console: Console, part: str, method: type[Method]) -> None:
    first_line = (method.__doc__ or "").strip().splitlines()[0]
    console.print(
        f"[bold]{'+' if part in AFTER_PLUS else ''}{part}[/]  {first_line}  [dim]{method.paper}[/]", soft_wrap=True
    )


def print_settings(console: Console, part: str, method: type[Method]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2))
    names = settings_of(method)
    table.add_column(min_width=max((len(f"  --{part}.{name}") for name in names), default=0))  # never cut off
    for name, parameter in names.items():
        uses = {**method.defaults_for, "first stage": method.first_stage}
        others = [f" ({use}: {values[name]})" for use, values in uses.items() if name in values]
        table.add_row(f"  --{part}.{name}", f"{parameter.default}{''.join(others)}", parameter.setting.help)
    if table.row_count:
        console.print(table)


def cost(method: str) -> str:
    result = try_step(method)
    return (
        f"A step of {method} takes {result.images} images through the network (batch {Recipe.batch}, mu {Recipe.mu}) "
        f"in {result.passes} pass{'es' if result.passes > 1 else ''}; "
        f"its loss is the sum of: {', '.join(result.terms)}.\n"
        f"Try it: fewlabel train digits --labels-per-class 2 --method {method}"
    )
