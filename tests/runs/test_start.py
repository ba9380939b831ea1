"""--start-from: the weights of an earlier run, with rows of the head by class name."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fewlabel import Recipe, UserError, load, train
from fewlabel.data import Dataset
from fewlabel.networks.saved import load_network
from fewlabel.runs.stages import floor_stages, main_stage
from fewlabel.training import Trainer, check_recipe, make_plan
from tests.processes import in_process as fewlabel


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def renamed(digits: Dataset, classes: tuple[str, ...]) -> Dataset:
    """With other names, and a class more where there are eleven."""
    number = torch.tensor([sorted(classes).index(name) for name in classes])
    train = replace(digits.train, labels=number[digits.train.labels], classes=tuple(sorted(classes)))
    if len(classes) == 11:
        labels = train.labels.clone()
        labels[:40] = sorted(classes).index(classes[10])
        train = replace(train, labels=labels)
    return replace(digits, train=train, test=None)


def first_run(digits: Dataset, out: Path) -> Path:
    names = tuple("abcdefghij")
    recipe = Recipe(labels_per_class=2, steps=20, network="cnn", out=str(out), predictions=False, threads=1)
    train(recipe, renamed(digits, names), quiet=True)
    return out


def test_head_rows_follow_the_names(digits: Dataset, tmp_path: Path) -> None:
    """Other names in another order, and a new one in front; the average starts there too, the floor does not."""
    run = first_run(digits, tmp_path / "first")
    data = renamed(digits, (*"abcdefghij", "Z"))
    assert data.train.classes[0] == "Z"
    recipe = Recipe(labels_per_class=2, network="cnn", start_from=str(run))
    plan = make_plan(check_recipe(recipe), data)
    assert plan.steps == 500
    _, before = load_network(run)
    stage = main_stage(plan, data)
    assert not floor_stages(plan, data)
    trainer = Trainer(stage.plan, data, start=stage.start)
    for network in (trainer.network, trainer.teacher):
        assert not network.head.weight[0].any() and not network.head.bias[0].any()
        assert torch.equal(network.head.weight[1:], before.head.weight)
        assert torch.equal(network.head.bias[1:], before.head.bias)
        for name, value in before.encoder.state_dict().items():
            assert torch.equal(network.encoder.state_dict()[name], value)
    (floor,) = floor_stages(plan, replace(data, test=replace(data.train)))
    assert floor.start is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "wrn-10-1"}, "its network is cnn, and that of this run wrn-10-1"),
        ({"start_from": "nowhere"}, "nowhere holds no trained model"),
    ],
)
def test_what_cannot_be_started_from(digits: Dataset, tmp_path: Path, changes: dict[str, str], message: str) -> None:
    run = first_run(digits, tmp_path / "first")
    recipe = replace(Recipe(labels_per_class=2, network="cnn", start_from=str(run)), **changes)  # type: ignore[arg-type]
    data = renamed(digits, tuple("abcdefghij"))
    with pytest.raises(UserError, match=message):
        train(replace(recipe, out=str(tmp_path / "second")), data, quiet=True)
    assert not (tmp_path / "second/recipe.json").exists()


def test_a_run_does_not_replace_the_one_it_starts_from(digits: Dataset, tmp_path: Path) -> None:
    run = first_run(digits, tmp_path / "first")
    before = (run / "model.safetensors").read_bytes()
    recipe = Recipe(labels_per_class=2, network="cnn", start_from=str(run), out=str(run))
    with pytest.raises(UserError, match="--start-from and --out are the same run"):
        train(recipe, renamed(digits, tuple("abcdefghij")), overwrite=True, quiet=True)
    assert (run / "model.safetensors").read_bytes() == before


@pytest.mark.slow
def test_typed_and_resumed(tmp_path: Path) -> None:
    """It learns on: after as few steps it is better than a run from scratch; killed and resumed, the same bits."""
    words = ("train", "digits", "--labels-per-class", "2", "--threads", "1", "--no-floor")
    for name, more in (
        ("first", ("--steps", "200")),
        ("scratch", ("--steps", "20")),
        ("on", ("--steps", "20", "--start-from", "first")),
        ("on", ("--steps", "20", "--start-from", "first", "--resume")),
        ("again", ("--steps", "20", "--start-from", "./first/")),
    ):
        result = fewlabel(*words, *more, "--out", name, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("on", "again")]
    assert weights[0] == weights[1]

    def accuracy(name: str) -> float:
        told = fewlabel("evaluate", name, "digits", cwd=tmp_path).stdout
        return float(told.split("Accuracy: ")[1].split("%")[0])

    assert accuracy("on") > accuracy("scratch") + 10
