import pytest
import torch

from fewlabel.evaluate import accuracy, calibrated, confusion, probabilities
from fewlabel.networks import make_classifier


def test_accuracy_and_confusion_leave_unlabelled_images_out() -> None:
    predicted, labels = torch.tensor([0, 1, 2, 2, 0]), torch.tensor([0, 1, 1, 2, -1])
    assert accuracy(predicted, labels) == 3 / 4
    assert confusion(predicted, labels, 3).tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]


def test_probabilities_do_not_depend_on_the_mode_or_on_other_images() -> None:
    network = make_classifier("cnn", 1, 8, 3, projector=False, seed=0).train()
    pixels = torch.randint(256, (600, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    together = probabilities(network, pixels)
    assert network.training
    torch.testing.assert_close(probabilities(network, pixels[590:]), together[590:])
    torch.testing.assert_close(together.sum(1), torch.ones(600))
    assert probabilities(network, pixels[:0]).shape == (0, 3)


def test_calibration_takes_the_statistics_of_plain_images_and_leaves_the_network_alone() -> None:
    network = make_classifier("cnn", 1, 8, 3, projector=True, seed=0, mean=torch.tensor([9.0]), std=torch.tensor([5.0]))
    pixels = torch.randint(256, (256, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    copy = calibrated(network, pixels)
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    first = network.get_submodule("encoder.layers.0")(network.normalise(pixels))
    found = copy.state_dict()
    torch.testing.assert_close(found["encoder.layers.1.running_mean"], first.mean((0, 2, 3)), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["encoder.layers.1.running_var"], first.var((0, 2, 3)), rtol=1e-4, atol=1e-4)
    assert not copy.training


@pytest.mark.parametrize("count", [1, 2, 3, 257, 513, 1025])
def test_calibration_of_any_number_of_images(count: int) -> None:
    network = make_classifier("cnn", 1, 8, 3, projector=True, seed=0)
    pixels = torch.randint(256, (count, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert probabilities(calibrated(network, pixels), pixels).isfinite().all()
