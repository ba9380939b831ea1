"""One step as a whole: what is optimised and how, what is averaged, what is hidden."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fewlabel import Recipe, load
from fewlabel.data import Dataset, ImageKind, Images
from fewlabel.training import Trainer, make_plan


@pytest.fixture(scope="module")
def tiny() -> Dataset:
    digits = load("digits").train
    some = slice(0, 120)
    return Dataset(
        "tiny", Images(digits.pixels[some], digits.labels[some], digits.classes, digits.names[some]), None, False
    )


def start(tiny: Dataset, **changes: Any) -> Trainer:
    recipe = Recipe(labels_per_class=2, network="cnn", batch=10, mu=2, steps=40, **changes)
    return Trainer(make_plan(recipe, tiny), tiny)


def test_updates_are_sgd_with_nesterov_momentum_by_hand(tiny: Dataset) -> None:
    """Decay of weights but not of biases and norms; the rate falls along a cosine; the average starts fast."""
    training = start(tiny, learning_rate=0.1, weight_decay=0.3, ema=0.6)
    parameters = list(training.model.parameters())
    gradients: dict[int, Tensor] = {}
    for k, parameter in enumerate(parameters):  # before the optimiser, which changes them on the way
        parameter.register_post_accumulate_grad_hook(lambda p, k=k: gradients.update({k: p.grad.double()}))
    expected = [p.detach().clone().double() for p in parameters]
    average = [p.clone() for p in expected]
    momentum = [torch.zeros_like(p) for p in expected]
    for index in range(14):
        training.step(index)
        rate = 0.1 * np.cos(7 * np.pi * index / (16 * 40))
        decay = min(0.6, (1 + index) / (10 + index))
        for k, parameter in enumerate(parameters):
            gradient = gradients[k] + (0.3 * expected[k] if parameter.ndim > 1 else 0)
            momentum[k] = 0.9 * momentum[k] + gradient
            expected[k] = expected[k] - rate * (gradient + 0.9 * momentum[k])
            average[k] = decay * average[k] + (1 - decay) * expected[k]
            torch.testing.assert_close(parameter.detach().double(), expected[k], rtol=1e-4, atol=1e-6)
            expected[k] = parameter.detach().clone().double()  # rounding does not add up
    for found, value in zip(training.ema.module.parameters(), average, strict=True):
        torch.testing.assert_close(found.double(), value, rtol=1e-4, atol=1e-6)
    assert any(p.ndim == 1 for p in parameters)


def test_the_method_is_optimised_and_averaged_as_the_network_is(tiny: Dataset) -> None:
    """ReMixMatch has a head of its own, for rotations."""
    training = start(tiny, method="remixmatch")
    before = copy.deepcopy(dict(training.method.named_parameters()))
    assert before
    training.step(0)
    for name, parameter in training.method.named_parameters():
        assert not torch.equal(parameter, before[name])
    averaged = training.ema.module["method"]  # type: ignore[index]
    assert all(not torch.equal(parameter, before[name]) for name, parameter in averaged.named_parameters())


def test_labels_that_were_given_do_not_judge_guesses(tiny: Dataset) -> None:
    """The truth is told of those unlabelled images only that are not among the labelled ones too."""
    training = start(tiny)
    seen = 0
    for index in range(5):
        rows = training.batches.unlabelled_index(index)
        truth = training.step(index).truth
        given = torch.isin(rows, training.plan.labelled)
        assert (truth[given] == -1).all()
        assert torch.equal(truth[~given], tiny.train.labels[rows[~given]])
        seen += int(given.sum())
    assert seen


@pytest.mark.parametrize("channels", [1, 3])
def test_statistics_of_pixels_are_those_of_numpy(channels: int) -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, [[[[40]], [[200]], [[256]]][:channels]], (30, channels, 8, 8)).astype(np.uint8)
    mean, std = ImageKind(channels, 8).statistics(torch.from_numpy(images))
    assert mean.flatten().tolist() == pytest.approx(images.mean((0, 2, 3)), rel=1e-6)
    assert std.flatten().tolist() == pytest.approx(images.std((0, 2, 3)), rel=1e-6)


def test_statistics_of_many_images_are_of_evenly_spaced_ones() -> None:
    images = torch.arange(100, dtype=torch.uint8).view(100, 1, 1, 1).expand(100, 1, 4, 4)
    mean, _ = ImageKind(1, 4).statistics(images, most=30)
    assert mean.item() == pytest.approx(np.mean(np.arange(0, 100, 4)))


def test_of_one_colour_only_nothing_is_divided_by_0() -> None:
    assert ImageKind(1, 4).statistics(torch.full((3, 1, 4, 4), 9, dtype=torch.uint8))[1].tolist() == [[[1.0]]]
