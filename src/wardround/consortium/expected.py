"""How often a site will be asked, before anybody has asked: what its approval is a budget for.

    expected = expected_exchanges(study, examples=1200, sites=3)
    expected.per_round, expected.total(study)

Most methods ask once or twice a round. FedNER asks after every batch of all sites together, whose examples no site
knows: the estimate takes the others to be as large as this one.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wardround.consortium.forms import read_membership
from wardround.runs.errors import RunError
from wardround.study.load import Study

__all__ = ["Expected", "evaluations", "expected_exchanges", "sites_of"]


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


def sites_of(folder: Path) -> int:
    """How many sites the consortium has, as this site's kit says; 1 without a kit."""
    with suppress(RunError):
        return max(len(read_membership(folder / "kit").sites), 1)
    return 1
