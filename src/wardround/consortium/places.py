"""Where in a run a step can be asked for: a coordinator that could choose would ask one round again and again.

    places = Places.of(study, examples=1200, sites=3)
    places.has(exchange)

Before the first round a method's opening steps, once each; in a round as many exchanges as it has, and a few for one in
which a method has to ask again; where that number depends on how much others have, only the approval's budget limits
it. Evaluations, one per split, have numbers of their own.
"""

from dataclasses import dataclass

from wardround.consortium.expected import expected_exchanges
from wardround.core.cohort import EVALUATION
from wardround.core.site import Exchange
from wardround.study import Study

__all__ = ["Places"]

REPEATS = 3  # FedAtt asks again, with the same weights, in a round whose distances its bound does not suit


@dataclass(frozen=True)
class Places:
    """The exchanges that a run of a study can have."""

    opening: tuple[str, ...]
    steps: frozenset[str]
    most: int
    """Exchanges of a round, without evaluations."""
    single: bool
    """Whether a round has one exchange: its weights stand still, then, if it is asked again."""
    splits: int

    @classmethod
    def of(cls, study: Study, examples: int, sites: int) -> "Places":
        """Those of this study, at a site with so many training examples."""
        expected = expected_exchanges(study, examples, sites)
        most = EVALUATION - 1 if expected.estimated else expected.per_round + REPEATS
        single = expected.per_round == 1 and not expected.estimated
        return cls(expected.opening, frozenset(expected.steps), most, single, expected.evaluation)

    def has(self, exchange: Exchange) -> bool:
        """Whether a run can have this exchange."""
        if exchange.step == "evaluate":
            return EVALUATION < exchange.number <= EVALUATION + self.splits
        if exchange.round == 0:
            return exchange.step in self.opening and 1 <= exchange.number <= len(self.opening)
        return exchange.step in self.steps and 1 <= exchange.number <= self.most
