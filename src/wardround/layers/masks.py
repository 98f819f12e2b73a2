"""Secure aggregation: each reply leaves under masks that cancel out in the sum, and nobody can read it alone.

    [privacy]
    secure_aggregation = true

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017, for few sites that
come back. Site u puts x_u, in whole numbers (`fixed_point`), into exchange i among the members N:

    y_u = x_u + PRG(b_u) + Σ_{v>u} PRG(k_uv) − Σ_{v<u} PRG(k_uv)     k_uv = HKDF(X25519(u, v), run ‖ round ‖ i ‖ N)

1. *meet*: the coordinator hands out the sites' public keys, each signed by its site's own key for this run, and how
   large numbers may be. A site checks the signatures and whom it has pinned.
2. The reply itself: y_u, shares of b_u locked for each other member (any two thirds and one give it), and a signature
   on N, all keys, the place and a commitment to b_u. A place takes no second x_u, for its k_uv are the same.
3. *again*: if a member is lost by now, those who remain send the same x_u once more, under new masks, in 64 bits. What
   was masked before can then no longer be opened.
4. *open*: a site gets the signatures of all of N, and only if each is right it gives b_u and its shares of the others',
   once: what has been in one sum goes into no other, whatever the coordinator says. The k_uv are never given.
5. If the sum says that numbers of somebody's were larger than they may be, the same N sends the same x_u in 64 bits.

So all honest sites have signed the same N before anything is opened, N has `fewest` members at least, and a member that
is lost after that costs nothing while two thirds and one answer. In all runs of a study together, an exchange of a
round is opened for one N only: a model that is hardly another, and a member less, would give that member's reply. What
a delicate message has (`ridge`'s sums, the same in every round) goes into the sum of one N in all rounds together; with
`same_members` so does everything. Why not the shorter way, to repeat without those who are lost after others have
opened: the late answer of one who was only slow, and the two sums, would give its reply.

Whether a number is beyond its range only the sum says, of all members together: whose does not fit puts chance in place
of its numbers of 32 bits, so that the sum has none of anybody's, and of a number that is 0 at the others. A coordinator
that lies about ranges so learns of all sites what the largest number tells, in powers of 16, `RANGES` times in a run.

What saves time, and why it may: agreements are those of the run, kept in the process, while each place derives its own
keys from them; what a site may not do twice is in the ledger's line of the reply, which is on the disk before the reply
leaves, so that it waits for the disk no longer than without masks; its last place waits for none, for after a power cut
that sum is not opened; keys and ranges are handed out again only if a step has other ranges.

What the sum tells, and that somebody takes part, is not hidden; nor is one site from all others together.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from wardround.core.cohort import BelowQuorum, Cohort
from wardround.core.exchange import Exchange
from wardround.core.layer import Layer
from wardround.core.method import Step, on_site
from wardround.core.record import Message
from wardround.core.site import Site
from wardround.layers.fixed_point import STEPS, Encoded, beyond, blurred, decode, encode, widened
from wardround.layers.keys import derived, lock, shift, signed, unlock
from wardround.layers.masked import (
    KEY,
    LOCKED,
    RANGES,
    TICKET,
    Again,
    Key,
    MaskDesk,
    Masked,
    Measured,
    Meeting,
    Met,
    Opened,
    OpenedBefore,
    Opening,
    Place,
    RefusedSum,
    Unpinned,
    accepted,
    box,
    introduction,
    keys_in,
    last_meeting,
    last_place,
    named,
    of_step,
    own_key,
    own_mask,
    remember,
    row,
    rows,
    shared,
    table,
    ticket_of,
)
from wardround.layers.shares import SIZE, split, threshold

ALL = "; with privacy.same_members a sum is of all sites: get these back, and it goes on"
MEETINGS, AFTER = 2, 3  # exchanges of our own before one of the method's, and after it
EACH = MEETINGS + 1 + AFTER  # numbers that one exchange of the method's takes up
POWERS = frozenset(16.0**power for power in range(-STEPS, STEPS + 1))


@dataclass(frozen=True, kw_only=True)
class Masks(Layer):
    """Lets the coordinator see nothing but sums, of `fewest` sites at least."""

    only_sums = "each reply is masked, and masks cancel out in the sum"
    setting = "privacy.secure_aggregation"
    names_cohort = True
    ahead = MEETINGS
    fewest: Annotated[int, Ge(2)] = 3
    same_members: bool = False

    @property
    def quorum(self) -> int:
        """No sum of fewer."""
        return self.fewest

    def carries(self, kind: type[Message]) -> type[Message]:  # noqa: ARG002 -- the same of all
        """Whatever it was leaves masked."""
        return Masked

    def exchanges(self) -> Mapping[str, int]:
        """Keys twice, if somebody is new; the opening; the reply again, if somebody was lost or a number is large."""
        return {self.meet.name: MEETINGS, self.again.name: 1, self.open.name: 2}

    # at a site

    @on_site
    def meet(self, meeting: Meeting, site: Site) -> Key:
        """Look at the others' keys, remember them, and give one's own."""
        vault, own = site.vault, own_key(site)
        if len(meeting.names) != len(meeting.keys) or len({*meeting.names}) != len(meeting.names):
            raise RefusedSum
        others = keys_in(meeting)
        if others.pop(site.name, own) != own:
            raise RefusedSum
        if not all(
            signed(key[32:64], introduction(vault.context, name, key[:64]), key[64:]) for name, key in others.items()
        ):
            raise RefusedSum
        strangers = [name for name, key in others.items() if not vault.trusts(name, key[32:64])]
        if strangers:
            raise Unpinned
        if not {*meeting.ranges.values()} <= POWERS:
            raise RefusedSum
        if taken := accepted(meeting.ranges, vault):
            site.keep(Met(meeting.names, meeting.keys, meeting.ranges))
        return Key(row(own), not taken)

    def leave(self, reply: Message, site: Site) -> Message:
        """Behind masks that the others' take off."""
        exchange = site.exchange
        return self._masked(reply, site, last_meeting(site), exchange.number, exchange.step, 0)

    @on_site
    def again(self, wanted: Again, site: Site) -> Masked:
        """The same numbers behind new masks, if they are still here and this is the first time."""
        place, *_ = last_place(site)
        if site.vault.input is None or wanted.number != place.number or place.attempt:
            raise RefusedSum
        return self._masked(site.vault.input, site, last_meeting(site), place.number, place.step, 1)

    def _masked(self, reply: Message, site: Site, meeting: Meeting, number: int, step: str, attempt: int) -> Masked:
        vault, members, keys = site.vault, site.exchange.names, keys_in(meeting)
        known = set(members) <= keys.keys() and list(members) == sorted({*members})
        if not known or site.name not in members or len(members) < self.fewest:
            raise RefusedSum
        if keys[site.name] != own_key(site):  # put back from a copy, it has new ones, which the others have to hear of
            raise RefusedSum
        place = Place(site.exchange.round, number, step, attempt, members, meeting.digest)
        about, what = place.about(vault), named(reply, vault)
        # The masks between sites are the same whenever this place is: other numbers under them, after a restart, say,
        # would give the difference of both.
        if not vault.choose({vault.digest(b"place", about): what.hex()}):
            raise RefusedSum
        encoded = encode(reply, len(members), {} if attempt else of_step(meeting.ranges, step))
        if encoded.over:  # the others' numbers alone would be a sum without this site's
            chance = derived(vault.secret, b"over", about, what)
            encoded = blurred(encoded, lambda numbers: _shifted(numbers, [chance], []))
        secret = derived(vault.secret, b"self", about, what)
        shares = split(secret, len(members), lambda power: derived(vault.secret, b"%d" % power, about, what))
        commitment = hashlib.sha256(secret).digest()
        pairs = {name: shared(vault, keys[name]) for name in members if name != site.name}
        masks = {name: derived(pair, b"mask", about) for name, pair in pairs.items()}
        locked = [
            lock(derived(pairs[name], b"share", about, commitment), share) if name in pairs else bytes(LOCKED)
            for name, share in zip(members, shares, strict=True)
        ]
        later = [secret, *(mask for name, mask in masks.items() if name > site.name)]
        earlier = [mask for name, mask in masks.items() if name < site.name]
        narrow, wide = _shifted(encoded, later, earlier)
        remember(site, place, what, reply)
        ticket = ticket_of(vault, about, secret) + b"".join(locked)
        return Masked(narrow, wide, encoded.form, members, {site.name: ticket.hex()})

    @on_site
    def open(self, opening: Opening, site: Site) -> Opened:
        """What takes one's own mask off, if all members have signed the same sum, and this is the only one."""
        place, what, delicate = last_place(site)
        vault, meeting, about = site.vault, last_meeting(site), place.about(site.vault)
        keys = keys_in(meeting)
        tickets, locked = rows(opening.tickets), rows(opening.shares)
        if opening.number != place.number or {len(tickets), len(locked)} != {len(place.members)}:
            raise RefusedSum
        if meeting.digest != place.meeting or len(place.members) < self.fewest:
            raise RefusedSum
        secret = derived(vault.secret, b"self", about, what)
        for name, ticket in zip(place.members, tickets, strict=True):
            if name == site.name:  # to sign it again, to the same bytes, takes less than to check it
                genuine = ticket == ticket_of(vault, about, secret)
            else:
                genuine = signed(keys[name][32:64], about + ticket[64:], ticket[:64])
            if not genuine:
                raise RefusedSum
        one, members = json.dumps([place.round, place.step]).encode(), json.dumps(place.members).encode()
        turn = b"%d" % ((place.number - 1) // EACH)  # which exchange of the round, however it is numbered
        anywhere = json.dumps([place.step]).encode() if delicate else one  # such are the same in every round
        sums = [vault.digest(anywhere, what), vault.digest(b"turn", one, turn)]
        if self.same_members:
            sums.append(vault.digest(b"members"))
        if what and not vault.choose(dict.fromkeys(sums, vault.digest(members))):
            raise OpenedBefore
        shares = []
        for name, ticket, share in zip(place.members, tickets, locked, strict=True):
            key = derived(shared(vault, keys[name]), b"share", about, ticket[64:]) if name != site.name else b""
            shares.append((unlock(key, share) if key else None) or bytes(SIZE))
        if place.attempt:
            vault.input = None
        return Opened(row(secret), table(shares, SIZE))

    # at the coordinator

    def prepare(self, step: Step[Any, Any], cohort: Cohort) -> None:
        """Hand out keys and ranges, if somebody has not the last; a second time if somebody is new."""
        before, present = cohort.exchanges, cohort.present
        if len(present) < self.fewest:
            raise BelowQuorum(
                f"round {cohort.round}, {step.name}: {len(present)} sites are left for a sum, and privacy.fewest = "
                f"{self.fewest}: nothing was asked{cohort.reasons}"
            )
        if self.same_members:
            cohort.require(cohort.names, ALL)
        desk = cohort.hub.recall(MaskDesk, MaskDesk((), table([], KEY), (), {}, {}))
        if of_step(desk.ranges, step.name) != of_step(desk.seen, step.name) or not {*present} <= {*desk.met}:
            if desk.ranges != desk.seen:
                seen = desk.seen if desk.handed < RANGES else {}  # from then on all numbers have 64 bits
                desk = replace(desk, seen=seen, handed=desk.handed + 1)
            # Whoever was lost may come back with other keys: it says them anew.
            known = {name: key for name, key in zip(desk.names, rows(desk.keys), strict=True) if name in desk.met}
            meeting, spent = Meeting((), table([], KEY), {}), set[str]()
            for _ in range(MEETINGS):
                names = tuple(name for name in cohort.present if name in known)
                meeting = Meeting(names, table([known[name] for name in names], KEY), desk.seen)
                replies = cohort.ask(self.meet, meeting)
                own = {name: bytes(reply.key.tolist()) for name, reply in replies.items()}
                spent = {name for name, reply in replies.items() if reply.spent}
                if spent:  # a run that was resumed has handed out more than its desk remembers
                    desk = replace(desk, seen={}, handed=RANGES + 1)
                elif all(known.get(name) == key for name, key in own.items()):
                    break
                known |= own
            met = tuple(name for name in meeting.names if name in cohort.present and name not in spent)
            names, keys = tuple(known), table(list(known.values()), KEY)
            cohort.hub.keep(MaskDesk(names, keys, met, meeting.ranges, meeting.ranges, desk.handed))
        cohort.exchanges = before + MEETINGS  # whoever is new: a round that is run again has the same numbers

    def arrive(self, reply: Message, name: str, exchange: Exchange) -> Message:  # noqa: ARG002
        """A site speaks for itself alone."""
        if isinstance(reply, Masked):
            return replace(reply, tickets={name: reply.tickets.get(name, "")})
        return reply

    def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: Cohort) -> Message:
        """The sum, opened; among those who remain, if somebody was lost before all had masked."""
        masked, number, attempt = cast("Masked", total), cohort.exchanges, 0
        desk = cohort.hub.recall(MaskDesk)
        if names != masked.among:
            if self.same_members:
                cohort.require(masked.among, ALL)
            names, attempt = tuple(name for name in names if name in cohort.present), 1
            if len(names) < self.fewest:
                cohort.require(masked.among)
            masked = cohort.total(self.again, {name: Again(number) for name in names})
            cohort.require(names)
        encoded = self._opened(masked, number, names, cohort)
        if over := not attempt and beyond(encoded, len(names)):
            attempt, remedy = 1, "; it was opened for all of them: get these back, and resume"
            cohort.require(names, remedy)
            masked = cohort.total(self.again, {name: Again(number) for name in names})
            cohort.require(names, remedy)
            encoded = self._opened(masked, number, names, cohort)
        ranges = {} if attempt else of_step(desk.ranges, step.name)
        try:
            reply: Message = decode(step.reply, encoded, len(names), ranges)
        except ValueError as error:
            raise BelowQuorum(f"round {cohort.round}, {step.name}: the sum is not used, for {error}") from None
        for name in set(names) & cohort.left_out.keys():  # lost when all had signed: the others have opened for it
            cohort.left_out[name] += f"; its {step.name} is in the sum"
        met, seen = tuple(name for name in desk.met if name in cohort.present), desk.seen
        measured = cohort.hub.recall(Measured, Measured(())).steps
        if desk.handed <= RANGES and (attempt or step.name not in measured):
            new = widened(replace(encoded, over=over), reply, len(names), of_step(seen, step.name))
            seen = {**seen, **{f"{step.name} {name}": most for name, most in new.items()}}
            cohort.hub.hold(Measured((*measured, step.name)))
        if (met, seen) != (desk.met, desk.seen):
            cohort.hub.keep(replace(desk, met=met, seen=seen))
        cohort.exchanges = number + AFTER
        return reply

    def _opened(self, masked: Masked, number: int, names: tuple[str, ...], cohort: Cohort) -> Encoded:
        """The sum without its members' own masks."""
        try:
            tickets = {name: bytes.fromhex(masked.tickets[name]) for name in names}
        except (KeyError, ValueError):
            tickets = {}
        size = TICKET + len(names) * LOCKED
        if wrong := sorted(name for name in names if len(tickets.get(name, b"")) != size):
            raise BelowQuorum(f"round {cohort.round}: {', '.join(wrong[:5])} signed no sum; nothing was opened")
        signatures = table([tickets[name][:TICKET] for name in names], TICKET)
        openings = {
            name: Opening(number, signatures, table([box(tickets[other], place) for other in names], LOCKED))
            for place, name in enumerate(names)
        }
        replies = cohort.ask(self.open, openings)
        secrets = [own_mask(place, tickets[name][64:TICKET], name, names, replies) for place, name in enumerate(names)]
        if lost := [name for name, secret in zip(names, secrets, strict=True) if secret is None]:
            need = threshold(len(names))
            raise BelowQuorum(
                f"round {cohort.round}: {len(replies)} of {len(names)} sites opened their sum, and it takes {need} to "
                f"open it for {', '.join(lost[:5])}; nothing was seen{cohort.reasons}"
            )
        opened = Encoded(masked.narrow, masked.wide, masked.form)
        narrow, wide = _shifted(opened, [], cast("list[bytes]", secrets))
        return Encoded(narrow, wide, masked.form)


def _shifted(numbers: Encoded, add: Sequence[bytes], subtract: Sequence[bytes]) -> tuple[Tensor, Tensor]:
    """The numbers with masks put on or taken off; the stream of a key goes on from one width to the other."""
    small, large = numbers.narrow.numpy().astype(np.uint32), numbers.wide.numpy().astype(np.uint64)
    shift([small, large], [derived(key, b"stream") for key in add], [derived(key, b"stream") for key in subtract])
    return torch.from_numpy(small.view(np.int32)), torch.from_numpy(large.view(np.int64))


def of_all(layers: Iterable[Layer]) -> bool:
    """Whether these layers let a sum be of all sites only."""
    return any(isinstance(layer, Masks) and layer.same_members for layer in layers)
