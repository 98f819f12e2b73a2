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
    steps: Mapping[str, int]
    """How often a round has each step; 0 where nobody can say."""
    most: int
    """Exchanges of a round, without evaluations."""
    moving: bool
    """Whether weights move within a round."""
    splits: int
    evaluations: int
    """Of the whole study: what its approval keeps for them cannot be spent on training."""

    @classmethod
    def of(cls, study: Study, examples: int, sites: int) -> "Places":
        """Those of this study, at a site with so many training examples."""
        expected = expected_exchanges(study, examples, sites)
        repeats = study.method.repeats
        most = EVALUATION - 1 if expected.estimated else expected.per_round + repeats
        steps = {step: 0 if expected.estimated else times + repeats for step, times in expected.steps.items()}
        tried = evaluations(study) * expected.evaluation
        return cls(expected.opening, steps, most, expected.estimated, expected.evaluation, tried)

    def has(self, exchange: Exchange) -> bool:
        """Whether a run can have this exchange."""
        if exchange.step == "evaluate":
            return EVALUATION < exchange.number <= EVALUATION + self.splits
        if exchange.round == 0:
            return exchange.step in self.opening and 1 <= exchange.number <= len(self.opening)
        return exchange.step in self.steps and 1 <= exchange.number <= self.most

    def full(self, exchange: Exchange, answered: Iterable[tuple[int, int, str]]) -> bool:
        """Whether this step was answered in this round as often as it has it, each time as another exchange."""
        most = self.steps.get(exchange.step, 0) if exchange.round and exchange.number < EVALUATION else 0
        others = {number for round_, number, step in answered if (round_, step) == (exchange.round, exchange.step)}
        return 0 < most <= len(others - {exchange.number})
