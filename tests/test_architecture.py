"""Imports go downward only; methods see no files or devices; the loop names no method."""

import ast
from pathlib import Path

import pytest

import fewlabel
from fewlabel import METHODS
from fewlabel.methods import ALIASES, TERMS

PACKAGE = Path(fewlabel.__file__).parent
LAYERS = [
    {"errors", "files", "terminal", "recipe", "losses", "ema", "randomness", "ranks", "data", "augment", "networks"},
    {"methods"},
    {"plan", "alarm", "evaluate", "checkpoint", "progress", "predict", "report", "training", "loop"},
    {"demo", "grid", "drift", "estimator", "export"},
    {"paper"},
    {"cli", "options", "__main__"},
]
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
# Within the lowest layer: who may know whom.
LOWEST = {
    "data": {"errors", "randomness", "terminal"},
    "files": {"errors"},
    "terminal": set(),
    "augment": {"randomness"},
    "networks": {"errors", "randomness", "ranks"},
    "ranks": {"errors"},
    "losses": set(),
    "ema": set(),
    "randomness": set(),
    "recipe": set(),
    "errors": set(),
}
MODULES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_units(path: Path) -> set[str]:
    """Units of the package that a module imports, at its top or within functions."""
    here = ["fewlabel", *path.relative_to(PACKAGE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names = [[*base, alias.name] for alias in node.names]
        found |= {name[1] for name in names if name[0] == "fewlabel" and len(name) > 1}
    return found - {"__version__", unit_of(path)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downward(path: Path) -> None:
    unit = unit_of(path)
    for other in imported_units(path):
        assert other in LEVEL, f"{other} has no layer: give it one"
        assert LEVEL[other] <= LEVEL[unit], f"{unit} imports {other}, which is above it"
        if LEVEL[unit] == 0:
            assert other in LOWEST[unit], f"{unit} must not know {other}"


def test_the_check_itself_sees_imports() -> None:
    assert imported_units(PACKAGE / "loop.py") >= {"training", "data", "methods", "report"}
    assert "loop" in imported_units(PACKAGE / "cli.py")  # within a function


@pytest.mark.parametrize("name", ["loop.py", "training.py", "progress.py", "report.py", "evaluate.py"])
def test_the_loop_names_no_method(name: str) -> None:
    """But for the floor, which is `supervised` by definition."""
    tree = ast.parse((PACKAGE / name).read_text())
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not strings & ({*METHODS, *TERMS, *ALIASES} - {"supervised"})


@pytest.mark.parametrize("path", sorted((PACKAGE / "methods").glob("*.py")), ids=lambda path: path.name)
def test_methods_touch_neither_files_nor_optimisers(path: Path) -> None:
    words = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    words |= {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert not words & {"open", "Path", "optim", "cuda", "distributed", "save", "load"}
