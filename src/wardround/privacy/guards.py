"""From `[privacy.dp]` to the guard of each exchange: a site's plan, its chance and its journal.

    guards = Guards.of(study, mark, source, journal)
    Host(…, guards=guards)

A site's plan follows from the study and from the noisy number of its units: sampling rate q = batch / n (rounded up to
two digits), steps, and the noise with which all rounds together cost ε. The number costs a twentieth of ε, once.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from wardround import __version__
from wardround.core.chance import Chance, key_of
from wardround.core.private_steps import Guard, Look, Plan
from wardround.core.site import HUB, Site
from wardround.core.task import Units
from wardround.core.training import LocalTraining
from wardround.privacy.accounting import noise_for
from wardround.privacy.journal import SIZE, BudgetJournal, Entry
from wardround.study.load import Study
from wardround.study.outline import DPTable

SIZE_SHARE = 0.05  # of ε, for the number of units


@dataclass(frozen=True)
class Source:
    """Where a site's chance comes from: a secret of its own and what it stands for, or the study's public seed."""

    key: bytes
    hidden: bool

    @classmethod
    def seeded(cls, seed: int) -> "Source":
        """Of a simulation: the same seed gives the same bits."""
        return cls(key_of("simulation", seed), hidden=False)

    def draw(self, *parts: object) -> Chance:
        """The chance that belongs to these parts."""
        return Chance(key_of(self.key, *parts), secret=self.hidden)


@dataclass(frozen=True)
class Terms:
    """What a study asks of every site's training."""

    dp: DPTable
    trainings: int
    """In how many exchanges a site trains."""
    evaluations: int
    """How often each split is counted, at most."""
    method: LocalTraining

    @classmethod
    def of(cls, study: Study) -> "Terms":
        """The terms of this study, which has `[privacy.dp]`."""
        dp, method, every = study.dp, cast("LocalTraining", study.method), study.evaluation.every
        assert dp is not None  # noqa: S101 -- the caller has looked
        evaluations = study.rounds // every + bool(study.rounds % every)
        trainings = method.trainings(study.rounds, evaluations * len(study.evaluation.splits))
        return cls(dp, trainings, evaluations, method)

    def plan(self, size: int) -> Plan:
        """How a site with about so many units trains and counts."""
        dp, size, batch = self.dp, max(size, 1), self.method.per_step
        rate = rounded_up(min(batch / size, 1.0)) if batch else 1.0
        steps = self.method.steps_at_once(rate)
        noise = noise_for(dp.epsilon * (1 - SIZE_SHARE), dp.delta, rate, steps * self.trainings)
        counted = noise_for(dp.epsilon, dp.delta, 1.0, self.evaluations) if dp.evaluation == "noised" else 0.0
        return Plan(dp.clip, noise, rate, steps, size, dp.count_clip, counted)

    @property
    def size_cost(self) -> float:
        """The ε of the number of units."""
        return SIZE_SHARE * self.dp.epsilon

    def noisy_size(self, units: int, chance: Chance) -> int:
        """The number of units with Laplace noise of scale 1 / ε (Dwork et al. 2006); at least 1."""
        centred = float(chance.uniform(1)[0]) - 0.5
        noise = -math.copysign(math.log1p(-2 * abs(centred)), centred) / self.size_cost
        return max(round(units + noise), 1)


def rounded_up(rate: float) -> float:
    """A rate with two digits, not below it: sites of about one size then share the work of finding their noise."""
    if rate >= 1:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return min(math.ceil(rate / unit - 1e-9) * unit, 1.0)


@dataclass(frozen=True)
class Guards:
    """Makes the guard of an exchange at any site of one study."""

    terms: Terms
    study: str
    """The study's hash."""
    name: str
    run: str
    source: Source
    journal: Callable[[str], BudgetJournal]
    """The journal of a site, by its name."""
    data: str = ""
    """What stands for a real site's data."""

    def __call__(self, site: Site) -> Guard | None:
        """The guard of this exchange; at the coordinator's desk, which has public examples alone, there is none."""
        if site.name == HUB:
            return None
        units, exchange = cast("Units", site.data.units), site.exchange
        message = site.received.encode() if site.received is not None else b""
        place = (self.run, site.name, exchange.round, exchange.number, exchange.step, message)
        plan, spent = self.plan(site.name, units), Counter[str]()
        # After an upgrade a question may be answered by other code, or under more or less noise: of two answers under
        # the same draws, the notes could be worked out.
        build = (__version__, plan) if self.source.hidden else ()

        def question() -> tuple[object, ...]:
            """What the reply depends on, with all that the site has recalled for it."""
            # A coordinator that goes back in a run has a site recall another state: under the same noise, the
            # difference of two replies would be without any.
            states = (record.encode() for _, record in sorted(site.recalled.items()))
            return (*place, *build, *states)

        def draw(what: str) -> Chance:
            return self.source.draw(*question(), what)

        def spend(look: Look) -> None:
            planned = self.terms.trainings if look.kind == "train" else self.terms.evaluations
            spent[look.kind] += 1
            times = (
                (spent[look.kind],) if spent[look.kind] > 1 else ()
            )  # a second look has noise of its own, and a price
            key = key_of(self.source.key, *question(), look.kind, *times).hex()
            self.journal(site.name).spend(self._entry(key, look, planned))

        return Guard(plan, units, draw, spend)

    def greet(self, name: str, plan: Plan) -> None:
        """Pay for the number of units, which is told before a run; `Overspent` if a new one could not even begin."""
        key = key_of(self.source.key, SIZE, self.study, name).hex()
        first = self._entry("", Look("train", plan.noise, plan.rate, plan.steps), self.terms.trainings)
        self.journal(name).greet(self._entry(key, Look(SIZE, 0.0, 0.0, 0), 1), first)

    def _entry(self, key: str, look: Look, planned: int) -> Entry:
        dp, size = self.terms.dp, self.terms.size_cost
        return Entry(
            self.study[:16], self.name, self.run, key, look, planned, dp.epsilon, dp.delta, size, dp.unit,
            self.data,
        )  # fmt: skip

    def plan(self, name: str, units: Units) -> Plan:
        """The site's plan: the same in every round of a study, and in every run of it on the same notes."""
        return self.terms.plan(self.terms.noisy_size(units.count, self.source.draw("size", self.study, name)))
