"""The two-layer perceptron of the ICL-SSL paper's first experiment: one hidden layer, then the classifier's head."""

from torch import Tensor, nn


class MLP(nn.Module):
    """Flattened pixels to `hidden` rectified features."""

    def __init__(self, channels: int, size: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, hidden), nn.ReLU(inplace=True))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class VectorMLP(nn.Module):
    """Standardised vectors to `hidden` features by two layers, each with batch norm."""

    def __init__(self, columns: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(columns, hidden, bias=False),
            nn.BatchNorm1d(hidden, momentum=0.01),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden, bias=False),
            nn.BatchNorm1d(hidden, momentum=0.01),
            nn.ReLU(inplace=True),
        )

    def forward(self, vectors: Tensor) -> Tensor:
        return self.layers(vectors)
