"""A secret in shares: two thirds of the members and one have it, fewer have nothing."""

from itertools import combinations

import pytest

from wardround.layers.keys import derived
from wardround.layers.shares import PRIME, SIZE, joined, split, threshold

SECRET = bytes(range(32))


def shares_of(count: int) -> dict[int, bytes]:
    return dict(enumerate(split(SECRET, count, lambda power: derived(SECRET, b"%d" % power)), 1))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_any_two_thirds_and_one_give_the_secret_and_one_less_does_not(count: int) -> None:
    shares, need = shares_of(count), threshold(count)
    for chosen in combinations(shares, need):
        assert SECRET == joined({place: shares[place] for place in chosen})
    for chosen in combinations(shares, need - 1):
        assert SECRET != joined({place: shares[place] for place in chosen})


def test_with_one_less_every_secret_is_as_good_as_any_other() -> None:
    """Whatever the secret is guessed to be, some last share goes with it: the others say nothing against it."""
    shares = shares_of(5)
    known = {place: shares[place] for place in (1, 2, 3)}
    for guess in (bytes(32), b"\xff" * 32, SECRET):
        with_zero, with_one = (
            int.from_bytes(joined({**known, 4: last.to_bytes(SIZE, "big")}) or b"\x01" + bytes(32), "big")
            for last in (0, 1)
        )
        slope = (with_one - with_zero) % PRIME  # the secret is a line in the last share
        last = (int.from_bytes(guess, "big") - with_zero) * pow(slope, -1, PRIME) % PRIME
        assert guess == joined({**known, 4: last.to_bytes(SIZE, "big")})


@pytest.mark.parametrize("members", range(2, 100))
def test_fewer_than_a_third_who_lie_cannot_have_two_sums_opened(members: int) -> None:
    """Honest members open one sum each: two would take each of them once, and all who lie twice."""
    for liars in range((members + 2) // 3):
        assert 3 * liars < members
        assert 2 * (threshold(members) - liars) > members - liars
