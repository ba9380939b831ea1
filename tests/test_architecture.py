"""Imports go downward only; methods see no files or devices; the loop names no method."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fewlabel
from fewlabel import METHODS, Recipe
from fewlabel.methods import ALIASES, TERMS

PACKAGE = Path(fewlabel.__file__).parent
LAYERS = [
    {
        "errors",
        "files",
        "interrupts",
        "lazy",
        "run_files",
        "settings",
        "terminal",
        "value_range",
        "charts",
        "losses",
        "guessing",
        "randomness",
        "ranks",
        "scratch",
        "augment",
        "cluster",
        "pages",
        "decode",
        "encoders",
        "networks",
        "data",
    },
    {"methods", "evaluate", "predictions", "verdict"},
    {"training"},
    {"model", "export"},
    {"confidence"},
    {"runs"},
    {"demo", "grid", "drift", "estimator", "caching", "suggesting", "auditing", "mistakes", "sorting", "suspicious"},
    {"paper", "studio"},
    {"commands", "__main__"},
]
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
# Within the lowest layer: who may know whom.
LOWEST = {
    "data": {
        *("augment", "decode", "encoders", "errors", "files", "lazy", "randomness", "scratch", "settings", "terminal"),
        "value_range",
    },
    "cluster": {"errors"},
    "pages": {"files"},
    "encoders": {
        *("augment", "cluster", "decode", "errors", "files", "interrupts", "lazy", "networks", "randomness"),
        *("run_files", "scratch", "terminal", "value_range"),
    },
    "decode": {"errors", "files", "interrupts", "terminal", "value_range"},
    "value_range": {"errors"},
    "interrupts": set(),
    "lazy": set(),
    "networks": {"errors", "files", "randomness", "ranks", "run_files"},
    "augment": {"randomness"},
    "files": {"errors"},
    "ranks": {"errors"},
    "run_files": set(),
    "settings": {"errors"},
    "charts": set(),
    "terminal": set(),
    "losses": set(),
    "guessing": {"scratch"},
    "scratch": {"errors"},
    "randomness": set(),
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
    assert imported_units(PACKAGE / "runs/run.py") >= {"training", "data", "methods", "model"}
    assert "runs" in imported_units(PACKAGE / "commands/training.py")
    assert "data" in imported_units(PACKAGE / "runs/finish.py")


LAZY = [path for path in PACKAGE.rglob("__init__.py") if "import_lazily(" in path.read_text()]


@pytest.mark.parametrize("path", LAZY, ids=lambda path: path.parent.name)
def test_lazy_packages_say_the_same_to_everybody(path: Path) -> None:
    """The names for `import *`, those for type checkers, and where they are at run time."""
    tree = ast.parse(path.read_text())
    of_types = {
        alias.name: node.module or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module != "lazy"
        for alias in node.names
    }
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    homes: dict[str, tuple[str, ...]] = ast.literal_eval(call.args[1])
    at_run_time = {name: home for home, names in homes.items() for name in names or (home,)}
    package = importlib.import_module(".".join(("fewlabel", *path.parent.relative_to(PACKAGE).parts)))
    assert of_types == at_run_time
    assert {*package.__all__} == {*of_types} | ({"__version__"} & {*package.__all__})
    hidden = {name for name, home in at_run_time.items() if name != home}
    assert not hidden & {module.stem for module in path.parent.glob("*.py")}
    for name in package.__all__:
        assert hasattr(package, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


SLOW = {"torch", "sklearn", "scipy", "joblib", "matplotlib", "rich"}


@pytest.mark.parametrize("module", ["fewlabel", "fewlabel.commands.main", "fewlabel.studio.server"])
def test_what_must_start_quickly_imports_nothing_slow(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert module in done.stdout.split() and not SLOW & {*done.stdout.split()}


SHELL = [path for folder in ("training", "runs") for path in (PACKAGE / folder).glob("*.py")]


@pytest.mark.parametrize("path", [*SHELL, PACKAGE / "evaluate.py", PACKAGE / "model.py"], ids=lambda path: path.stem)
def test_the_loop_names_no_method(path: Path) -> None:
    """But for the floor, which is `supervised` by definition, and the default of a recipe."""
    tree = ast.parse(path.read_text())
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not strings & ({*METHODS, *TERMS, *ALIASES} - {"supervised", Recipe.method})


@pytest.mark.parametrize("path", sorted((PACKAGE / "methods").glob("*.py")), ids=lambda path: path.name)
def test_methods_touch_neither_files_nor_optimisers(path: Path) -> None:
    words = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    words |= {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert not words & {"open", "Path", "optim", "cuda", "distributed", "save", "load"}


@pytest.mark.parametrize("folder", ["methods", "training", "runs", "commands"])
def test_only_kinds_ask_what_the_inputs_are(folder: str) -> None:
    """Nothing else branches on the class of a kind or on the number of dimensions of its inputs."""
    for path in (PACKAGE / folder).glob("*.py"):
        text = path.read_text()
        assert "ImageKind" not in text and "VectorKind" not in text, path
        assert not re.search(r"(inputs|pixels|images|rows)\.ndim", text), path


def test_files_and_functions_are_short() -> None:
    """About 350 lines a file and 40 a function, docstrings and signatures aside."""
    for path in MODULES:
        text = path.read_text()
        assert text.count("\n") <= 360, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                assert node.end_lineno is not None
                assert not body or node.end_lineno - body[0].lineno < 45, f"{path}: {node.name}"


def test_no_cycles_between_modules() -> None:
    """Of imports at the top of modules, package by package file by file."""
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        name = path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__")
        graph[name] = set()
        here = list(path.relative_to(PACKAGE).parts[:-1])
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = here[: len(here) - node.level + 1] + (node.module or "").split(".")
                place = "/".join(part for part in base if part)
                graph[name] |= {place, *(f"{place}/{alias.name}".lstrip("/") for alias in node.names)}
    graph = {name: {other for other in found if other in graph and other != name} for name, found in graph.items()}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in graph[name]:
                visit(other, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())
