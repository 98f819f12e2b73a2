"""A secret in shares: any `threshold` of them give it, fewer tell nothing.

Shamir, "How to Share a Secret", 1979: the secret is a polynomial's value at 0, a share its value at 1, 2, …, modulo a
prime. Whoever draws the polynomial derives it from a secret of its own, so that the same shares come out again.
"""

from collections.abc import Callable, Mapping

PRIME = (1 << 256) + 297
SIZE = 33  # bytes of a share


def threshold(members: int) -> int:
    """How many of so many members it takes: more than two thirds, as against members who lie."""
    return 2 * members // 3 + 1


def split(secret: bytes, count: int, draw: Callable[[int], bytes]) -> list[bytes]:
    """So many shares of 32 bytes; `draw` gives the polynomial's coefficients, of 32 bytes, by their number."""
    degree = threshold(count) - 1
    coefficients = [int.from_bytes(secret, "big"), *(int.from_bytes(draw(power), "big") for power in range(degree))]
    shares = []
    for place in range(1, count + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * place + coefficient) % PRIME
        shares.append(value.to_bytes(SIZE, "big"))
    return shares


def joined(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret behind these shares, by their places from 1; None if there is no such secret."""
    total = 0
    for place, share in shares.items():
        top, bottom = 1, 1
        for other in shares:
            if other != place:
                top, bottom = top * other % PRIME, bottom * (other - place) % PRIME
        total = (total + int.from_bytes(share, "big") * top * pow(bottom, -1, PRIME)) % PRIME
    return total.to_bytes(SIZE, "big")[1:] if total < 1 << 256 else None
