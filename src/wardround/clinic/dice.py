"""Draws that come out alike on every platform and Python version.

Python promises that `Random(int).random()` keeps its sequence; of `choice`, `shuffle` or `gauss` it does not.
So everything here rests on `random()` alone, seeded by a hash of what is being drawn: the draws for document
7 of a hospital are the same whether or not documents 0 to 6 were drawn before.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import TypeVar

T = TypeVar("T")


def fingerprint(*key: object) -> int:
    """64 bits that depend on every part of the key and on nothing else."""
    text = "\x1f".join(str(part) for part in key)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class Dice:
    """A source of draws named by its key."""

    def __init__(self, *key: object) -> None:
        self._real = Random(fingerprint(*key)).random  # noqa: S311 - rehearsal data, nothing secret

    def real(self) -> float:
        """Uniform in [0, 1)."""
        return self._real()

    def chance(self, probability: float) -> bool:
        """True this often."""
        return self._real() < probability

    def below(self, limit: int) -> int:
        """A whole number from 0 up to but not including `limit`."""
        return int(self._real() * limit)

    def pick(self, options: Sequence[T]) -> T:
        """Each option as often as any other."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        """Each option as often as its share of the weights."""
        left = self._real() * math.fsum(weights)
        for option, weight in zip(options, weights, strict=True):
            left -= weight
            if left < 0:
                return option
        return options[-1]

    def normal(self) -> float:
        """A standard normal number (Box and Muller, 1958)."""
        radius = math.sqrt(-2 * math.log(1 - self._real()))
        return radius * math.cos(2 * math.pi * self._real())

    def dirichlet(self, concentrations: Sequence[float]) -> list[float]:
        """Shares that sum to one; small concentrations make few of them large."""
        # Rounded, so that platforms whose logarithms differ in the last bit still agree.
        gammas = [max(round(self._gamma(alpha), 9), 1e-9) for alpha in concentrations]
        return [gamma / math.fsum(gammas) for gamma in gammas]

    def _gamma(self, shape: float) -> float:
        """A gamma number (Marsaglia and Tsang, 2000)."""
        if shape < 1:
            return self._gamma(shape + 1) * math.pow(1 - self._real(), 1 / shape)
        d = shape - 1 / 3
        while True:
            x = self.normal()
            v = (1 + x / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log(1 - self._real()) < x * x / 2 + d * (1 - v + math.log(v)):
                return d * v
