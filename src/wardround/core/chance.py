"""The chance that differential privacy stands on: draws that nobody can foretell who does not have the key.

    chance = Chance(key, secret=True)
    chance.uniform(100); chance.normal(100)

The seed of a study is public, and torch's generator can be worked out from what it has drawn (whoever sees the noise of
a word that no note has sees just that). So at a real site the draws come from a key of its own, stretched by SHAKE-256:
as hard to foretell as the key is to guess. The same key gives the same draws, so that a question that is asked again
gets the same answer. A simulation draws from the study's seed by torch's generator, which is faster and repeats.
"""

import hashlib
import math

import torch
from torch import Tensor

WIDE = 8  # bytes of a number


def key_of(*parts: object) -> bytes:
    """The 32 bytes that stand for what draws depend on."""
    whole = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        whole.update(len(raw).to_bytes(WIDE, "little") + raw)
    return whole.digest()


class Chance:
    """A stream of draws from one key."""

    def __init__(self, key: bytes, *, secret: bool) -> None:
        self._key, self._drawn = key, 0
        seed = int.from_bytes(key[:WIDE], "little") >> 1
        self._open = None if secret else torch.Generator().manual_seed(seed)

    def uniform(self, count: int) -> Tensor:
        """Numbers from 0 to 1, 1 excluded (count,), in double precision."""
        if self._open is not None:
            return torch.rand(count, generator=self._open, dtype=torch.float64)
        return (self._words(count) >> 10).double() * 2.0**-53

    def normal(self, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Numbers with mean 0 and variance 1 (count,)."""
        if self._open is not None:
            return torch.randn(count, generator=self._open, dtype=dtype)
        half = (count + 1) // 2  # Box and Muller 1958
        first, second = 1.0 - self.uniform(half), self.uniform(half)
        length, angle = (-2.0 * first.log()).sqrt_(), second * (2 * math.pi)
        return torch.cat([length * angle.cos(), length * angle.sin()])[:count].to(dtype)

    def _words(self, count: int) -> Tensor:
        """The stream's next numbers of 63 bits."""
        self._drawn += 1
        stream = hashlib.shake_256(self._key + self._drawn.to_bytes(WIDE, "little")).digest(WIDE * count)
        words = torch.frombuffer(bytearray(stream), dtype=torch.int64) if count else torch.zeros(0, dtype=torch.int64)
        return words & (2**63 - 1)
