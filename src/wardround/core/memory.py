"""What one site keeps between rounds, on its own disk.

What a site keeps is a `Private`, one version per exchange: a round that is run again after a crash recalls what it
recalled the first time, also at a site that missed the repetition. What it only holds is gone with the process: a
method that exchanges many times in a round keeps at its end, for the round is run again from its start.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from wardround.core.codec import decode
from wardround.core.exchange import Exchange
from wardround.core.files import seal, unseal, write
from wardround.core.record import Private

P = TypeVar("P", bound=Private)
Version = tuple[int, int, int]
"""When a record was kept: round, number of the exchange, attempt of the run."""

Held = dict[type[Private], list[tuple[Version, Private]]]
"""Records that a process has at hand, by kind, each with the exchange it is of; the newest last."""


class Memory:
    """What one site keeps between rounds, on its own disk."""

    def __init__(self, folder: Path, held: "Held | None" = None) -> None:
        self.folder = folder
        self.held: Held = {} if held is None else held

    def hold(self, record: Private, exchange: Exchange) -> None:
        """Remember the record until the round is over or the process ends; the one before it too, for a repeat."""
        versions = self.held.setdefault(type(record), [])
        now = (exchange.round, exchange.number, len(exchange.resumed))
        versions[:] = [*versions, (now, record)][-2:]

    def keep(self, record: Private, exchange: Exchange) -> None:
        """Store the record as of this exchange; forget versions that no resumed round can ask for."""
        self.held.pop(type(record), None)
        kind, now = type(record), (exchange.round, exchange.number, len(exchange.resumed))
        versions = self._versions(kind)
        write(self._path(kind, now), seal(record.encode()))
        valid = [version for version in versions if _counts(version, exchange) and version[:2] <= now[:2]]
        needed = max((version for version in valid if version[0] <= exchange.settled), default=None)
        for version in versions:
            if version != now and (version not in valid or (needed is not None and version < needed)):
                self._path(kind, version).unlink(missing_ok=True)

    def recall(self, kind: type[P], exchange: Exchange) -> P | None:
        """The newest record of this kind from before this exchange, kept in a round that counts."""
        now = (exchange.round, exchange.number)
        held = [record for version, record in self.held.get(kind, []) if _of_round(version, exchange)]
        if held:
            return cast("P", held[-1])
        version = max((v for v in self._versions(kind) if v[:2] < now and _counts(v, exchange)), default=None)
        return None if version is None else _read(kind, self._path(kind, version))

    def holds(self, kind: type[Private], exchange: Exchange) -> bool:
        """Whether a record of this kind is held from an earlier exchange of this round."""
        return any(_of_round(version, exchange) for version, _ in self.held.get(kind, []))

    def knows(self, kind: type[Private], exchange: Exchange) -> bool:
        """Whether there is a record of this kind from before this exchange."""
        now = (exchange.round, exchange.number)
        return self.holds(kind, exchange) or any(
            version[:2] < now and _counts(version, exchange) for version in self._versions(kind)
        )

    def undo(self, exchange: Exchange) -> None:
        """Forget what was kept or held in an exchange that came to nothing."""
        now = (exchange.round, exchange.number, len(exchange.resumed))
        for versions in self.held.values():
            versions[:] = [(version, record) for version, record in versions if version != now]
        round_, number, attempt = now
        for path in self.folder.glob(f"*-{round_}-{number}{f'-{attempt}' if attempt else ''}.kept"):
            path.unlink(missing_ok=True)

    def _versions(self, kind: type[Private]) -> list[Version]:
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        parts = [name.removesuffix(".kept").split("-") for name in names if name.endswith(".kept")]
        return [
            (int(round_), int(number), int(attempt[0]) if attempt else 0)
            for name, round_, number, *attempt in parts
            if name == kind.__name__
        ]

    def _path(self, kind: type[Private], version: Version) -> Path:
        round_, number, attempt = version
        return self.folder / f"{kind.__name__}-{round_}-{number}{f'-{attempt}' if attempt else ''}.kept"


def _read(kind: type[P], path: Path) -> P:
    if not kind.constant:
        return decode(kind, unseal(path))
    seen = path.stat()  # when it was changed, which no copy brings along
    return cast("P", _at_hand(cast("Any", kind), path, (seen.st_ino, seen.st_ctime_ns, seen.st_size)))


@lru_cache(maxsize=64)
def _at_hand(kind: type[Private], path: Path, _written: tuple[int, int, int]) -> Private:
    return decode(kind, unseal(path))


def _of_round(version: Version, exchange: Exchange) -> bool:
    """Whether a version is of an earlier exchange of this very round, and not of a repetition of it."""
    return (version[0], version[2]) == (exchange.round, len(exchange.resumed)) and version[1] < exchange.number


def _counts(version: Version, exchange: Exchange) -> bool:
    """Whether the run has not since gone back behind the round in which a version was kept."""
    return all(version[0] <= round_ for round_ in exchange.resumed[version[2] :])
