"""The chance that differential privacy stands on: draws that nobody can foretell who does not have the key.

    chance = Chance(key, secret=True)
    chance.uniform(100); chance.normal(100)

The seed of a study is public, and torch's generator can be worked out from what it has drawn (whoever sees the noise of
a word that no note has sees just that). So at a real site the draws come from a key of its own, stretched by AES-256 in
counter mode: as hard to foretell as the key is to guess. The same key gives the same draws, so that a question that is
asked again gets the same answer. A simulation draws from the study's seed by torch's generator, which is faster.
"""

import hashlib
import math

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

WIDE = 8  # bytes of a number
AHEAD = 2**14  # draws that are made together: few at a time take longer to ask for than to make
MERSENNE, MERSENNE_AT = 624, 24  # the numbers of torch's generator on a CPU, 8 bytes for each, and where they begin


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
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._ahead = torch.empty(0)
        seed = int.from_bytes(key[:WIDE], "little") >> 1
        self._open = None if secret else torch.Generator().manual_seed(seed)

    def uniform(self, count: int) -> Tensor:
        """Numbers from 0 to 1, 1 excluded (count,), in double precision."""
        if self._open is not None:
            return torch.rand(count, generator=self._open, dtype=torch.float64)
        return self._stream(count)

    def torch_state(self) -> Tensor | None:
        """A state for torch's generator, drawn whole: of a seed torch takes 32 bits, and all of these could be tried.

        None of draws from a study's seed, which will do.
        """
        if self._open is not None:
            return None
        state = torch.Generator().manual_seed(0).get_state()
        drawn = (self._stream(MERSENNE) * 2**32).long().view(torch.uint8)
        state[MERSENNE_AT : MERSENNE_AT + len(drawn)] = drawn
        return state

    def normal(self, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Numbers with mean 0 and variance 1 (count,)."""
        if self._open is not None:
            return torch.randn(count, generator=self._open, dtype=dtype)
        if len(self._ahead) < count or self._ahead.dtype != dtype:
            self._ahead = self._normal(count * max(AHEAD // max(count, 1), 1), dtype)
        drawn, self._ahead = self._ahead[:count], self._ahead[count:]
        return drawn

    def _normal(self, count: int, dtype: torch.dtype) -> Tensor:
        first, angle = self._stream(count + count % 2).chunk(2)  # Box and Muller 1958
        length = first.neg_().add_(1).log_().mul_(-2).sqrt_()
        angle.mul_(2 * math.pi)
        drawn = torch.empty(2 * len(length), dtype=dtype)
        torch.mul(length, angle.cos(), out=drawn[: len(length)])
        torch.mul(length, angle.sin_(), out=drawn[len(length) :])
        return drawn[:count]

    def _stream(self, count: int) -> Tensor:
        """The stream's next numbers from 0 to 1, 1 excluded, of 53 bits each."""
        stream = np.frombuffer(self._cipher.update(bytes(WIDE * count)), dtype="<u8")
        return torch.from_numpy((stream >> 11).astype(np.float64)).mul_(2.0**-53)
