from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fewlabel.networks import make_classifier
from fewlabel.randomness import beta, generator, seed_of, seeded


def test_seeds_are_the_same_on_every_platform() -> None:
    assert seed_of(0, 0, "labelled") == 5963053721483449041
    assert seed_of(1, 2, "icl") == 1491049917164369987


def test_every_part_of_the_key_matters() -> None:
    keys = [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b"), (0, 11, "a"), (1, 1, "a")]
    assert len({torch.rand(1, generator=generator(*key)).item() for key in keys}) == len(keys)


def test_first_weights_in_threads_are_those_of_one() -> None:
    """Torch has one global generator for all threads; and afterwards it goes on as if nothing had been."""

    def weights(seed: int) -> list[float]:
        model = make_classifier("mlp", (1, 8, 8), 10, projector=False, seed=seed)
        return torch.cat([p.flatten() for p in model.parameters()]).tolist()

    before = torch.get_rng_state()
    alone = [weights(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(weights, range(4))) == alone
    assert torch.equal(torch.get_rng_state(), before)
    assert alone[0] != alone[1]


def test_a_seeded_block() -> None:
    with seeded(3, "weights"):
        inside = torch.rand(2)
    assert torch.equal(inside, torch.rand(2, generator=generator(3, 0, "weights")))


def test_beta_has_the_moments_of_the_distribution() -> None:
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1))."""
    draws = beta(0.75, 100_000, generator(0, 0, "beta"))
    assert draws.mean().item() == pytest.approx(0.5, abs=0.01)
    assert draws.var().item() == pytest.approx(0.1, abs=0.01)
    assert torch.equal(draws, beta(0.75, 100_000, generator(0, 0, "beta")))
