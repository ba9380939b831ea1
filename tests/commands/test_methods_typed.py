"""Every method as a user types it: what the parser makes of its name and settings, and two steps of a real command."""

import json
from pathlib import Path

import pytest

from fewlabel.commands.main import main
from fewlabel.methods import ALIASES, METHODS, SELF_SUPERVISED, TERMS, parts_of, settings_of
from tests.processes import fewlabel, in_process

NAMES = [f"{name}{term}" for name in (*METHODS, *ALIASES) for term in ("", *(f"+{term}" for term in TERMS))]
POSSIBLE = [name for name in NAMES if name != "icl-ssl+icl"] + [f"fixmatch+{name}" for name in SELF_SUPERVISED]
TRAIN = ("train", "digits", "--labels-per-class", "2", "--steps", "2", "--network", "mlp", "--no-floor")


def another_value(default: object) -> object:
    """That a setting with this default can take as well."""
    return default / 2 if isinstance(default, float) else default


@pytest.mark.parametrize("name", POSSIBLE)
def test_every_method_and_term_is_parsed_with_one_of_its_settings(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    monkeypatch.setattr("fewlabel.commands.training.run_train", lambda recipe, **_: seen.append(recipe))
    wanted = {}
    for part, kind in parts_of(name).items():
        for setting, parameter in list(settings_of(kind).items())[:1]:
            wanted[f"{part}.{setting}"] = another_value(parameter.default)
    flags = [word for key, value in wanted.items() for word in (f"--{key}", str(value))]
    assert main(["train", "digits", "--method", name, *flags]) == 0, capsys.readouterr().err
    assert seen[0].method == name
    assert {key: seen[0].settings[key] for key in wanted} == wanted
    assert main(["train", "--method", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"--{key}" in shown for key in wanted)


@pytest.mark.parametrize("name", [*METHODS, *ALIASES, *(f"fixmatch+{term}" for term in TERMS | SELF_SUPERVISED)])
def test_every_method_trains_from_a_command(name: str, tmp_path: Path) -> None:
    """In another process where the name has a sign in it, which a command line may trip over."""
    run = in_process if name.isalpha() else fewlabel
    done = run(*TRAIN, "--method", name, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/model.json").read_text())["method"] == name
    assert (tmp_path / "run/report.html").exists()
