"""Every Python block in README and docs runs; every file they link to exists."""

import re
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_in_the_docs(name: str) -> None:
    assert f"\n| `{name}` | " in (ROOT / "docs/methods.md").read_text()
    assert f"`{name}`" in (ROOT / "README.md").read_text()


def build(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_docs_build_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"} <= {
        page.name for page in (tmp_path / "site").iterdir()
    }


@pytest.mark.parametrize("link", ["[nowhere](nowhere.md)", "[nowhere](pictures.md#nowhere)"])
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, link: str) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with open(tmp_path / "docs" / "index.md", "a") as page:
        page.write(f"\n{link}\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr


def test_readme_and_ci_give_the_same_test_command() -> None:
    assert "exec scripts/test\n" in (ROOT / ".ci/run").read_text()
    assert "scripts/test\n" in (ROOT / "README.md").read_text()
