"""How often, and where in a run, a site will be asked, before anybody has asked: what its approval is a budget for.

    expected = expected_exchanges(study, examples=1200, sites=3)
    expected.per_round, expected.total(study), expected.has(exchange)

Most methods ask once or twice a round. FedNER asks after every batch of all sites together, whose examples no site
knows: the estimate takes the others to be as large as this one.

A coordinator that could choose would ask one round again and again. Before the first round there are a method's opening
steps, once each; in a round each step as often as the method has it, and a few times more where the method itself may
have to ask again; where that number depends on how much others have, only the approval's budget limits it. Evaluations,
one per split, have numbers of their own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wardround.consortium.forms import read_membership
from wardround.core.cohort import Seen
from wardround.core.exchange import EVALUATION, Exchange
from wardround.core.layer import first_number
from wardround.runs.errors import RunError
from wardround.study.load import Study


@dataclass(frozen=True)
class Expected:
    """How many replies leave a site: before the first round, in each round, and each time the model is tried."""

    start: int
    per_round: int
    evaluation: int
    evaluations: int
    """How often the model is tried in the whole study: every so many rounds, and after the last."""
    opening: tuple[str, ...]
    """The steps of the start."""
    steps: Mapping[str, int]
    """How often each step is asked for in a round, a layer's own among them."""
    own: Mapping[str, int]
    """How often each step of a layer's own is asked for with one exchange of the method's."""
    repeats: int = 0
    """How often the method may ask a step of a round once more."""
    first: int | None = None
    """The number of a round's first exchange of the method's, where weights move within a round."""
    estimated: bool = False
    """Whether that depends on how many examples the others have."""

    @property
    def tried(self) -> int:
        """Replies to all evaluations: what an approval keeps for them cannot be spent on training."""
        return self.evaluations * self.evaluation

    def total(self, study: Study) -> int:
        """How many leave in the whole study, once through."""
        return self.start + (1 if study.method.once else study.rounds) * self.per_round + self.tried

    def has(self, exchange: Exchange) -> bool:
        """Whether a run can have this exchange."""
        own = exchange.step in self.own
        if exchange.step == "evaluate" or (own and exchange.number > EVALUATION):
            return EVALUATION < exchange.number <= EVALUATION + self.evaluation
        if exchange.round == 0:
            return (own or exchange.step in self.opening) and 1 <= exchange.number <= self.start
        most = EVALUATION - 1 if self.estimated else self.per_round + self.repeats * (1 + sum(self.own.values()))
        return exchange.step in self.steps and 1 <= exchange.number <= most

    def full(self, exchange: Exchange, numbers: Mapping[tuple[int, str], Iterable[int]]) -> bool:
        """Whether this step was answered in this round as often as it has it, each time as another exchange.

        A round that is run again has the same numbers. If a restart could give a step another one, its replies could be
        summed up once more, without one site (`masks`).
        """
        step, round_ = exchange.step, exchange.round
        if self.estimated or step not in self.steps or not round_ or exchange.number >= EVALUATION:
            return False
        most = self.steps[step] + self.repeats * self.own.get(step, 1)
        others = {number for number in numbers.get((round_, step), ()) if number < EVALUATION}
        return 0 < most <= len(others - {exchange.number})


def expected_exchanges(study: Study, examples: int, sites: int) -> Expected:
    """What a site with so many training examples, of so many sites, will be asked for; others taken to be as large."""
    method, every = study.method, study.evaluation.every
    used = max(round(examples * study.sites.share), 1) * max(sites, 1)
    opening, steps = method.opening(), method.exchanges(used)
    estimated = steps != method.exchanges(8 * used)
    own = {name: times for layer in study.layers for name, times in layer.exchanges().items()}
    each, asks = 1 + sum(own.values()), sum(steps.values())  # replies to one exchange of the method's
    moves = estimated or any(times > 1 for times in steps.values())  # a step is asked again because weights have moved
    steps = {**steps, **{name: times * asks for name, times in own.items()}}
    tried, evaluations = len(study.evaluation.splits), -(-study.rounds // every)
    return Expected(
        each * len(opening), each * asks, each * tried, evaluations, opening, steps, own, method.repeats,
        first_number(study.layers) if moves else None, estimated,
    )  # fmt: skip


@dataclass(frozen=True)
class Leaving:
    """So many replies, of so many bytes together."""

    replies: int = 0
    bytes: int = 0

    def __add__(self, other: "Leaving") -> "Leaving":
        """Both."""
        return Leaving(self.replies + other.replies, self.bytes + other.bytes)

    def __mul__(self, times: int) -> "Leaving":
        """As much so many times."""
        return Leaving(self.replies * times, self.bytes * times)


@dataclass(frozen=True)
class Forecast:
    """What leaves a site in a run in which nobody is lost, by a rehearsal of it."""

    start: Leaving
    per_round: Leaving
    evaluation: Leaving
    once: Leaving
    """What the first rounds have beyond the others: keys, and numbers whose range nobody knows yet."""
    total: Leaving


def forecast(study: Study, expected: Expected, seen: Sequence[Seen]) -> Forecast:
    """What leaves, if every exchange is as the last of its step in the rehearsal, and the first ones as they were."""
    last = {one.step: one.reply.nbytes for one in seen}
    between: list[Counter[str]] = []  # a layer's own after each exchange of the method's, before the next
    for one in seen:
        if one.step not in expected.own:
            between.append(Counter())
        elif between:
            between[-1][one.step] += 1
    usual = {step: min((own[step] for own in between), default=0) for step in expected.own}
    own = Leaving(sum(usual.values()), sum(last.get(step, 0) * times for step, times in usual.items()))

    def of(step: str) -> Leaving:
        return Leaving(1, last.get(step, 0)) + own

    asked = {step: times for step, times in expected.steps.items() if step not in expected.own}
    start = sum(map(of, expected.opening), Leaving())
    per_round = sum((of(step) * times for step, times in asked.items()), Leaving())
    evaluation = of("evaluate") * len(study.evaluation.splits)
    once = Leaving()
    if expected.own:
        as_usual = sum((of(one.step) for one in seen if one.step not in expected.own), Leaving())
        once = Leaving(len(seen), sum(one.reply.nbytes for one in seen)) + as_usual * -1
    rounds = 1 if study.method.once else study.rounds
    total = start + once + per_round * rounds + evaluation * expected.evaluations
    return Forecast(start, per_round, evaluation, once, total)


def sites_of(folder: Path) -> int:
    """How many sites the consortium has, as this site's kit says; 1 without a kit."""
    with suppress(RunError):
        return max(len(read_membership(folder / "kit").sites), 1)
    return 1
