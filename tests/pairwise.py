"""A user's own layer with all that secure aggregation needs: keys before the sum, names and state at both ends.

Each pair of sites agrees on a seed; one adds the noise that comes of it, the other takes it off. The keys are no secret
here: it is the seam that is tried, not the cipher.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch

from wardround.extend import Cohort, Layer, Message, Private, Site, Step, flattened, on_site, restored, reveals


class Hello(Message):
    """Nothing but a greeting."""


class Key(Message):
    """A site's public key."""

    value: int = reveals("nothing; it is drawn by chance")


class Keys(Message):
    """The public keys of those who take part."""

    values: dict[str, int] = reveals("who takes part")


class Agreed(Message):
    """That a site has the keys."""

    sites: int = reveals("nothing; it is 1")


class Masked(Message):
    """Numbers behind masks that cancel out in the sum."""

    numbers: torch.Tensor = reveals("nothing alone", shape=("any",), dtype=torch.float64)
    form: str = reveals("where each number belongs")


class Secret(Private):
    """A site's key, made once a run."""

    value: int


class Known(Private):
    """The public keys that a site, or the coordinator, has seen."""

    values: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Pairwise(Layer):
    """Masks that cancel out in pairs."""

    only_sums = "each reply is masked"
    names_cohort = True

    def carries(self, _: type[Message]) -> type[Message]:
        """Whatever it was leaves masked."""
        return Masked

    def prepare(self, step: Step[Any, Any], cohort: Cohort) -> None:  # noqa: ARG002 -- the same for all
        """Ask those for their key who have not given one in this run; tell everybody the others'."""
        known = dict(cohort.hub.recall(Known, Known({})).values)
        if new := {name: Hello() for name in cohort.present if name not in known}:
            known |= {name: key.value for name, key in cohort.ask(self.introduce, new).items()}
            cohort.hub.keep(Known(known))
        cohort.total(self.agree, Keys({name: known[name] for name in cohort.present}))

    @on_site
    def introduce(self, _hello: Hello, site: Site) -> Key:
        """Make a key and keep it."""
        site.keep(Secret(int(torch.randint(1 << 30, (), generator=site.rng))))
        return Key(site.recall(Secret).value)

    @on_site
    def agree(self, keys: Keys, site: Site) -> Agreed:
        """Remember the others' keys for the next exchange."""
        assert keys.values[site.name] == site.recall(Secret).value  # the key of this run, also after a crash
        assert set(keys.values) == set(site.exchange.names)
        site.hold(Known(keys.values))
        return Agreed(1)

    def leave(self, reply: Message, site: Site) -> Message:
        """Add a mask for each later name, take one off for each earlier."""
        numbers, form = flattened(reply)
        keys, exchange = site.recall(Known).values, site.exchange
        assert set(keys) == set(exchange.names)
        for other in exchange.names:
            if other != site.name:
                seed = (keys[site.name] ^ keys[other]) + 1000 * exchange.round + exchange.number
                mask = torch.randn(len(numbers), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
                numbers = numbers + mask if other > site.name else numbers - mask
        return Masked(numbers, form)

    def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: Cohort) -> Message:
        """All masks are gone, if nobody else is."""
        assert set(names) == set(cohort.present)
        masked = cast("Masked", total)
        whole = masked.numbers.round()  # counts are whole again, whatever the masks have rounded
        numbers = torch.where((masked.numbers - whole).abs() < 1e-9, whole, masked.numbers)
        return cast("Message", restored(step.reply, numbers, masked.form))
