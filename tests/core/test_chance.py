"""Draws from a key: as they should be spread, the same for the same key, and from the study's seed only if meant so."""

import numpy as np
import torch

from wardround.core.chance import MERSENNE, Chance, key_of


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


def test_torchs_generator_is_set_in_all_its_numbers() -> None:
    """Not by a seed, of which torch takes 32 bits: numpy's generator of the same kind draws the same from them."""
    assert Chance(key_of("x"), secret=False).torch_state() is None
    words = (Chance(key_of("x"), secret=True).uniform(MERSENNE) * 2**32).long()
    state = Chance(key_of("x"), secret=True).torch_state()
    assert state is not None
    generator = torch.Generator()
    generator.set_state(state)
    same = np.random.MT19937()
    same.state = {"bit_generator": "MT19937", "state": {"key": words.numpy().astype(np.uint32), "pos": MERSENNE}}
    drawn = torch.randint(0, 2**24, (1000,), generator=generator)
    assert [int(word) % 2**24 for word in same.random_raw(1000)] == drawn.tolist()
