"""What a coordinator remembers of a site's answers, for the day on which the site has lost its own ledger.

line = answered(exchange, asked(message, digest), Update, data)        # in the words of a site's ledger
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

from wardround.core.exchange import Exchange
from wardround.core.record import Message, still_of
from wardround.core.weights import Weights


class Recollection(Protocol):
    """The answers of all sites, over all runs."""

    def head(self, site: str) -> str:
        """The head of the site's ledger, as its last answer had it; nothing if there was none."""

    def note(self, site: str, line: Mapping[str, Any]) -> None:
        """Remember an answer."""

    def all_of(self, site: str) -> bytes:
        """All answers, a line each."""


def asked(message: Message, digest: str) -> dict[str, Any]:
    """A message, by digests and sizes."""
    weights = getattr(message, "weights", None)
    moved = {"weights": weights.digest} if isinstance(weights, Weights) else {}
    return {
        "kind": type(message).__name__,
        "bytes": message.nbytes,
        "digest": digest,
        "still": still_of(message),
        **moved,
    }


def answered(exchange: Exchange, received: Mapping[str, Any], kind: type[Message], data: bytes) -> dict[str, Any]:
    """An answer to what was asked, by digests and sizes."""
    return {
        "attempt": len(exchange.resumed), "round": exchange.round, "exchange": exchange.number, "step": exchange.step,
        "received": dict(received),
        "sent": {"kind": kind.__name__, "bytes": len(data), "digest": hashlib.sha256(data).hexdigest()},
    }  # fmt: skip
