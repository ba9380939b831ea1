import pytest
import torch

from fewlabel.randomness import beta, generator, seed_of


def test_seeds_are_the_same_on_every_platform() -> None:
    assert seed_of(0, 0, "labelled") == 5963053721483449041
    assert seed_of(1, 2, "icl") == 1491049917164369987


def test_every_part_of_the_key_matters() -> None:
    keys = [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b"), (0, 11, "a"), (1, 1, "a")]
    assert len({torch.rand(1, generator=generator(*key)).item() for key in keys}) == len(keys)


def test_beta_has_the_moments_of_the_distribution() -> None:
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1))."""
    draws = beta(0.75, 100_000, generator(0, 0, "beta"))
    assert draws.mean().item() == pytest.approx(0.5, abs=0.01)
    assert draws.var().item() == pytest.approx(0.1, abs=0.01)
    assert torch.equal(draws, beta(0.75, 100_000, generator(0, 0, "beta")))
