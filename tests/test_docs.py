"""Every Python block in README and docs runs; every file they link to exists."""

import re
from pathlib import Path

import pytest

from fewlabel import METHODS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other: a block may use what those above it have made."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        before = dict(METHODS)
        exec(compile(block, page.name, "exec"), names)
        for name in METHODS.keys() - before.keys():  # that the page added
            del METHODS[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for address in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not address.startswith("http"):
            assert (page.parent / address).exists(), f"{page.name} links to {address}"


def test_readme_and_ci_give_the_same_test_command() -> None:
    assert "exec scripts/test\n" in (ROOT / ".ci/run").read_text()
    assert "scripts/test\n" in (ROOT / "README.md").read_text()
