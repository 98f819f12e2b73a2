"""What crosses the wire for a masked sum, what it is bound to, and the bytes in it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import ClassVar, Self

import torch
from torch import Tensor

from wardround.core.codec import plan, raw
from wardround.core.layer import Withheld
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.vault import Vault
from wardround.core.weights import Weights
from wardround.layers.keys import AGREED, TAG, BadKey, agreed, derived, identity_of, public_half, sign
from wardround.layers.shares import SIZE, joined, threshold

KEY = 128
"""Bytes of a site's keys: for masks, by which it is known, and the signature."""
TICKET = 96
"""Of its signature on a sum, and of its commitment to a mask."""
LOCKED = SIZE + TAG
"""Of a share that is locked for another."""
RANGES = 32
"""Tables of ranges that a site takes in a run."""
TRIES = 100
"""Sets of shares that are tried where some are false."""


class RefusedSum(Withheld):
    """A sum is not as this site agreed to: its members, its keys, its place, or a second one of the same numbers."""

    code = "sum"


class OpenedBefore(Withheld):
    """This exchange of the round was opened for other members: two sums would tell the reply of one who is missing."""

    code = "opened"


class Unpinned(Withheld):
    """The key of another site is not the one that this site has pinned."""

    code = "unpinned"


class Meeting(Message):
    """Who may be in a sum: the sites' public keys, and how large their numbers may be."""

    names: tuple[str, ...] = reveals("who takes part")
    keys: Tensor = reveals("nothing; public keys and their signatures", shape=("any", KEY), dtype=torch.uint8)
    ranges: dict[str, float] = reveals("how large the numbers of the last sum were")

    @cached_property
    def digest(self) -> str:
        """A name for it: what all members have to have been handed."""
        return hashlib.sha256(self.encode()).hexdigest()


class Key(Message):
    """A site's public keys for this run, signed with its own: no number of the site's is behind them."""

    key: Tensor = reveals("nothing; public keys and a signature", shape=(KEY,), dtype=torch.uint8)
    spent: bool = reveals("nothing of the site; whether it was handed too many different ranges in this run")


class Masked(Message):
    """A reply that nobody can read alone: masks lie on each number, and cancel out in the sum of all members."""

    alone: ClassVar[bool] = False

    narrow: Tensor = reveals("nothing alone; in the sum, what the step's own message says", shape=("any",),
                             dtype=torch.int32)  # fmt: skip
    wide: Tensor = reveals("nothing alone; in the sum, what the step's own message says", shape=("any",),
                           dtype=torch.int64)  # fmt: skip
    form: str = reveals("where each number belongs, the same at all sites")
    among: tuple[str, ...] = reveals("who takes part")
    tickets: dict[str, str] = reveals("nothing; a signature, and shares of the mask that the others alone can read")

    def __add__(self, other: Self) -> Self:
        """The sum; numbers of 32 bits go modulo 2³² as they are, since masks do."""
        if self.narrow.shape != other.narrow.shape:
            raise ValueError("narrow has another shape at another site and cannot be added")
        mine, theirs = replace(self, narrow=self.narrow[:0]), replace(other, narrow=other.narrow[:0])
        return replace(Message.__add__(mine, theirs), narrow=self.narrow + other.narrow)


class Again(Message):
    """That the last reply is wanted once more, behind new masks, for a sum of those who remain."""

    number: int = reveals("nothing; the number of an exchange")


class Opening(Message):
    """That a sum is complete: all its members' signatures, and the shares that they have locked for the receiver."""

    number: int = reveals("nothing; the number of an exchange")
    tickets: Tensor = reveals("nothing; signatures", shape=("any", TICKET), dtype=torch.uint8)
    shares: Tensor = reveals("nothing; shares of masks", shape=("any", LOCKED), dtype=torch.uint8)


class Opened(Message):
    """What takes the site's own mask off the sum, and its shares of the others': the masks between sites stay on."""

    own: Tensor = reveals("nothing but the sum", shape=(32,), dtype=torch.uint8)
    shares: Tensor = reveals("nothing but the sum", shape=("any", SIZE), dtype=torch.uint8)


class Met(Private):
    """What a site was last handed: as a `Meeting` has it."""

    constant: ClassVar[bool] = True
    names: tuple[str, ...]
    keys: Tensor
    ranges: dict[str, float]

    @cached_property
    def meeting(self) -> Meeting:
        """The same as it came."""
        return Meeting(self.names, self.keys, self.ranges)


class MaskDesk(Private):
    """What the coordinator knows of keys and ranges."""

    constant: ClassVar[bool] = True
    names: tuple[str, ...]
    keys: Tensor
    met: tuple[str, ...]
    """Who has the last meeting's."""
    ranges: dict[str, float]
    """As they were handed out."""
    seen: dict[str, float]
    """As they will be."""
    handed: int = 0
    """How many different ones were handed out."""


