"""Which exchange this is, the chance that belongs to it, and why a site may have no reply to it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

EVALUATION = 10**6  # where the numbers of a round's evaluations begin: after whatever the method did in it


@dataclass(frozen=True)
class Exchange:
    """Which exchange this is: everything that a site must know besides the message."""

    step: str
    round: int
    number: int
    """Counts the exchanges of one round."""
    settled: int
    """The last round that the coordinator cannot have to repeat."""
    seed: int
    resumed: tuple[int, ...] = ()
    """The rounds after which the run was taken up again, in order: what sites did after them did not count."""

    names: tuple[str, ...] = ()
    """Who takes part, where a layer needs to know."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Exchange":
        """The exchange that another process wrote down as plain values; a `ValueError` if that is none."""
        numbers: list[Any] = [plain.get(name) for name in ("round", "number", "settled", "seed")]
        resumed, names = plain.get("resumed") or (), plain.get("names") or ()
        words = [plain.get("step"), *names]
        if not all(isinstance(word, str) for word in words) or any(type(n) is not int for n in (*numbers, *resumed)):
            raise ValueError("this is not an exchange")
        round_, number, settled, seed = numbers
        return cls(str(words[0]), round_, number, settled, seed, tuple(resumed), tuple(names))


@dataclass(frozen=True)
class Fault:
    """Why a site gave no usable reply: a code, and a detail that holds nothing of the site's."""

    code: Literal["failed", "refused", "invalid", "late", "lost"]
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


def seeded(*parts: object) -> int:
    """A 63-bit seed from what it depends on."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
