"""A compact convolutional network for CPUs."""

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UserError

WIDEST = 64  # a billion weights


class SmallCNN(nn.Module):
    """cnn-WIDTH: five 3x3 convolutions of 32 to 128 x width channels, three of them strided; one more for each doubling
    beyond 48."""

    def __init__(self, channels: int, size: int, width: int = 1) -> None:
        super().__init__()
        if not 1 <= width <= WIDEST:
            raise UserError(f"cnn-{width}: the width must be between 1 and {WIDEST}.")
        plan = [(32, 2), (64, 2), (64, 1), (128, 2), (128, 1)]
        while size > 48:
            plan.insert(0, (32, 2))
            size //= 2
        layers: list[nn.Module] = []
        for outside, stride in ((width * count, stride) for count, stride in plan):
            layers += [
                nn.Conv2d(channels, outside, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outside, momentum=0.01),
                nn.LeakyReLU(0.1, inplace=True),
            ]
            channels = outside
        self.layers = nn.Sequential(*layers)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, a=0.1, mode="fan_out", nonlinearity="leaky_relu")

    def forward(self, images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(self.layers(images), 1).flatten(1)
