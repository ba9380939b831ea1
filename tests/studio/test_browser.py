"""A whole round in a real browser: label, undo, train, correct, train again, audit, export."""

import csv
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from tests.studio.studios import CLASSES, studio, write_tiles

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = os.environ.get("FEWLABEL_SCREENSHOTS")  # a folder to write them to

if CHROMIUM is None:
    assert not os.environ.get("CI"), "CI needs chromium"
    pytest.skip("there is no chromium on this machine", allow_module_level=True)


expect.set_options(timeout=60_000)


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.set_default_timeout(60_000)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert not errors
        browser.close()


def picture(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"studio-{name}.png")


def no_violation(page: Page) -> None:
    """Of WCAG, as axe-core sees it."""
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious]


def name_shown(page: Page) -> str:
    return page.locator("#name").inner_text()


def label(page: Page, truth: dict[str, str], keys: dict[str, str]) -> None:
    """By its key; the next picture shows when the label is saved."""
    name = name_shown(page)
    page.keyboard.press(keys[truth[name]])
    expect(page.locator("#name")).not_to_have_text(name)


def train(page: Page, number: int) -> None:
    page.locator("body").click(position={"x": 5, "y": 300})
    page.locator("#train").click()
    expect(page.locator("#training")).to_contain_text(f"guessed by studio-photos{f'-{number}' if number > 1 else ''};")


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def labels(folder: Path) -> dict[str, str]:
    return {row["file"]: row["label"] for row in read(folder / "labels.csv") if row["label"]}


def test_a_whole_round(page: Page, tmp_path: Path) -> None:
    truth = write_tiles(tmp_path / "photos")
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        page.goto(server.address)
        expect(page.locator("#note")).to_contain_text("groups of similar pictures")
        for name in CLASSES:  # the first pictures name the classes, whatever they show
            page.keyboard.press("+")
            page.keyboard.type(name)
            before = name_shown(page)
            page.keyboard.press("Enter")
            expect(page.locator("#name")).not_to_have_text(before)
        for _ in CLASSES:
            page.keyboard.press("u")
            expect(page.locator("#status")).to_have_text("undone")
            page.wait_for_timeout(50)
        assert labels(tmp_path) == {}
        keys = {}
        for name in CLASSES:
            page.locator("#new-class-name").fill(name)
            page.locator(".tab[data-view=review]").click()
            page.locator("#new-class-name").press("Enter")
            expect(page.locator(".class", has_text=name)).to_be_visible()
        page.locator(".tab[data-view=label]").click()
        for position, name in enumerate(CLASSES, 1):
            expect(page.locator(f"#classes li:nth-child({position}) .name")).to_have_text(name)
            keys[name] = str(position)
        for _ in range(10):
            label(page, truth, keys)
        picture(page, "label")
        no_violation(page)
        given = labels(tmp_path)
        assert len(given) == 10 and given == {name: truth[name] for name in given}
        last = list(given)[-1]
        page.keyboard.press("Control+z")
        expect(page.locator("#name")).to_have_text(last)
        assert last not in labels(tmp_path)
        label(page, truth, {name: name[0] if name != "petals" else "p" for name in CLASSES})  # letters serve as well
        assert labels(tmp_path) == given
        train(page, 1)

        page.locator(".tab[data-view=review]").click()
        page.locator(".pick").first.click()
        expect(page.locator(".cell").first).to_be_visible()
        picture(page, "review")
        no_violation(page)
        names = [cell.get_attribute("aria-label") or "" for cell in page.locator(".cell").all()[:3]]
        for text in names:
            name = text.partition(",")[0]
            page.locator(f'.cell[aria-label^="{name}"]').click()
            page.keyboard.press(keys[truth[name]])
            expect(page.locator(f'.cell[aria-label^="{name}"]')).to_have_count(0)
        corrected = labels(tmp_path)
        assert len(corrected) == 13 and all(truth[name] == label for name, label in corrected.items())
        train(page, 2)

        page.locator(".tab[data-view=audit]").click()
        page.locator("#begin-audit").click()
        for number in range(1, 31):
            expect(page.locator("#view h2")).to_have_text(f"Audit: picture {number} of 30")
            page.keyboard.press(keys[truth[page.locator("#view figcaption").inner_text()]])
        expect(page.locator("#audited")).to_contain_text("95% interval")
        picture(page, "audit")
        no_violation(page)

        page.locator(".tab[data-view=export]").click()
        for what in ("predictions", "sorted", "model"):
            page.locator(f"#make-{what}").click()
            expect(page.locator(f"#made-{what}")).to_contain_text("studio-photos-2-export", timeout=120_000)
        picture(page, "export")
        no_violation(page)
        page.set_viewport_size({"width": 400, "height": 800})
        page.locator(".tab[data-view=label]").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        picture(page, "narrow")
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
    export = tmp_path / "runs/studio-photos-2-export"
    predicted = {row["file"]: row["label"] for row in read(export / "predictions.csv")}
    assert predicted.keys() == truth.keys()
    assert sum(predicted[name] == label for name, label in truth.items()) >= 54
    assert sum(1 for path in (export / "sorted").rglob("*.png")) == 60
    assert (export / "model.onnx").stat().st_size > 1000
    assert sorted(path.name for path in (tmp_path / "photos").iterdir()) == sorted(truth)  # nothing was written there
