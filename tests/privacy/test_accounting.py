"""ε of noisy steps, against published values, and the noise for a wanted ε."""

import math

import pytest

from wardround.privacy.accounting import epsilon, noise_for
from wardround.study.outline import LEAST

REFERENCE = [
    (0.01, 1.1, 1000, 1.5154),
    (0.01, 1.1, 10000, 5.1926),
    (256 / 60000, 1.1, 14063, 2.3818),
    (0.1, 2.0, 100, 2.3374),
]  # at δ = 1e-5, by privacy loss distributions


@pytest.mark.parametrize(("rate", "noise", "steps", "expected"), REFERENCE)
def test_epsilon_is_the_published_one(rate: float, noise: float, steps: int, expected: float) -> None:
    assert epsilon([(noise, rate, steps)], 1e-5) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("wanted", "rate", "steps"), [(1.0, 0.05, 200), (8.0, 0.2, 30), (3.0, 1.0, 1)])
def test_the_noise_costs_just_what_was_wanted(wanted: float, rate: float, steps: int) -> None:
    noise = noise_for(wanted, 1e-5, rate, steps)
    assert wanted * 0.99 <= epsilon([(noise, rate, steps)], 1e-5) <= wanted * 1.0001


def test_looks_of_different_kinds_cost_more_together_and_less_than_their_sum() -> None:
    one, two = epsilon([(2.0, 0.1, 50)], 1e-5), epsilon([(3.0, 0.2, 20)], 1e-5)
    both = epsilon([(2.0, 0.1, 50), (3.0, 0.2, 20)], 1e-5)
    assert max(one, two) < both < one + two


def test_no_look_costs_nothing() -> None:
    assert epsilon([], 1e-5) == 0.0


@pytest.mark.parametrize("wanted", [1e-9, 1e-3])
def test_an_epsilon_next_to_nothing_has_much_noise_and_no_error(wanted: float) -> None:
    """The accountant then answers 0 at times, of which there is no logarithm; a study asks for no such ε."""
    assert 100 < noise_for(wanted, 1e-3, 0.2, 10) < math.inf


@pytest.mark.parametrize(("rate", "steps"), [(0.2, 10), (0.01, 1000), (1.0, 20)])
def test_the_least_epsilon_of_a_study_is_counted_to_a_tenth(rate: float, steps: int) -> None:
    noise = noise_for(LEAST, 1e-5, rate, steps)
    assert epsilon([(noise, rate, steps)], 1e-5) <= 1.1 * LEAST
