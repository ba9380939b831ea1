"""README and docs: Python blocks run, links lead somewhere, sentences are short, the reference is up to date."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fewlabel import METHODS

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
LONGEST_SENTENCE = 30  # words
LONGEST_LINE = 120  # characters, of prose


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> list[str]:
    """Paragraphs and list items, without code, tables, pictures and addresses."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    separated = re.sub(r"^ *(?:[-*]|\d+\.|#+) ", "\n\n", "\n".join(lines), flags=re.MULTILINE)
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", separated) if block.strip()]


def sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=[.!?])[*)\"]*\s+(?=[\W\d]*[A-Z])", paragraph)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other: a block may use what those above it have made."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        before = dict(METHODS)
        exec(compile(block, page.name, "exec"), names)
        for name in METHODS.keys() - before.keys():  # that the page added
            del METHODS[name]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for address in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not address.startswith("http"):
            assert (page.parent / address).exists(), f"{page.name} links to {address}"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_in_the_docs(name: str) -> None:
    assert f"\n| `{name}` | " in (ROOT / "docs/methods.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sentences_are_short(page: Path) -> None:
    for paragraph in prose(page.read_text()):
        for sentence in sentences(paragraph):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            assert len(words) <= LONGEST_SENTENCE, f"{len(words)} words: {sentence}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two\nthree.\n\n- Four\n- Five", ["One.", "Two three.", "Four", "Five"]),
        ("See [a page](page.md). `x. Y` is code.\n\n| a | b |\n", ["See a page.", "CODE is code."]),
        ("```\nnot. This\n```\nOnly 3.5 points. **Bold.** End", ["Only 3.5 points.", "**Bold.", "End"]),
    ],
)
def test_prose_is_found(text: str, expected: list[str]) -> None:
    assert [sentence for paragraph in prose(text) for sentence in sentences(paragraph)] == expected


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_short(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for line in text.splitlines():
        if not line.startswith("|") and "](http" not in line:
            assert len(line) <= LONGEST_LINE, line


def test_the_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "scripts/reference"))["reference"]()
    assert (ROOT / "docs/reference.md").read_text() == made, "run scripts/reference"


def build(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_docs_build_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in DOCS:
        folder = tmp_path / "site" / page.relative_to(ROOT / "docs").with_suffix("")
        assert (folder / "index.html").exists() or page.stem == "index"


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
    assert "`scripts/test`" in (ROOT / "README.md").read_text()
