import math

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binomtest
from torch import Tensor

from fewlabel.data import ImageKind
from fewlabel.evaluate import (
    accuracy,
    calibration_error,
    confusion,
    cross_fitted_error,
    fit_temperature,
    predict_probabilities,
    wilson,
)
from fewlabel.networks import make_classifier, with_precise_norms


def test_accuracy_and_confusion_leave_unlabelled_images_out() -> None:
    predicted, labels = torch.tensor([0, 1, 2, 2, 0]), torch.tensor([0, 1, 1, 2, -1])
    assert accuracy(predicted, labels) == 3 / 4
    assert confusion(predicted, labels, 3).tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]


def test_probabilities_do_not_depend_on_the_mode_or_on_other_images() -> None:
    network = make_classifier("cnn", (1, 8, 8), 3, projector=False, seed=0).train()
    pixels = torch.randint(256, (600, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    together = predict_probabilities(network, pixels)
    assert network.training
    torch.testing.assert_close(predict_probabilities(network, pixels[590:]), together[590:])
    torch.testing.assert_close(together.sum(1), torch.ones(600))
    assert predict_probabilities(network, pixels[:0]).shape == (0, 3)


@pytest.mark.parametrize(("channels", "picture_channels"), [(1, 1), (3, 3), (1, 3)])
def test_pictures_are_made_grey_for_models_of_grey_ones(channels: int, picture_channels: int) -> None:
    pixels = torch.randint(0, 256, (9, picture_channels, 16, 16), dtype=torch.uint8)
    seen = pixels
    if channels < picture_channels:
        pictures = [Image.fromarray(picture.permute(1, 2, 0).numpy()).convert("L") for picture in pixels]
        seen = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures]))[:, None]
    assert torch.equal(ImageKind(channels, 16).adapt(pixels), seen)


def test_precise_norms_take_the_statistics_of_plain_images_and_leaves_the_network_alone() -> None:
    network = make_classifier(
        "cnn", (1, 8, 8), 3, projector=True, seed=0, mean=torch.tensor([9.0]), std=torch.tensor([5.0])
    )
    pixels = torch.randint(256, (256, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    copy = with_precise_norms(network, pixels)
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    first = network.get_submodule("encoder.layers.0")(network.normalise(pixels))
    found = copy.state_dict()
    torch.testing.assert_close(found["encoder.layers.1.running_mean"], first.mean((0, 2, 3)), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["encoder.layers.1.running_var"], first.var((0, 2, 3)), rtol=1e-4, atol=1e-4)
    assert not copy.training


@pytest.mark.parametrize("count", [1, 2, 3, 257, 513, 1025])
def test_calibration_of_any_number_of_images(count: int) -> None:
    network = make_classifier("cnn", (1, 8, 8), 3, projector=True, seed=0)
    pixels = torch.randint(256, (count, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert predict_probabilities(with_precise_norms(network, pixels), pixels).isfinite().all()


@pytest.mark.parametrize(("right", "count"), [(0, 10), (10, 10), (7, 10), (970, 1000), (1, 3)])
def test_wilsons_interval_against_scipy(right: int, count: int) -> None:
    expected = binomtest(right, count).proportion_ci(0.95, "wilson")
    assert wilson(right, count) == pytest.approx((expected.low, expected.high), abs=1e-4)


def too_sure(count: int = 4000, temperature: float = 3.0) -> tuple[Tensor, Tensor]:
    """Guesses of five classes whose logits are as many times too large, with labels drawn from the true chances."""
    draw = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(count, 5, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw).flatten()
    return (temperature * logits).softmax(1), labels


def test_calibration_error_by_hand() -> None:
    """Bins of a fifteenth: confidences of 0.62 and 0.65 are in one, half of them right; 0.9 is in another, wrong."""
    guesses = torch.tensor([[0.62, 0.38], [0.35, 0.65], [0.9, 0.1], [0.5, 0.5]])
    labels = torch.tensor([0, 0, 1, -1])
    expected = (abs(1 - (0.62 + 0.65)) + abs(0 - 0.9)) / 3
    assert calibration_error(guesses, labels) == pytest.approx(expected)


def test_calibration_error_against_a_loop() -> None:
    guesses, labels = too_sure(500)
    total = 0.0
    for low in range(15):
        inside = [
            (float(row.max()), int(row.argmax()) == int(label))
            for row, label in zip(guesses, labels, strict=True)
            if min(int(float(row.max()) * 15), 14) == low
        ]
        if inside:
            confidence, right = np.mean(inside, axis=0)
            total += len(inside) / 500 * abs(confidence - right)
    assert calibration_error(guesses, labels) == pytest.approx(total)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_is_found_again_and_calibrates(temperature: float) -> None:
    guesses, labels = too_sure(temperature=temperature)
    assert fit_temperature(guesses, labels) == pytest.approx(temperature, rel=0.1)
    assert cross_fitted_error(guesses, labels) < 0.03
    if temperature == 3:
        assert calibration_error(guesses, labels) > 0.1


def test_unlabelled_images_have_no_say_in_the_temperature() -> None:
    guesses, labels = too_sure()
    labels[::2] = -1
    assert fit_temperature(guesses, labels) == fit_temperature(guesses[1::2], labels[1::2])


def test_a_network_divides_its_logits_by_its_temperature() -> None:
    network = make_classifier("cnn", (1, 8, 8), 3, projector=False, seed=0).eval()
    pixels = torch.randint(256, (20, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    logits = network(network.normalise(pixels)).logits
    network.temperature.fill_(2.5)
    torch.testing.assert_close(predict_probabilities(network, pixels), (logits / 2.5).softmax(1))
    assert math.isclose(float(network.state_dict()["temperature"]), 2.5)
