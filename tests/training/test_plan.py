import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewlabel import Recipe, UserError, load
from fewlabel.data import Dataset, ImageKind, VectorKind
from fewlabel.data.fingerprint import data_fingerprint
from fewlabel.training import Plan, check_recipe, make_plan


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def test_defaults(digits: Dataset) -> None:
    plan = make_plan(Recipe(labels_per_class=3, device="cpu"), digits)
    assert (plan.network, plan.steps, plan.precision) == ("wrn-10-1", 2000, torch.float32)
    assert plan.without == {"horizontal-flip"}
    assert digits.train.labels[plan.labelled].bincount().tolist() == [3] * 10


def test_default_network_follows_device_and_size() -> None:
    assert ImageKind(1, 8).default_network(torch.device("cpu")) == "wrn-10-1"
    assert ImageKind(1, 28).default_network(torch.device("cpu")) == "cnn"
    assert ImageKind(1, 28).default_network(torch.device("cpu"), pretrained=True) == "cnn-2"
    assert ImageKind(1, 28).default_network(torch.device("cuda")) == "wrn-28-2"
    assert VectorKind(28).default_network(torch.device("cuda")) == "mlp"


@pytest.mark.parametrize("tune", [False, True])
def test_a_first_stage_has_a_wider_network(tune: bool, digits: Dataset) -> None:
    pixels = digits.train.pixels.repeat_interleave(2, 2).repeat_interleave(2, 3)
    larger = replace(digits, train=replace(digits.train, inputs=pixels, kind=ImageKind(1, 16)), test=None)
    plan = make_plan(Recipe(pretrain="simclr", tune=tune, device="cpu"), larger)
    assert plan.first is not None
    assert plan.first.network == "cnn-2"
    assert plan.network == ("cnn-2" if tune else "mlp")
    assert make_plan(Recipe(method="simclr", batch=64, device="cpu"), larger).network == "cnn-2"
    assert make_plan(Recipe(device="cpu"), larger).network == "cnn"


def test_every_known_label_is_used_where_no_number_is_given(digits: Dataset) -> None:
    labels = digits.train.labels.clone()
    labels[60:] = -1
    few = replace(digits, train=replace(digits.train, labels=labels))
    assert make_plan(Recipe(), few).labelled.tolist() == list(range(60))


def test_a_class_without_a_label(digits: Dataset) -> None:
    labels = digits.train.labels.clone()
    labels[labels == 4] = -1
    with pytest.raises(UserError, match="class '4' of digits has no labelled image"):
        make_plan(Recipe(), replace(digits, train=replace(digits.train, labels=labels)))


def test_fingerprint_notices_changes(digits: Dataset) -> None:
    train = digits.train
    relabelled, repainted = train.labels.clone(), train.pixels.clone()
    relabelled[0] = (relabelled[0] + 1) % 10
    repainted[-1, 0, 0, 0] += 1
    changed = [
        replace(digits, train=replace(train, labels=relabelled)),
        replace(digits, train=replace(train, inputs=repainted)),
        replace(digits, train=replace(train, names=["other", *train.names[1:]])),
        replace(digits, train=replace(train, inputs=train.inputs[:, :, :4, :4], kind=ImageKind(1, 4))),
        replace(digits, train=replace(train, source="a folder")),
        replace(digits, test=None),
    ]
    prints = {data_fingerprint(dataset) for dataset in (digits, *changed)}
    assert len(prints) == 7
    assert data_fingerprint(load("digits")) == data_fingerprint(digits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 1}, "batch must be at least 2"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"minutes": float("nan")}, "minutes must be a finite number, not nan"),
        ({"learning_rate": float("nan")}, "learning-rate must be a finite number, not nan"),
        ({"weight_decay": -1.0}, "weight-decay must be at least 0"),
        ({"ema": 1.0}, "less than 1"),
        ({"steps": 1, "minutes": 1.0}, "give only one of --steps, --images and --minutes"),
        ({"steps": "100"}, "steps must be a whole number, not '100'"),
        ({"batch": 2.5}, "batch must be a whole number, not 2.5"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"ema": "slow"}, "ema must be a number, not 'slow'"),
        ({"method": 5}, "method must be text, not 5"),
        ({"settings": None}, "settings must be a dictionary, not None"),
        ({"floor": 1}, "floor must be true or false, not 1"),
        ({"precision": "float31"}, "unknown value of precision 'float31': did you mean float32"),
        ({"settings": {"icl.beta": 0}}, "icl.beta must be more than 0"),
        ({"settings": {"icl.weight": -1}}, "icl.weight must be at least 0"),
    ],
)
def test_recipes_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_recipe(Recipe(**changes))


