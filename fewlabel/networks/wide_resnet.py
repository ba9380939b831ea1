"""Wide residual networks in the form the semi-supervised literature compares with.

Zagoruyko and Komodakis, https://arxiv.org/abs/1605.07146; leaky ReLU and batch-norm momentum as in
"Realistic Evaluation", https://arxiv.org/abs/1804.09170. wrn-28-2 is the network of the ICL-SSL paper.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UserError

SLOPE = 0.1  # of the leaky ReLU
MOMENTUM = 0.001  # of the running statistics
MOST_WEIGHTS = 500_000_000  # of a network that is made


def activation() -> nn.Module:
    return nn.LeakyReLU(SLOPE, inplace=True)


class Block(nn.Module):
    """norm - relu - conv - norm - relu - conv, added to the input."""

    def __init__(self, inside: int, outside: int, stride: int, activate_first: bool) -> None:
        super().__init__()
        self.activate_first = activate_first  # the very first block also hands its activated input to the shortcut
        self.norm1 = nn.BatchNorm2d(inside, momentum=MOMENTUM)
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside, momentum=MOMENTUM)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.relu = activation()
        same = inside == outside and stride == 1
        self.shortcut = None if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.relu(self.norm1(x))
        out = self.conv2(self.relu(self.norm2(self.conv1(activated))))
        if self.shortcut is None:
            return x + out
        return self.shortcut(activated if self.activate_first else x) + out


class WideResNet(nn.Module):
    """wrn-DEPTH-WIDTH: three groups of (depth - 4) / 6 blocks with 16, 32 and 64 x width channels."""

    def __init__(self, depth: int, width: int, channels: int) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or width < 1:
            raise UserError(
                f"wrn-{depth}-{width}: the depth must be 10, 16, 22, 28, ... (6 n + 4) and the width at least 1."
            )
        weights = 3 * (depth - 4) * width**2 * sum(outside**2 for outside in (16, 32, 64))  # of its convolutions
        if weights > MOST_WEIGHTS:
            raise UserError(
                f"wrn-{depth}-{width} has about {weights / 1e9:.3g} billion weights: choose a smaller depth or width, "
                "such as wrn-28-10."
            )
        blocks: list[nn.Module] = []
        inside = 16
        for group, outside in enumerate((16 * width, 32 * width, 64 * width)):
            for position in range((depth - 4) // 6):
                stride = 2 if group > 0 and position == 0 else 1
                blocks.append(Block(inside, outside, stride, activate_first=not blocks))
                inside = outside
        self.stem = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(inside, momentum=MOMENTUM)
        self.relu = activation()
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels
                nn.init.normal_(layer.weight, 0, math.sqrt(2 / ((1 + SLOPE**2) * fan_out)))

    def forward(self, images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(self.relu(self.norm(self.blocks(self.stem(images)))), 1).flatten(1)