class Measured(Private):
    """The steps whose ranges the coordinator has measured in this round."""

    steps: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Which sum this is: what every mask, signature and share is bound to."""

    round: int
    number: int
    step: str
    attempt: int
    members: tuple[str, ...]
    meeting: str
    """The digest of the keys that were handed out."""

    def about(self, vault: Vault) -> bytes:
        """The same as bytes, for this study and run."""
        return json.dumps(["sum", vault.context, *vars(self).values()]).encode()


# keys


def own_key(site: Site) -> bytes:
    """The site's keys, signed for this run and under its name."""
    vault = site.vault
    return _introduced(vault.signing, vault.secret, vault.context, site.name)


@lru_cache(maxsize=AGREED)  # the same in every exchange of a run
def _private(secret: bytes) -> bytes:
    return derived(secret, b"key")


@lru_cache(maxsize=AGREED)
def _introduced(signing: bytes, secret: bytes, context: str, name: str) -> bytes:
    both = public_half(_private(secret)) + identity_of(signing)
    return both + sign(signing, introduction(context, name, both))


def introduction(context: str, name: str, both: bytes) -> bytes:
    """What a site signs of its keys."""
    return json.dumps(["key", context, name, both.hex()]).encode()


def shared(vault: Vault, theirs: bytes) -> bytes:
    """What this site and another both know, in this run."""
    try:
        return agreed(_private(vault.secret), theirs[:32])
    except BadKey:
        raise RefusedSum from None


def ticket_of(vault: Vault, about: bytes, secret: bytes) -> bytes:
    """A site's signature on a sum, and on its commitment to its mask."""
    commitment = hashlib.sha256(secret).digest()
    return sign(vault.signing, about + commitment) + commitment


def own_mask(
    place: int, commitment: bytes, name: str, names: Sequence[str], replies: Mapping[str, Opened]
) -> bytes | None:
    """A member's mask as it gave it, or as the others have it in shares."""
    if name in replies and _fits(own := bytes(replies[name].own.tolist()), commitment):
        return own
    shares = {
        index: given[place]
        for index, other in enumerate(names, 1)
        if other != name and other in replies and len(given := rows(replies[other].shares)) == len(names)
    }
    for _, chosen in zip(range(TRIES), combinations(shares, threshold(len(names))), strict=False):
        secret = joined({index: shares[index] for index in chosen})
        if secret is not None and _fits(secret, commitment):
            return secret
    return None


def _fits(secret: bytes, commitment: bytes) -> bool:
    return hashlib.sha256(secret).digest() == commitment


# what a site remembers


def accepted(ranges: Mapping[str, float], vault: Vault) -> bool:
    """Whether these are among the first tables of ranges that the site is handed in this run."""
    chosen, run = vault.digest(json.dumps(ranges, sort_keys=True).encode()), vault.context.encode()
    slots = (vault.digest(b"ranges", run, b"%d" % number) for number in range(RANGES))
    return not ranges or any(vault.choose({slot: chosen}) for slot in slots)


def last_meeting(site: Site) -> Meeting:
    """The keys that it was last handed."""
    held = site.holds(Met)
    if not held and not site.knows(Met):
        raise RefusedSum
    met = site.recall(Met)
    if not held:
        site.hold(met)  # for the rest of the round
    return met.meeting


def remember(site: Site, place: Place, what: bytes, reply: Message) -> None:
    """That these numbers were put into this sum, and no longer into one before it."""
    site.vault.put("last", json.dumps([vars(place), what.hex(), type(reply).delicate]).encode())
    site.vault.input = reply


def last_place(site: Site) -> tuple[Place, bytes, bool]:
    """The sum that it last put numbers into, a name for these, and whether they are of a delicate message."""
    if not (data := site.vault.get("last")):
        raise RefusedSum
    fields, what, delicate = json.loads(data)
    place = Place(**{**fields, "members": tuple(fields["members"])})
    if place.round != site.exchange.round:
        raise RefusedSum
    return place, bytes.fromhex(what), delicate


def named(reply: Message, vault: Vault) -> bytes:
    """A name for these numbers that the site alone can give; none for nothing but zeros, which tell nothing."""
    values = [value.flat if isinstance(value, Weights) else value for value in vars(reply).values()]
    if not any(bool(value.any()) if isinstance(value, Tensor) else value for value in values):
        return b""
    header, tensors = plan(reply)
    return bytes.fromhex(vault.digest(header, *map(raw, tensors)))


# bytes


def keys_in(meeting: Meeting) -> dict[str, bytes]:
    """The keys that a meeting hands out, by site."""
    return dict(zip(meeting.names, rows(meeting.keys), strict=True))


def of_step(ranges: Mapping[str, float], step: str) -> dict[str, float]:
    """The ranges of one step's tensors."""
    return {name.removeprefix(f"{step} "): most for name, most in ranges.items() if name.startswith(f"{step} ")}


def rows(tensor: Tensor) -> list[bytes]:
    """The rows of a table of bytes."""
    return [bytes(row) for row in tensor.numpy()]


def row(data: bytes) -> Tensor:
    """Bytes as a tensor."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def table(data: Sequence[bytes], size: int) -> Tensor:
    """Rows of so many bytes as a tensor."""
    return row(b"".join(data)).view(-1, size) if data else torch.zeros(0, size, dtype=torch.uint8)


def box(ticket: bytes, place: int) -> bytes:
    """The share that a ticket has for the member at this place."""
    return ticket[TICKET + place * LOCKED :][:LOCKED]
