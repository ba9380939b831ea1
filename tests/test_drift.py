"""Which augmentations change what a picture means: the operations, the folds, the verdict and the command."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from fewlabel import drift
from fewlabel.augment import CHANGES
from fewlabel.commands.main import main
from fewlabel.data import Dataset, Examples, Images, few_label_split
from fewlabel.drift import (
    COLOUR_ONLY,
    CONTROL,
    DRIFTS,
    Drift,
    advice,
    by_chance,
    folds,
    measure,
    train_small,
    write_drifts,
)
from fewlabel.errors import UserError
from fewlabel.randomness import generator
from fewlabel.training import Recipe, check_recipe
from tests.drawing import draws
from tests.pictures import class_folder, fruit_folder
from tests.processes import fewlabel

WITHOUT_CHANCE = {"horizontal-flip", "vertical-flip", "grey", "autocontrast", "equalize"}  # they draw nothing


def noise(count: int, channels: int, side: int = 16) -> Tensor:
    return torch.randint(256, (count, channels, side, side), generator=generator(0, 0, "noise")).to(torch.uint8)


def numbered(labels: list[int], classes: int) -> Examples:
    """Pictures that can be told apart: every pixel of picture n is n."""
    pixels = torch.arange(len(labels)).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).to(torch.uint8)
    return Images(pixels, torch.tensor(labels), tuple("abcdefgh"[:classes]), [str(n) for n in range(len(labels))])


def numbers(pixels: Tensor) -> list[int]:
    """The pictures that `numbered` made."""
    return pixels[:, 0, 0, 0].tolist()


def bars(count: int, seed: int) -> Examples:
    """A bright upright bar in the left or the right half: mirrored, a picture is one of the other class."""
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 60, (count, 1, 12, 12)).astype(np.uint8)
    labels = np.arange(count) % 2
    for picture, right in zip(pixels, labels, strict=True):
        start = draw.integers(2, 4) + 5 * right
        picture[:, 2:10, start : start + 2] = draw.integers(170, 250)
    return Images(torch.from_numpy(pixels), torch.from_numpy(labels), ("left", "right"), [str(n) for n in range(count)])


def guesswork() -> Dataset:
    """Noise with labels that mean nothing, so that every model has another accuracy."""
    labels = torch.arange(60) % 2
    train, test = (Images(part, labels, ("a", "b"), ("",) * 60) for part in noise(120, 1, side=8).split(60))
    return Dataset("guesswork", train, test, flip=True)


# ---- the operations


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", DRIFTS)
def test_every_operation_gives_pictures_of_the_same_kind(name: str, channels: int) -> None:
    images = noise(24, channels)
    before = images.clone()
    changed = DRIFTS[name](images, draws(images, 1))
    assert (changed.shape, changed.dtype) == (images.shape, torch.uint8)
    assert torch.equal(images, before)  # the pictures themselves stay as they are
    assert torch.equal(changed, DRIFTS[name](images, draws(images, 1)))
    other = DRIFTS[name](images, draws(images, 2))
    if channels == 1 and name in COLOUR_ONLY:
        assert torch.equal(changed, images)
    else:
        assert not torch.equal(changed, images)
        assert torch.equal(changed, other) == (name in WITHOUT_CHANCE)


def test_mirroring() -> None:
    images = noise(3, 3)
    draw = draws(images)
    assert np.array_equal(DRIFTS["horizontal-flip"](images, draw), images.numpy()[:, :, :, ::-1])
    assert np.array_equal(DRIFTS["vertical-flip"](images, draw), images.numpy()[:, :, ::-1])


def test_a_shift_by_one_pixel_repeats_the_edge() -> None:
    images = noise(64, 3)
    shifted = DRIFTS[CONTROL](images, draws(images)).numpy()
    wide = np.pad(images.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    down, up, right, left = wide[:, :, :-2, 1:-1], wide[:, :, 2:, 1:-1], wide[:, :, 1:-1, :-2], wide[:, :, 1:-1, 2:]
    moves = [
        [bool((picture == move[n]).all()) for move in (down, up, right, left)] for n, picture in enumerate(shifted)
    ]
    assert all(sum(fits) == 1 for fits in moves)
    assert {fits.index(True) for fits in moves} == {0, 1, 2, 3}


def test_a_shift_goes_an_eighth_of_the_side_at_most_and_mirrors_nothing() -> None:
    images = noise(64, 1)
    shifted = DRIFTS["shift"](images, draws(images)).numpy()
    wide = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    found = set()
    for n, picture in enumerate(shifted):
        fits = [(y, x) for y in range(5) for x in range(5) if (picture == wide[n, :, y : y + 16, x : x + 16]).all()]
        assert len(fits) == 1
        found |= set(fits)
    assert len(found) > 15


def test_cutout_hides_one_square_and_nothing_else() -> None:
    images = noise(32, 3)
    changed = DRIFTS["cutout"](images, draws(images))
    for before, after in zip(images, changed, strict=True):
        hidden = (after != before).any(0)
        rows, columns = hidden.any(1).nonzero().flatten(), hidden.any(0).nonzero().flatten()
        assert 1 <= len(rows) <= 8 and 1 <= len(columns) <= 8
        square = after[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (square == 127).all()


def test_grey_has_three_equal_channels() -> None:
    images = noise(3, 3)
    changed = DRIFTS["grey"](images, draws(images))
    for before, after in zip(images, changed, strict=True):
        expected = np.asarray(Image.fromarray(before.permute(1, 2, 0).numpy()).convert("L"))
        assert all(np.array_equal(channel, expected) for channel in after)


def test_turning_the_hue_keeps_the_brightest_channel_and_greys() -> None:
    images = noise(8, 3)
    images[:, :, :4] = images[:, :1, :4]  # grey at the top
    changed = DRIFTS["hue"](images, draws(images))
    assert torch.equal(changed.amax(1), images.amax(1))
    assert torch.equal(changed[:, :, :4], images[:, :, :4])
    assert not torch.equal(changed[:, :, 4:], images[:, :, 4:])


@pytest.mark.parametrize("name", ["autocontrast", "equalize"])
def test_operations_without_a_level_are_pillows(name: str) -> None:
    images = noise(4, 3) // 2 + 30
    changed = DRIFTS[name](images, draws(images))
    for before, after in zip(images, changed, strict=True):
        expected = getattr(ImageOps, name)(Image.fromarray(before.permute(1, 2, 0).numpy()))
        assert np.array_equal(after.permute(1, 2, 0), expected)


@pytest.mark.parametrize("name", ["translate-x", "shear-x"])
def test_operations_along_a_row_mix_no_rows(name: str) -> None:
    """Of pictures whose rows are each of one colour only the black beyond the edge is new."""
    images = torch.arange(50, 66).view(1, 1, 16, 1).expand(20, 1, 16, 16).to(torch.uint8)
    changed = DRIFTS[name](images, draws(images))
    assert ((changed == images) | (changed == 0)).all()
    assert (changed == 0).any()


def test_a_crop_shows_a_part_of_the_picture() -> None:
    """Of a slope the brightness goes on rising, from and to somewhere within."""
    slope = (10 * torch.arange(16)).view(1, 1, 1, 16).expand(20, 1, 16, 16).to(torch.uint8)
    changed = DRIFTS["crop"](slope, draws(slope)).int()
    assert (changed.diff(dim=3) >= 0).all()
    assert (changed.amax((1, 2, 3)) - changed.amin((1, 2, 3)) < 150).any()
    assert torch.equal(changed, changed[:, :, :1].expand(changed.shape))


# ---- the folds


def test_with_test_images_there_is_a_split_for_each_seed() -> None:
    train, test = numbered([0, 1, 2] * 8 + [-1] * 6, 3), numbered([2, 1, 0, -1, 1], 3)
    made = folds(Dataset("some", train, test, flip=True), 2, seeds=4)
    assert len(made) == 4
    for seed, fold in enumerate(made):
        chosen = few_label_split(train.labels, 2, seed)
        assert numbers(fold.train) == chosen.tolist()
        assert torch.equal(fold.labels, train.labels[torch.from_numpy(chosen)])
        assert sorted(numbers(fold.test)) == [0, 1, 2, 4]  # of number 3 nothing is known
        assert [test.labels[n] for n in numbers(fold.test)] == fold.truth.tolist()
    assert len({tuple(numbers(fold.train)) for fold in made}) > 1


def test_unless_told_as_many_labels_are_used_as_there_are_but_500_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drift.MOST_LABELS == 500
    some = Dataset("some", numbered([0, 1] * 9 + [1] * 5, 2), numbered([0, 1], 2), flip=True)
    assert folds(some, None, seeds=2)[0].labels.bincount().tolist() == [9, 9]
    monkeypatch.setattr(drift, "MOST_LABELS", 9)
    assert folds(some, None, seeds=2)[0].labels.bincount().tolist() == [4, 4]


def test_of_many_test_images_all_seeds_are_judged_by_the_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "MOST_TESTS", 6)
    test = numbered([-1, 0, 1] * 20 + [-1] * 100, 2)
    made = folds(Dataset("some", numbered([0, 1] * 5, 2), test, flip=True), 1, seeds=3)
    judged = [numbers(fold.test) for fold in made]
    assert judged[0] == judged[1] == judged[2]
    assert len(set(judged[0])) == 6
    assert (test.labels[judged[0]] >= 0).all()


@pytest.mark.parametrize(("each", "parts"), [(2, 6), (10, 30), (11, 10), (20, 10)])
def test_without_test_images_every_labelled_one_is_judged_once(each: int, parts: int) -> None:
    """Up to 30 are left out one by one, more in ten parts; nothing is judged by what was trained on it."""
    train = numbered([-1, -1, *[0, 1, 2] * each, -1], 3)
    made = folds(Dataset("some", train, None, flip=True), None, seeds=5)
    assert len(made) == parts
    known = list(range(2, 2 + 3 * each))
    assert sorted(n for fold in made for n in numbers(fold.test)) == known
    for fold in made:
        assert sorted(numbers(fold.train) + numbers(fold.test)) == known
        assert [train.labels[n] for n in numbers(fold.train)] == fold.labels.tolist()
        assert [train.labels[n] for n in numbers(fold.test)] == fold.truth.tolist()
    sizes = [len(fold.test) for fold in made]
    assert max(sizes) - min(sizes) <= 1


def test_without_test_images_so_many_labels_as_asked_for_are_used() -> None:
    train = numbered([0, 1, 2] * 8, 3)
    made = folds(Dataset("some", train, None, flip=True), 2, seeds=5)
    assert sorted(n for fold in made for n in numbers(fold.test)) == few_label_split(train.labels, 2, 0).tolist()


def test_every_part_leaves_something_of_every_class_to_learn_from() -> None:
    """Also of a class with two labels, wherever they lie among the others."""
    for seed in range(20):
        labels = np.random.default_rng(seed).permutation([0] * 2 + [1] * 20 + [2] * 20).tolist()
        for fold in folds(Dataset("some", numbered(labels, 3), None, flip=True), None, seeds=5):
            assert fold.labels.unique().tolist() == [0, 1, 2]


REFUSED = {
    "one label and no test": ([0, 0, 1], None, None, "a class of some has 1 labelled images.* without --test one more"),
    "no label of a class": (
        [0, 0, -1],
        [0, 1],
        None,
        "a class of some has 0 labelled images: each class needs at least one",
    ),
    "more than there are": ([0, 0, 0, 1, 1], [0, 1], 3, "has 2 labelled images, 3 per class were asked for"),
    "no labels at all": ([-1, -1], None, None, "label"),
    "one label to be left out": ([0, 0, 1, 1], None, 1, "label"),
    "none of a class": ([0, 0, 1, 1], [0, 1], 0, "at least 1"),
    "test images without labels": ([0, 0, 1, 1], [-1, -1], None, "test"),
    "one class": ([0, 0, 0], [0, 0], None, "class"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_judged(case: str) -> None:
    labels, test, per_class, message = REFUSED[case]
    classes = len({*labels, *(test or ())} - {-1})
    dataset = Dataset("some", numbered(labels, classes), numbered(test, classes) if test else None, flip=True)
    with pytest.raises(UserError, match=message):
        measure(dataset, labels_per_class=per_class, operations=[CONTROL], seeds=2, network="mlp", steps=1, jobs=1)


# ---- small models and the verdict


def test_with_and_without_an_operation_all_else_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that does nothing gives the very same model; one that spoils everything does not."""
    monkeypatch.setitem(DRIFTS, "nothing", lambda images, draw: images)
    monkeypatch.setitem(DRIFTS, "black", lambda images, draw: torch.zeros_like(images))
    (fold, *_) = folds(guesswork(), 3, seeds=1)

    def accuracy(operation: str | None, seed: int) -> float:
        return train_small(fold, 2, operation, seed, "mlp", steps=3)

    plain = [accuracy(None, seed) for seed in range(8)]
    assert len(set(plain)) > 1  # the seed matters
    assert [accuracy("nothing", seed) for seed in range(8)] == plain
    assert [accuracy("black", seed) for seed in range(8)] != plain