def test_a_plan_has_every_setting_and_full_paths(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that photos and photos/, or a default that was spelled out, are the same run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "labels.csv").touch()
    first = check_recipe(Recipe(data="photos", labels="labels.csv"))
    again = check_recipe(Recipe(data="./photos/", labels=str(tmp_path / "labels.csv"), settings={"icl.weight": 0.03}))
    plans = [make_plan(recipe, digits) for recipe in (first, again)]
    assert plans[0].recipe == plans[1].recipe
    assert plans[0].recipe.settings["fixmatch.threshold"] == 0.95
    assert check_recipe(first) == first
    assert check_recipe(Recipe(data="mnist")).data == "mnist"


def test_a_plan_becomes_json_and_comes_back(digits: Dataset) -> None:
    recipe = Recipe(labels_per_class=2, without="hue,rotate", precision="bfloat16", minutes=3.0, device="cpu")
    plan = replace(make_plan(recipe, digits), steps=77, evaluations=3)
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())), plan.labelled)
    assert again == plan
    fixed = again.as_recipe()
    assert (fixed.steps, fixed.minutes, fixed.flip, fixed.without) == (77, None, False, "hue,rotate")
    assert replace(make_plan(fixed, digits), recipe=plan.recipe, labelled=plan.labelled) == plan


def test_a_checked_recipe_is_of_python_s_own_types() -> None:
    """Numbers of numpy and paths are welcome, but recipe.json cannot hold them."""
    given: dict[str, Any] = {"seed": np.int64(1), "learning_rate": np.float32(0.5), "out": Path("run"), "batch": 8}
    checked = check_recipe(Recipe(**given, settings={"icl.weight": np.float64(2)}))
    assert json.loads(json.dumps(checked.to_dict())) == checked.to_dict()
    assert (checked.seed, checked.learning_rate, checked.out, checked.settings["icl.weight"]) == (1, 0.5, "run", 2.0)


def test_test_images_without_labels(digits: Dataset) -> None:
    assert digits.test is not None
    blank = replace(digits.test, labels=torch.full_like(digits.test.labels, -1))
    with pytest.raises(UserError, match="have no labels"):
        make_plan(Recipe(labels_per_class=2), replace(digits, test=blank))


@pytest.mark.parametrize(("steps", "expected"), [(10, 1), (100, 8), (2000, 20)])
def test_short_runs_look_less_often_at_the_test_images(digits: Dataset, steps: int, expected: int) -> None:
    """500 test images; a step of 32 + 2 x 64 images."""
    assert make_plan(Recipe(labels_per_class=2, steps=steps), digits).evaluations == expected
    assert make_plan(Recipe(labels_per_class=2, steps=steps, evaluations=7), digits).evaluations == 7


def test_default_directory() -> None:
    assert Recipe(data="photos/", seed=3).directory == Path("runs/photos-icl-ssl-3")
    assert Recipe(data="photos.v2").directory == Path("runs/photos.v2-icl-ssl-0")
    assert Recipe(data="some/arrays.npz").directory == Path("runs/arrays-icl-ssl-0")
    assert Recipe(out="here").directory == Path("here")


def test_changes_to_leave_out_are_named_with_commas(digits: Dataset) -> None:
    plan = make_plan(Recipe(labels_per_class=2, without="rotate, hue"), digits)
    assert plan.without == {"horizontal-flip", "rotate", "hue"}
    assert make_plan(Recipe(labels_per_class=2, flip=True, without="hue"), digits).without == {"hue"}
    with pytest.raises(UserError, match="did you mean rotate"):
        check_recipe(Recipe(without="rotat"))
    with pytest.raises(UserError, match="contradict"):
        check_recipe(Recipe(flip=True, without="horizontal-flip"))
