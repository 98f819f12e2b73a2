"""Which documents are set aside for testing and validation: a share of each source, what belongs together whole.

    sides = Sides.of(documents, "", {"test": 0.2}, seed=0)
    sides.of_document(placed)            # "train" or "test"

What stays whole is a *unit*: a patient, a source, or all documents whose texts are nearly equal. Of each source about
the share of its documents is drawn, and one unit at least of two. Sources of one unit are drawn from together, and so
are all if they are many and small (dialogues of three lines): one of each would be far more than the share. The seed
decides, and not the order of the documents. Of each unit a digest is held, no text.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wardround.text.document import Placed
from wardround.text.reading import DataError, digest, near_digest

By = Literal["text", "source", "patient", ""]
FEW = 5  # sources, which may be hospitals however small they are


@dataclass(frozen=True)
class Sides:
    """Where each unit goes that does not stay for training."""

    by: By
    aside: Mapping[bytes, str]

    @classmethod
    def of(cls, documents: Iterable[Placed], by: By, shares: Mapping[str, float], seed: int) -> "Sides":
        """By these shares of all documents."""
        homes, sizes = dict[bytes, str](), Counter[bytes]()
        for placed in documents:
            unit, home = _unit(placed, by), "" if by == "source" else placed.document.source
            homes[unit] = min(homes.get(unit, home), home)  # one that stands in two sources is drawn from the first
            sizes[unit] += 1
        return cls(by, _drawn(homes, sizes, shares, seed))

    def of_document(self, placed: Placed) -> str:
        """Where a document goes."""
        return self.aside.get(_unit(placed, self.by), "train")


def _unit(placed: Placed, by: By) -> bytes:
    """What a document must stay together with; without a source or patient it cannot be said."""
    document = placed.document
    if by == "text" or (not by and not document.whom):
        return near_digest(document.text)
    name = document.source if by == "source" else document.whom
    if not name:
        remedy = f"name its column with --{by}-column, or leave --by out"
        raise DataError(placed.path, placed.line or 1, f"a document without a {by}", remedy)
    return digest(f"{by or 'patient'} {name}")


def _drawn(
    homes: Mapping[bytes, str], sizes: Mapping[bytes, int], shares: Mapping[str, float], seed: int
) -> dict[bytes, str]:
    """By unit, the side that it is drawn for."""
    alone = {home for home, count in Counter(homes.values()).items() if count == 1}
    if len({*homes.values()} - alone) > max(FEW, min(shares.values()) * len(homes)):
        homes = dict.fromkeys(homes, "")
    homes = {unit: "" if home in alone else home for unit, home in homes.items()}
    units: dict[str, list[bytes]] = {}
    for unit in sorted(homes, key=lambda unit: _chance(unit, seed)):
        units.setdefault(homes[unit], []).append(unit)
    whole, aside = {home: sum(sizes[unit] for unit in mine) for home, mine in units.items()}, dict[bytes, str]()
    for side, share in shares.items():
        for home, quota in _quotas(whole, share, seed).items():
            mine = _nearest(units[home], sizes, quota)
            aside |= dict.fromkeys(mine, side)
            units[home] = [unit for unit in units[home] if unit not in aside]
    return aside


def _quotas(sizes: Mapping[str, int], share: float, seed: int) -> dict[str, int]:
    """How many documents of each source are due: its share, rounded so that the sum is the share of all; or one."""
    whole = {home: int(share * size + 1e-9) for home, size in sizes.items()}
    left = int(share * sum(sizes.values()) + 0.5) - sum(whole.values())
    due = sorted(sizes, key=lambda home: (whole[home] - share * sizes[home], _chance(home.encode(), seed)))
    upwards = {*due[:left]}  # the largest remainders
    return {home: max(count + (home in upwards), 1) for home, count in whole.items()}


def _nearest(units: Sequence[bytes], sizes: Mapping[bytes, int], quota: int) -> list[bytes]:
    """The first units that come nearest to so many documents: one at least, and one stays for training."""
    if len(units) < 2:
        return []
    drawn, left = list[bytes](), quota
    for unit in units:
        if len(drawn) < len(units) - 1 and abs(left - sizes[unit]) < left:
            drawn.append(unit)
            left -= sizes[unit]
    return drawn or [min(units, key=lambda unit: sizes[unit])]


def _chance(key: bytes, seed: int) -> bytes:
    """A place in the order of drawing that depends on the key and the seed alone."""
    return hashlib.blake2b(key, digest_size=8, key=str(seed).encode()).digest()
