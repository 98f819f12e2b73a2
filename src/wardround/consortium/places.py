"""Where in a run a step can be asked for: a coordinator that could choose would ask one round again and again.

    places = Places.of(study, examples=1200, sites=3)
    places.has(exchange)

Before the first round a method's opening steps, once each; in a round each step as often as the method has it, and a
few times more where the method itself may have to ask again; where that number depends on how much others have, only
the approval's budget limits it. Evaluations, one per split, have numbers of their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wardround.consortium.expected import evaluations, expected_exchanges
from wardround.core.exchange import EVALUATION, Exchange
from wardround.study.load import Study

__all__ = ["Places"]


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
