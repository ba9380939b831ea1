"""encoders: the pre-trained encoders by name."""

from rich.console import Console
from rich.table import Table

from ..encoders import ENCODERS


def encoders() -> None:
    """List the pre-trained encoders, and how to get those that are not installed."""
    table = Table("name", "input", "features", "size", "licence", "installed")
    for one in ENCODERS.values():
        side, installed = f"{one.size}x{one.size}", "yes" if one.installed else "no"
        table.add_row(one.name, side, str(one.features), f"{one.megabytes} MB", one.licence, installed)
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    for install in dict.fromkeys(one.install for one in ENCODERS.values() if not one.installed):
        names = ", ".join(one.name for one in ENCODERS.values() if one.install == install and not one.installed)
        console.print(f"To get {names}: {install}", markup=False)
