import math

import pytest
import torch
from torch import Tensor, nn

from fewlabel import UserError
from fewlabel.networks import make_classifier, norms_untouched, set_norm_momentum
from fewlabel.networks.wide_resnet import WideResNet


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_wrn_28_2_has_the_published_size() -> None:
    """1.5 million parameters with ten classes, 128 features."""
    classifier = make_classifier("wrn-28-2", (3, 32, 32), 10, projector=False, seed=0)
    assert classifier.features == 128
    assert parameters(classifier) == 1_467_610
    convolutions = [m for m in classifier.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(convolutions) == 25  # with three 1x1 shortcuts: the 28 layers


@pytest.mark.parametrize("name", ["cnn", "cnn-3", "mlp", "wrn-10-1", "wrn-16-2"])
@pytest.mark.parametrize(("channels", "size"), [(1, 8), (1, 28), (3, 32), (3, 64)])
def test_shapes_follow_the_data(name: str, channels: int, size: int) -> None:
    classifier = make_classifier(name, (channels, size, size), 7, projector=True, seed=0)
    output = classifier(torch.randn(4, channels, size, size))
    assert output.logits.shape == (4, 7)
    assert output.features.shape == (4, classifier.features)
    assert output.embedding is not None
    torch.testing.assert_close(output.embedding.norm(dim=1), torch.ones(4))


def reference_wrn(state: dict[str, Tensor], images: Tensor, depth: int) -> Tensor:
    """Features by hand, in evaluation mode: norm - leaky ReLU - convolution, twice, beside a shortcut."""

    def act(x: Tensor, name: str) -> Tensor:
        parts = (
            state[f"{name}.{part}"].view(1, -1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        mean, variance, weight, bias = parts
        x = (x - mean) / (variance + 1e-5).sqrt() * weight + bias
        return torch.maximum(x, 0.1 * x)

    def convolve(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = state[f"{name}.weight"]
        return torch.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    each = (depth - 4) // 6
    x = convolve(images, "stem")
    for number in range(3 * each):
        name, stride = f"blocks.{number}", 2 if number in (each, 2 * each) else 1
        a = act(x, f"{name}.norm1")
        inside = convolve(act(convolve(a, f"{name}.conv1", stride), f"{name}.norm2"), f"{name}.conv2")
        if f"{name}.shortcut.weight" in state:
            x = convolve(a if number == 0 else x, f"{name}.shortcut", stride)
        x = x + inside
    assert x.shape[-1] == images.shape[-1] // 4
    return act(x, "norm").mean((2, 3))


@pytest.mark.parametrize(("depth", "width"), [(10, 1), (10, 2), (16, 1)])
def test_wide_resnet_against_a_calculation_by_hand(depth: int, width: int) -> None:
    draw = torch.Generator().manual_seed(0)
    network = WideResNet(depth, width, 3).double().eval()
    state = network.state_dict()
    for name, value in state.items():  # statistics and scales as after some training
        if "norm" in name and value.is_floating_point():
            value.copy_(0.5 + torch.rand(value.shape, generator=draw, dtype=torch.float64))
    images = torch.randn(2, 3, 16, 16, generator=draw, dtype=torch.float64)
    torch.testing.assert_close(network(images), reference_wrn(state, images, depth))


def test_first_weights_of_a_wide_resnet() -> None:
    """Normal, with the variance 2 / ((1 + 0.1^2) k^2 outputs)."""
    weight = WideResNet(10, 4, 3).state_dict()["blocks.2.conv2.weight"]
    assert weight.std().item() == pytest.approx((2 / (1.01 * 9 * 256)) ** 0.5, rel=0.01)


@pytest.mark.parametrize("name", ["cnn", "wrn-10-1", "mlp"])
def test_first_weights_of_the_head(name: str) -> None:
    """For images those of Glorot and Bengio, no bias; for rows of numbers torch's own."""
    head = make_classifier(name, (3, 16, 16), 100, projector=False, seed=0).head
    assert head.weight.std().item() == pytest.approx(math.sqrt(2 / (head.in_features + 100)), rel=0.05)
    assert not head.bias.any()
    assert make_classifier("mlp", (64,), 100, projector=False, seed=0).head.bias.any()


def test_width_of_the_small_cnn() -> None:
    """cnn-WIDTH has WIDTH times as many channels everywhere; cnn-1 is cnn, to the same weights."""
    plain, same, wide = (
        make_classifier(name, (3, 32, 32), 10, projector=False, seed=0) for name in ("cnn", "cnn-1", "cnn-2")
    )
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in plain.state_dict().items())
    channels = [[m.out_channels for m in c.modules() if isinstance(m, nn.Conv2d)] for c in (plain, wide)]
    assert channels == [[32, 64, 64, 128, 128], [64, 128, 128, 256, 256]]
    assert wide.features == 2 * plain.features == 256


def test_projector_is_the_authors() -> None:
    projector = make_classifier("wrn-28-2", (3, 32, 32), 10, projector=True, seed=0).projector
    assert isinstance(projector, nn.Sequential)
    assert [type(layer) for layer in projector] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert [tuple(p.shape) for p in projector.parameters()] == [(32, 128), (32,), (32,), (32, 32), (32,)]


def test_adding_a_projector_changes_no_other_weight() -> None:
    without, with_it = (
        make_classifier("cnn", (1, 28, 28), 10, projector=p, seed=3).state_dict() for p in (False, True)
    )
    assert all(torch.equal(value, with_it[name]) for name, value in without.items())


def test_seed() -> None:
    first, again, other = (
        make_classifier("cnn", (1, 28, 28), 10, projector=False, seed=s).head.weight for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    "name", ["wrn-27-2", "wrn-4-1", "wrn-28-0", "resnet", "wrn-28", "cnn2", "cnn-0", "cnn-65", "cnn-2-1"]
)
def test_unknown_networks(name: str) -> None:
    with pytest.raises(UserError, match=name):
        make_classifier(name, (3, 32, 32), 10, projector=False, seed=0)


def test_normalise() -> None:
    mean, std = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1.0, 2.0, 4.0])
    classifier = make_classifier("mlp", (3, 8, 8), 2, projector=False, seed=0, mean=mean, std=std)
    pixels = torch.full((1, 3, 8, 8), 34, dtype=torch.uint8)
    assert classifier.normalise(pixels)[0, :, 0, 0].tolist() == [24.0, 7.0, 1.0]


def test_running_statistics_are_a_cumulative_average_at_first_then_follow() -> None:
    network = WideResNet(10, 1, 1)
    norm = network.norm
    inputs = [torch.randn(16, 64, 2, 2, generator=torch.Generator().manual_seed(i)) + i for i in range(4)]
    network.train()
    for step, batch in enumerate(inputs):
        set_norm_momentum(network, step, steps=1_000_000)
        norm(batch)
    assert norm.running_mean is not None
    torch.testing.assert_close(norm.running_mean, torch.stack([x.mean((0, 2, 3)) for x in inputs]).mean(0))
    set_norm_momentum(network, 900_000, steps=1_000_000)
    assert norm.momentum == 0.001  # the authors' own, in a run long enough for it
    set_norm_momentum(network, 1_500, steps=2_000)
    assert norm.momentum == 0.05  # a hundredth of a short run


def test_untouched_norms_use_batch_statistics_and_change_no_buffer() -> None:
    classifier = make_classifier("cnn", (1, 8, 8), 3, projector=True, seed=0).train()
    images = torch.randn(8, 1, 8, 8)
    before = {k: v.clone() for k, v in classifier.state_dict().items()}
    with norms_untouched(classifier):
        frozen = classifier(images).logits
    assert all(torch.equal(v, classifier.state_dict()[k]) for k, v in before.items())
    classifier.eval()
    with norms_untouched(classifier):
        assert torch.equal(frozen, classifier(images).logits)  # in evaluation mode too
    assert not any(layer.training for layer in classifier.modules())
    classifier.train()
    assert torch.equal(frozen, classifier(images).logits)  # the same as a usual training pass
    assert not all(torch.equal(v, classifier.state_dict()[k]) for k, v in before.items())