@pytest.mark.parametrize("judged", [True, False])
def test_mirroring_changes_the_meaning_of_a_left_or_right_bar(judged: bool) -> None:
    dataset = Dataset("bars", bars(20, 1), bars(200, 2) if judged else None, flip=True)
    names = [CONTROL, "horizontal-flip", "vertical-flip"]
    plain, found = measure(dataset, operations=names, seeds=4, network="mlp", steps=40, jobs=1)
    assert plain > 0.95
    assert [one.operation for one in found] == names
    assert [one.flagged for one in found] == [False, True, False]
    assert found[1].change < -0.2
    assert advice(found) == "--without horizontal-flip"


def test_change_and_standard_error_by_hand() -> None:
    dataset = guesswork()
    plain, found = measure(
        dataset, labels_per_class=3, operations=["rotate", "cutout"], seeds=3, network="mlp", steps=4, jobs=1
    )
    made = folds(dataset, 3, seeds=3)
    without = [train_small(made[seed], 2, None, seed, "mlp", steps=4) for seed in range(3)]
    assert plain == pytest.approx(sum(without) / 3)
    assert [one.operation for one in found] == ["rotate", "cutout"]
    for one in found:
        values = [train_small(made[seed], 2, one.operation, seed, "mlp", steps=4) for seed in range(3)]
        changes = [value - other for value, other in zip(values, without, strict=True)]
        mean = sum(changes) / 3
        spread = math.sqrt(sum((change - mean) ** 2 for change in changes) / 2)
        assert one.accuracy == pytest.approx(sum(values) / 3)
        assert one.change == pytest.approx(mean)
        assert one.error == pytest.approx(spread / math.sqrt(3))
    assert any(one.error > 0 for one in found)


