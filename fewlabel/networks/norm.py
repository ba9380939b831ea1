"""Batch-norm statistics that follow the weights in short runs too, and that a side look leaves alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

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
