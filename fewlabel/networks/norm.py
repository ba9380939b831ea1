"""Batch-norm statistics: they follow the weights in short runs too, a side look leaves them alone, and several
processes may have them in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..ranks import Ranks

BatchNorm = (nn.BatchNorm1d, nn.BatchNorm2d)


def set_norm_momentum(module: nn.Module, step: int, steps: int | None) -> bool:
    """The momentum of the running statistics at a step: a layer's own one where the run is long enough for it.

    The authors' 0.001 averages over about 1,000 steps, which suits a run of 300,000. In a short one the statistics
    would lag behind the weights (supervised training on digits, 1,000 steps: 62% instead of 82%), so they average over
    at most a hundredth of the run, and at first over all steps there were. Without `steps`: over all there were.
    Tells whether the momentum will stay what it is now.
    """
    settled = True
    for layer in module.modules():
        if isinstance(layer, BatchNorm):
            own = float(layer.__dict__.setdefault("own_momentum", layer.momentum) or 0)
            least = 0.0 if steps is None else max(own, min(0.1, 100 / steps))
            layer.momentum = max(least, 1 / (step + 1))
            settled = settled and layer.momentum == least
    return settled


@contextmanager
def norms_frozen(module: nn.Module) -> Iterator[None]:
    """Within this block batch statistics are used but the running ones stay untouched, whatever the module's mode."""
    layers = [layer for layer in module.modules() if isinstance(layer, BatchNorm)]
    before = [(layer.momentum, layer.training) for layer in layers]
    for layer in layers:
        layer.momentum, layer.training = 0.0, True
    try:
        yield
    finally:
        for layer, (momentum, training) in zip(layers, before, strict=True):
            layer.momentum, layer.training = momentum, training


# ---- statistics of the rows of all processes


class Shared(torch.autograd.Function):
    """Rows minus the mean, divided by the deviation, of all rows of all processes; also gives mean and variance."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, epsilon: float, ranks: Ranks) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and variance are found in two turns: a difference of large sums would lose their digits."""
        over = [0, *range(2, rows.ndim)]
        exact = rows if rows.dtype == torch.float64 else rows.float()
        sums = torch.cat([exact.sum(over), exact.new_tensor([rows.numel() // rows.shape[1]])])
        *_, count = ranks.total(sums)
        mean = sums[:-1] / count
        centred = exact - wide(mean, rows)
        variance = ranks.total(centred.square().sum(over)) / count
        scale = (variance + epsilon).rsqrt()
        normal = centred.mul_(wide(scale, rows)).to(rows.dtype)
        ctx.save_for_backward(normal, scale, count)
        ctx.ranks, ctx.over = ranks, over
        ctx.mark_non_differentiable(mean, variance, count)
        return normal, mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None, None]:
        normal, scale, count = ctx.saved_tensors
        exact = gradient.to(scale.dtype)
        along = torch.stack([exact.sum(ctx.over), (exact * normal).sum(ctx.over)])
        mean, slope = ctx.ranks.total(along) / count
        result = (exact - wide(mean, normal) - normal * wide(slope, normal)) * wide(scale, normal)
        return result.to(gradient.dtype), None, None


def wide(values: Tensor, rows: Tensor) -> Tensor:
    """One value for each channel, in the shape of the rows."""
    return values.view(-1, *[1] * (rows.ndim - 2))


def normalised(layer: nn.BatchNorm1d | nn.BatchNorm2d, rows: Tensor, ranks: Ranks) -> Tensor:
    """What a batch norm in training makes of the rows, with the statistics of all processes."""
    normal, mean, variance, count = Shared.apply(rows, layer.eps, ranks)
    statistics = ((layer.running_mean, mean), (layer.running_var, variance * count / (count - 1)))
    with torch.no_grad():
        for running, now in statistics:
            if running is not None:
                running.lerp_(now.to(running.dtype), layer.momentum or 0.0)
    return normal * wide(layer.weight, rows).to(rows.dtype) + wide(layer.bias, rows).to(rows.dtype)


class SharedNorm1d(nn.BatchNorm1d):
    """A batch norm whose statistics are of all processes while they work together; else it is the usual one.

    torch's own, nn.SyncBatchNorm, refuses tensors on CPUs.
    """

    ranks: Ranks

    def forward(self, rows: Tensor) -> Tensor:
        return normalised(self, rows, self.ranks) if self.training and self.ranks.at_work else super().forward(rows)


class SharedNorm2d(nn.BatchNorm2d):
    """The same for images."""

    ranks: Ranks

    def forward(self, rows: Tensor) -> Tensor:
        return normalised(self, rows, self.ranks) if self.training and self.ranks.at_work else super().forward(rows)


def share_norms(module: nn.Module, ranks: Ranks) -> None:
    """Let all batch norms of a module be of all processes."""
    for layer in module.modules():
        if isinstance(layer, BatchNorm):
            layer.__class__ = SharedNorm1d if isinstance(layer, nn.BatchNorm1d) else SharedNorm2d
            layer.ranks = ranks  # type: ignore[assignment]
