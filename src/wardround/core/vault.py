"""What a site keeps from its coordinator: its secrets, whom it trusts, and what it has given away once and for all.

A layer whose sites do not trust the coordinator finds it at `site.vault`. What is put here is not undone when the
coordinator says that a reply did not arrive, as what a site keeps is: whoever may say so could have a site forget what
it gave away. This one lives as long as its process and its secrets are anybody's, as in a simulation; a hospital's
(`wardround.consortium.identity`) is on its disk.
"""

import hashlib
import hmac
from collections.abc import Mapping

from wardround.core.record import Message


class Vault:
    """The secrets of one site, and its memory of what may not happen twice."""

    def __init__(self, signing: bytes, secret: bytes, context: str = "") -> None:
        self.signing = signing
        """The private key by which the others know this site, in all studies."""
        self.secret = secret
        """What keys of this run are derived from."""
        self.context = context
        """The study and the run: what was made for another is worth nothing here."""
        self.input: Message | None = None
        """What the site has last put into a sum, until it cannot be wanted again."""
        self.slots: dict[str, bytes] = {}
        self.choices: dict[str, str] = {}
        """What was chosen once and for all, in whichever run."""
        self.new: dict[str, str] = {}
        """What was chosen in this exchange: a hospital writes it down together with its reply, before that leaves."""

    @classmethod
    def simulated(cls, name: str, seed: int) -> "Vault":
        """The vault of a site that one machine plays: the same in each of its processes."""
        signing, secret = (hashlib.sha256(f"{part}/{seed}/{name}".encode()).digest() for part in ("signing", "secret"))
        return cls(signing, secret)

    def put(self, slot: str, data: bytes) -> None:
        """Remember this in place of what the slot had."""
        self.slots[slot] = data

    def get(self, slot: str) -> bytes:
        """What the slot has, or nothing."""
        return self.slots.get(slot, b"")

    def trusts(self, name: str, identity: bytes) -> bool:  # noqa: ARG002 -- nobody else is here
        """Whether this public key is that of the site of this name, as far as this one cares."""
        return True

    def choose(self, choices: Mapping[str, str]) -> bool:
        """Whether all of these stand, each the first for its key or the same again; what leaves is bound to them."""
        stands = all(self.new.get(what, self.choices.get(what, choice)) == choice for what, choice in choices.items())
        if stands:
            self.new |= {what: choice for what, choice in choices.items() if what not in self.choices}
        return stands

    def digest(self, *parts: bytes | memoryview) -> str:
        """A name for these bytes that tells nothing to whoever has not the key; the same in all runs."""
        whole = hmac.new(self.signing, digestmod=hashlib.blake2b)
        for part in parts:
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
        return whole.hexdigest()[:64]
