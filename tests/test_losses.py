import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabel import losses
from tests.gradients import assert_gradient
from tests.references import losses as reference


def random_rows(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=draw, dtype=torch.float64)).requires_grad_()


def unit_rows(seed: int, *shape: int) -> Tensor:
    return F.normalize(random_rows(seed, *shape).detach(), dim=1).requires_grad_()


def test_cross_entropy() -> None:
    logits, labels = random_rows(0, 7, 4, scale=3), torch.tensor([0, 1, 2, 3, 0, 0, 2])
    loss = losses.cross_entropy(logits, labels)
    assert loss.item() == pytest.approx(reference.cross_entropy(logits.tolist(), labels.tolist()), rel=1e-12)
    assert_gradient(loss, logits, lambda rows: reference.cross_entropy(rows, labels.tolist()))


@pytest.mark.parametrize("kept", [[True] * 5, [False] * 5, [True, False, True, False, False]])
def test_masked_cross_entropy_counts_dropped_rows_as_zero(kept: list[bool]) -> None:
    logits, labels = random_rows(1, 5, 3, scale=2), torch.tensor([0, 1, 2, 1, 0])

    def expected(rows: list[list[float]]) -> float:
        terms = [
            reference.cross_entropy([row], [label]) if keep else 0.0
            for row, label, keep in zip(rows, labels.tolist(), kept, strict=True)
        ]
        return sum(terms) / len(terms)

    loss = losses.masked_cross_entropy(logits, labels, torch.tensor(kept))
    assert loss.item() == pytest.approx(expected(logits.tolist()), rel=1e-12)
    assert_gradient(loss, logits, expected)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_interpolation_contrast(temperature: float) -> None:
    mixed, of_mixed, z = unit_rows(2, 6, 4), unit_rows(3, 6, 4), unit_rows(4, 6, 4)
    loss = losses.interpolation_contrast(mixed, of_mixed, z, temperature)
    rows = mixed.tolist(), of_mixed.tolist(), z.tolist()
    assert loss.item() == pytest.approx(reference.interpolation_contrast(*rows, temperature), rel=1e-12)
    assert_gradient(loss, mixed, lambda x: reference.interpolation_contrast(x, rows[1], rows[2], temperature))
    assert_gradient(loss, of_mixed, lambda x: reference.interpolation_contrast(rows[0], x, rows[2], temperature))
    assert_gradient(loss, z, lambda x: reference.interpolation_contrast(rows[0], rows[1], x, temperature))


def test_interpolation_contrast_may_be_negative() -> None:
    """The positive is not in the denominator: two opposite images with perfect pairs give -1 - 1."""
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert losses.interpolation_contrast(z, z, z, 1.0).item() == pytest.approx(-2.0)


@pytest.mark.parametrize("classes", [[0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1], [3, 3, 3, 3, 3, 3]])
def test_interpolation_contrast_with_chosen_negatives(classes: list[int]) -> None:
    mixed, of_mixed, z = unit_rows(5, 6, 4), unit_rows(6, 6, 4), unit_rows(7, 6, 4)
    same = torch.tensor(classes)
    loss = losses.interpolation_contrast(mixed, of_mixed, z, 0.5, negatives=same[:, None] != same)
    rows = mixed.tolist(), of_mixed.tolist(), z.tolist()
    assert loss.item() == pytest.approx(reference.interpolation_contrast(*rows, 0.5, classes), rel=1e-12)
    assert_gradient(loss, z, lambda x: reference.interpolation_contrast(rows[0], rows[1], x, 0.5, classes))


def test_align() -> None:
    probabilities = random_rows(8, 5, 3).detach().softmax(1)
    mean = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    for row, found in zip(probabilities.tolist(), losses.align(probabilities, mean).tolist(), strict=True):
        divided = [p / m for p, m in zip(row, mean.tolist(), strict=True)]
        assert found == pytest.approx([d / sum(divided) for d in divided])
