import pytest
import torch

from fewlabel.methods.memory import Alignment, Recent
from tests.references import matching as reference


def numbered(first: int, count: int) -> torch.Tensor:
    return torch.arange(first, first + count)[:, None] * torch.tensor([1.0, -2.0])


@pytest.mark.parametrize(
    ("length", "pushes"),
    [(5, [1, 2, 1, 1, 1, 3, 5]), (4, [4, 4]), (3, [2, 2, 2, 2]), (3, [7, 1, 8]), (1, [1, 1, 2])],
)
def test_recent_holds_the_last_rows_however_they_come(length: int, pushes: list[int]) -> None:
    recent = Recent(length, 2)
    rows: list[list[float]] = []
    for count in pushes:
        assert recent.full.item() == (len(rows) >= length)
        recent.push(numbered(len(rows), count))
        rows += numbered(len(rows), count).tolist()
        last = rows[-length:]
        assert sorted(recent.rows.tolist()) == sorted(last + [[0.0, 0.0]] * (length - len(last)))
        assert recent.mean().tolist() == pytest.approx(reference.mean(last))
    assert recent.full


def test_recent_takes_rows_of_any_precision_and_no_gradient() -> None:
    recent = Recent(4, 2)
    recent.push(numbered(1, 3).double().requires_grad_())
    recent.push(numbered(4, 1).bfloat16())
    assert recent.rows.dtype == torch.float32
    assert not recent.rows.requires_grad
    torch.testing.assert_close(recent.rows, numbered(1, 4))


def test_recent_goes_on_where_it_was_saved() -> None:
    recent, other = Recent(4, 2), Recent(4, 2)
    recent.push(numbered(0, 6))
    other.load_state_dict(recent.state_dict())
    for memory in (recent, other):
        memory.push(numbered(6, 1))
    assert torch.equal(recent.rows, other.rows)
    assert recent.pushed == other.pushed == 7


@pytest.mark.parametrize("target", [None, [0.1, 0.2, 0.3, 0.4]])
def test_alignment_over_the_last_three_batches(target: list[float] | None) -> None:
    """Each batch counts as much as another, this one too, whatever its number of rows."""
    method, expected = Alignment(4, batches=3).double(), reference.Alignment(3)
    draw = torch.Generator().manual_seed(0)
    for rows in (5, 8, 2, 8, 1, 8):
        probabilities = (2 * torch.randn(rows, 4, generator=draw, dtype=torch.float64)).softmax(1)
        found = method(probabilities, None if target is None else torch.tensor(target, dtype=torch.float64))
        torch.testing.assert_close(found, torch.tensor(expected(probabilities.tolist(), target or ())).double())


def test_alignment_makes_an_even_batch_of_a_lopsided_one() -> None:
    lopsided = torch.tensor([[0.9, 0.1], [0.7, 0.3]])
    found = Alignment(2, batches=1)(lopsided)
    assert found[0, 0] > 0.5 > found[1, 0]