def test_all_operations_are_tried_unless_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those that do nothing to a picture of one channel."""
    monkeypatch.setattr(drift, "train_small", lambda *_: 0.5)
    grey = Dataset("bars", bars(8, 1), None, flip=True)
    colour = Dataset("noise", Images(noise(8, 3), torch.arange(8) % 2, ("a", "b"), ("",) * 8), None, flip=True)
    assert [one.operation for one in measure(colour, jobs=1)[1]] == list(DRIFTS)
    assert [one.operation for one in measure(grey, jobs=1)[1]] == [name for name in DRIFTS if name not in COLOUR_ONLY]
    with pytest.raises(UserError, match="unknown operation 'horizontal-flop': did you mean horizontal-flip"):
        measure(grey, operations=["horizontal-flop"])
    with pytest.raises(UserError, match="seeds must be at least 2"):
        measure(grey, seeds=1)


def test_what_chance_flags() -> None:
    """Simulated: the mean of so many changes that mean nothing, against their own standard error."""
    changes = np.random.default_rng(0).normal(size=(200_000, 5))
    errors = changes.std(1, ddof=1) / 5**0.5
    assert by_chance(20, 5) == pytest.approx(20 * (changes.mean(1) < -2 * errors).mean(), rel=0.03)
    assert by_chance(20, 20) < by_chance(20, 5)


def test_a_drop_of_more_than_two_standard_errors_is_flagged() -> None:
    assert not Drift("rotate", 0.5, change=-0.25, error=0.125).flagged
    assert Drift("rotate", 0.5, change=-0.26, error=0.125).flagged
    assert not Drift("rotate", 0.9, change=0.26, error=0.125).flagged
    assert not Drift("rotate", 0.9, change=0.0, error=0.0).flagged


def test_the_advice_is_an_option_of_train() -> None:
    def flagged(name: str) -> Drift:
        return Drift(name, 0.5, change=-0.3, error=0.1)

    harmless = Drift("hue", 0.5, change=-0.1, error=0.1)
    assert advice([harmless]) == advice([]) == ""
    assert advice([flagged("rotate"), harmless, flagged("cutout")]) == "--without rotate,cutout"
    assert advice([flagged(CONTROL)]) == ""  # no view is without small shifts
    option, names = advice([flagged(name) for name in DRIFTS]).split(" ")
    assert option == "--without"
    assert set(names.split(",")) == set(CHANGES)
    check_recipe(Recipe(without=names))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_table_and_the_picture(channels: int, tmp_path: Path) -> None:
    images = Images(noise(6, channels), torch.tensor([0, 1, -1, 0, 1, -1]), ("a", "b"), ("",) * 6)
    found = [Drift("rotate", 0.51234, -0.3, 0.05), Drift("hue", 0.75, 0.01234, 0.02)]
    write_drifts(tmp_path / "new" / "folder", images, found)
    with (tmp_path / "new" / "folder" / "drift.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["operation", "accuracy", "change", "standard error", "flagged"],
        ["rotate", "0.5123", "-0.3000", "0.0500", "True"],
        ["hue", "0.7500", "+0.0123", "0.0200", "False"],
    ]
    with Image.open(tmp_path / "new" / "folder" / "drift.png") as opened:
        picture = np.asarray(opened.convert("RGB"))
    assert min(picture.shape[:2]) > 100
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50  # there is something to see
    texts = [text.get_text() for axes in drift.picture(images, found).axes for text in axes.texts]
    assert texts == ["rotate", "-30.0 points (± 5.0)\nchanges the meaning", "hue", "+1.2 points (± 2.0)"]


# ---- the command

ONLY = ("--network", "mlp", "--jobs", "1", "--only", "one-pixel-shift, horizontal-flip")
SMALL = ("--size", "8")


@pytest.mark.slow
def test_drift_of_arrays_with_a_test_part(tmp_path: Path) -> None:
    train, test = bars(20, 1), bars(100, 2)
    np.savez(tmp_path / "bars.npz", x_train=train.pixels, y_train=train.labels, x_test=test.pixels, y_test=test.labels)
    done = fewlabel("drift", "bars.npz", *ONLY, "--seeds", "3", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Accuracy without augmentation: 100.0%." in said
    assert said.count("changes the meaning") == 1
    assert "In training from scratch, disable them: fewlabel train bars.npz --without horizontal-flip" in said
    assert "Careful" not in said
    assert "If all 2 augmentations were harmless, 0.2 would be flagged by chance on average" in said
    assert "Even one-pixel-shift" not in said
    with (tmp_path / "found" / "drift.csv").open(newline="", encoding="utf-8-sig") as file:
        verdicts = {row["operation"]: row["flagged"] for row in csv.DictReader(file)}
    assert verdicts == {"one-pixel-shift": "False", "horizontal-flip": "True"}
    with Image.open(tmp_path / "found" / "drift.png") as opened:
        opened.load()


@pytest.mark.slow
def test_drift_of_a_folder_without_test_pictures_warns(tmp_path: Path) -> None:
    labels = fruit_folder(tmp_path / "photos", each=4, labelled=2)
    done = fewlabel("drift", "photos", "--labels", labels, *SMALL, *ONLY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Warning: without a test set (--test), labelled pictures were held out in turn." in said
    for name in ("drift.csv", "drift.png"):
        assert (tmp_path / "drift" / name).stat().st_size > 0


def test_drift_of_a_folder_with_test_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = fruit_folder(tmp_path / "photos", each=4, labelled=2)
    test = class_folder(tmp_path / "test", each=2)
    words = ["drift", str(tmp_path / "photos"), "--labels", str(labels), "--test", str(test), "--seeds", "2"]
    assert main([*words, *SMALL, *ONLY, "--out", str(tmp_path / "out[b]")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Careful" not in said
    assert f"Pictures before and after: {tmp_path / 'out[b]' / 'drift.png'}" in said


MISTAKES = {
    "unknown operation": (["--only", "rotat,cutout"], "unknown operation 'rotat': did you mean rotate"),
    "one label of a class": (["--labels", "one.csv"], "a class of photos has 1 labelled images"),
    "no labels": ([], "label"),
    "one seed": (["--labels", "labels.csv", "--seeds", "1"], "seeds must be at least 2"),
    "unknown network": (["--labels", "labels.csv", "--network", "mpl"], "did you mean mlp"),
    "a file in the way": (["--labels", "labels.csv", *SMALL, *ONLY, "--out", "one.csv"], "one.csv"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = fruit_folder(Path("photos"), each=2, labelled=2).read_text().splitlines()
    Path("one.csv").write_text("\n".join(lines[:-1]) + "\n")
    words, message = MISTAKES[case]
    assert main(["drift", "photos", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fewlabel: ") and said.count("\n") == 1
    assert message in said
    assert not Path("drift").exists()


def test_help_of_drift(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "--help"]) == 0
    said = capsys.readouterr().out
    assert "Usage: fewlabel drift" in said
    for option in ("--labels", "--test", "--only", "--seeds"):
        assert option in said
