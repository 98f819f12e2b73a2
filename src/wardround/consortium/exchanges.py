"""How often, and where in a run, a site will be asked, before anybody has asked: what its approval is a budget for.

    expected = expected_exchanges(study, examples=1200, sites=3)
    expected.per_round, expected.total(study)
    places = Places.of(study, examples=1200, sites=3)
    places.has(exchange)

Most methods ask once or twice a round. FedNER asks after every batch of all sites together, whose examples no site
knows: the estimate takes the others to be as large as this one.

A coordinator that could choose would ask one round again and again. Before the first round there are a method's opening
steps, once each; in a round each step as often as the method has it, and a few times more where the method itself may
have to ask again; where that number depends on how much others have, only the approval's budget limits it. Evaluations,
one per split, have numbers of their own.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wardround.consortium.forms import read_membership
from wardround.core.exchange import EVALUATION, Exchange
from wardround.runs.errors import RunError
from wardround.study.load import Study

__all__ = ["Expected", "Places", "evaluations", "expected_exchanges", "sites_of"]


@dataclass(frozen=True)
class Expected:
    """How many replies leave a site: before the first round, in each round, and each time the model is tried."""

    start: int
    per_round: int
    evaluation: int
    opening: tuple[str, ...]
    """The steps of the start."""
    steps: Mapping[str, int]
    """How often each step is asked for in a round, a layer's own among them."""
    own: Mapping[str, int]
    """How often each step of a layer's own is asked for with one exchange of the method's."""
    estimated: bool = False
    """Whether that depends on how many examples the others have."""

    def total(self, study: Study) -> int:
        """How many leave in the whole study, once through."""
        return self.start + study.rounds * self.per_round + evaluations(study) * self.evaluation


def evaluations(study: Study) -> int:
    """How often the model is tried: every so many rounds, and after the last."""
    every = study.evaluation.every
    return study.rounds // every + (study.rounds % every > 0)


def expected_exchanges(study: Study, examples: int, sites: int) -> Expected:
    """What a site with so many training examples, of so many sites, will be asked for; others taken to be as large."""
    used = max(round(examples * study.sites.share), 1) * max(sites, 1)
    opening, steps = study.method.opening(), study.method.exchanges(used)
    estimated = steps != study.method.exchanges(8 * used)
    own = {name: times for layer in study.layers for name, times in layer.exchanges().items()}
    each, asks = 1 + sum(own.values()), sum(steps.values())  # replies to one exchange of the method's
    steps = {**steps, **{name: times * asks for name, times in own.items()}}
    tried = len(study.evaluation.splits)
    return Expected(each * len(opening), each * asks, each * tried, opening, steps, own, estimated)


@dataclass(frozen=True)
class Places:
    """The exchanges that a run of a study can have."""

    opening: tuple[str, ...]
    start: int
    """Exchanges before the first round."""
    own: frozenset[str]
    """Steps of a layer's own, which come with every exchange of the method's."""
    steps: Mapping[str, int]
    """How often a round has each step; 0 where nobody can say."""
    most: int
    """Exchanges of a round, without evaluations."""
    moving: bool
    """Whether weights move within a round."""
    tries: int
    """Exchanges of an evaluation: one per split, and what layers add."""
    evaluations: int
    """Of the whole study: what its approval keeps for them cannot be spent on training."""

    @classmethod
    def of(cls, study: Study, examples: int, sites: int) -> "Places":
        """Those of this study, at a site with so many training examples."""
        expected = expected_exchanges(study, examples, sites)
        repeats, own = study.method.repeats, expected.own
        most = EVALUATION - 1 if expected.estimated else expected.per_round + repeats * (1 + sum(own.values()))
        steps = {
            step: 0 if expected.estimated else times + repeats * own.get(step, 1)
            for step, times in expected.steps.items()
        }
        tried = evaluations(study) * expected.evaluation
        return cls(
            expected.opening, expected.start, frozenset(own), steps, most, expected.estimated, expected.evaluation,
            tried,
        )  # fmt: skip

    def has(self, exchange: Exchange) -> bool:
        """Whether a run can have this exchange."""
        own = exchange.step in self.own
        if exchange.step == "evaluate" or (own and exchange.number > EVALUATION):
            return EVALUATION < exchange.number <= EVALUATION + self.tries
        if exchange.round == 0:
            return (own or exchange.step in self.opening) and 1 <= exchange.number <= self.start
        return exchange.step in self.steps and 1 <= exchange.number <= self.most

    def full(self, exchange: Exchange, answered: Iterable[tuple[int, int, str]]) -> bool:
        """Whether this step was answered in this round as often as it has it, each time as another exchange."""
        most = self.steps.get(exchange.step, 0) if exchange.round and exchange.number < EVALUATION else 0
        here = (exchange.round, exchange.step)
        others = {number for round_, number, step in answered if (round_, step) == here and number < EVALUATION}
        return 0 < most <= len(others - {exchange.number})


def sites_of(folder: Path) -> int:
    """How many sites the consortium has, as this site's kit says; 1 without a kit."""
    with suppress(RunError):
        return max(len(read_membership(folder / "kit").sites), 1)
    return 1
