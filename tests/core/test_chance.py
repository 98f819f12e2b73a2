"""Draws from a key: as they should be spread, the same for the same key, and from the study's seed only if meant so."""

import torch

from wardround.core.chance import Chance, key_of


def test_normal_draws_have_mean_0_and_variance_1() -> None:
    for secret in (False, True):
        drawn = Chance(key_of("x"), secret=secret).normal(100_001)
        assert 100_001 == len(drawn)
        assert abs(float(drawn.mean())) < 0.02
        assert abs(float(drawn.std()) - 1) < 0.02


def test_uniform_draws_lie_evenly_between_0_and_1() -> None:
    for secret in (False, True):
        drawn = Chance(key_of("x"), secret=secret).uniform(100_000)
        assert 0 <= float(drawn.min()) < float(drawn.max()) < 1
        assert torch.allclose(torch.histc(drawn, 10, 0, 1) / 100_000, torch.full((10,), 0.1).double(), atol=0.005)


def test_the_same_key_draws_the_same_and_another_does_not() -> None:
    for secret in (False, True):
        one, same, other = (Chance(key_of(*parts), secret=secret).normal(9) for parts in ("ab", "ab", ("ab",)))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


def test_a_stream_goes_on_where_it_was() -> None:
    chance = Chance(key_of("x"), secret=True)
    assert not torch.equal(chance.normal(5), chance.normal(5))
