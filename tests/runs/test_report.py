import base64
import io
import os
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from PIL import Image

from fewlabel import Recipe, load, train
from fewlabel.data import Dataset
from fewlabel.runs.report import largest_of_each


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.titles: list[str] = []
        self.images: list[dict[str, str]] = []
        self.addresses: list[str] = []
        self.explained: list[str] = []
        self.text = ""
        self._within = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self._within = tag
        if tag == "img":
            self.images.append(values)
        if tag == "abbr":
            self.explained.append(values["title"])
        self.addresses += [value for key, value in values.items() if key in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._within in ("h1", "h2"):
            self.titles.append(data)
            self._within = ""


@pytest.fixture(scope="module")
def digits() -> Dataset:
    dataset = load("digits")
    odd = replace(dataset.train, skipped={"<b>odd & broken</b>.jpg": "cut <off>"})
    return replace(dataset, train=odd)


@pytest.fixture(scope="module")
def page(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Page:
    out = tmp_path_factory.mktemp("report") / "run"
    recipe = Recipe(labels_per_class=2, network="cnn", batch=20, steps=20, evaluations=4, out=str(out))
    train(recipe, digits, quiet=True)
    return Page(out / "report.html")


def test_sections(page: Page) -> None:
    assert page.titles == [
        "digits: 20 labels, 10 classes",
        "The labelled images",
        "Least certain",
        "Most certain",
        "Confusion matrix",
        "Training",
        "Pseudo-labels",
        "Unreadable files",
        "Terms",
        "Settings",
    ]


def test_terms_are_explained_where_they_are_used(page: Page) -> None:
    assert len(page.explained) >= 6
    assert all(meaning in page.text for meaning in page.explained)  # for paper and touch screens: listed at the end


def test_needs_no_other_file(page: Page) -> None:
    assert page.addresses
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)


def test_every_picture_can_be_decoded_and_has_a_text(page: Page) -> None:
    sizes = []
    for image in page.images:
        assert image["alt"]
        with Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))) as picture:
            picture.load()
            sizes.append(picture.size)
    small = sizes.count((8, 8))
    assert 20 + 12 + 24 < small <= 20 + 24 + 24  # labelled, most certain of each class, least certain
    assert len(sizes) == small + 5  # accuracy, losses, pseudo-labels over time and by class, confusion


def test_the_most_certain_of_each_class() -> None:
    draw = torch.Generator().manual_seed(0)
    probabilities = torch.rand(200, 5, generator=draw).softmax(1)
    probabilities[:, 3] = 0  # never predicted
    by_hand = []
    for k in (0, 1, 2, 4):
        own = [(-float(row.max()), i) for i, row in enumerate(probabilities) if int(row.argmax()) == k]
        by_hand += [i for _, i in sorted(own)[: 24 // 4]]
    assert largest_of_each(probabilities).tolist() == by_hand
    assert largest_of_each(probabilities[:0]).tolist() == []


def test_names_are_escaped(page: Page) -> None:
    assert "<b>odd & broken</b>.jpg" in page.text
    assert "cut <off>" in page.text


def test_says_what_counts(page: Page) -> None:
    assert "The result is the test accuracy of the averaged weights" in " ".join(page.text.split())
    assert "with the labels alone" in page.text
    assert "best" in page.text


def test_a_class_whose_name_is_no_utf8(digits: Dataset, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    odd = replace(digits.train, classes=(name, *digits.train.classes[1:]))
    recipe = Recipe(labels_per_class=2, network="cnn", batch=20, steps=4, floor=False, out=str(tmp_path / "run"))
    train(recipe, replace(digits, train=odd, test=None), quiet=True)
    assert b"caf\xe9" in (tmp_path / "run" / "report.html").read_bytes()


def test_without_test_images_there_is_no_accuracy(digits: Dataset, tmp_path: Path) -> None:
    recipe = Recipe(labels_per_class=2, network="cnn", batch=20, steps=4, floor=False, method="supervised")
    train(replace(recipe, out=str(tmp_path / "run")), replace(digits, test=None), quiet=True)
    page = Page(tmp_path / "run" / "report.html")
    assert "the accuracy of the predictions is unknown" in page.text
    assert "Confusion matrix" not in page.titles
    assert "Pseudo-labels" not in page.titles  # supervised makes none
