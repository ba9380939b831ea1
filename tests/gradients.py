"""Gradients by central differences, of a plain-Python reference."""

from collections.abc import Callable

import torch
from torch import Tensor


def numerical_gradient(function: Callable[[list[list[float]]], float], at: Tensor, step: float = 1e-6) -> Tensor:
    """d function / d at, entry by entry; `at` is (N, D), float64."""
    gradient = torch.zeros_like(at)
    for i in range(at.shape[0]):
        for j in range(at.shape[1]):
            up, down = at.clone(), at.clone()
            up[i, j] += step
            down[i, j] -= step
            gradient[i, j] = (function(up.tolist()) - function(down.tolist())) / (2 * step)
    return gradient


def assert_gradient(loss: Tensor, variable: Tensor, function: Callable[[list[list[float]]], float]) -> None:
    """The gradient of `loss` with respect to `variable` equals the numerical one of the reference `function`."""
    (found,) = torch.autograd.grad(loss, variable, retain_graph=True)
    torch.testing.assert_close(found, numerical_gradient(function, variable.detach()), rtol=1e-5, atol=1e-7)
