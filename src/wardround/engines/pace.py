"""How long a site has for one answer: a deadline that adapts to each.

    pace = Pace()
    pace.missed("north", "fit", 1.0)           # it has two deadlines the next time, then four, then eight
    pace.answered("north", "fit", 3.0)         # it needed three, and keeps room for that
    pace.times("north", "evaluate")            # one: a step that is quick says nothing of one that is not

It outlives an engine: where too few sites answered in time, the round is tried again by another, which knows it.
"""

from dataclasses import dataclass, field

LONGEST = 8.0  # deadlines that a slow site may have
ROOM = 1.5  # times as long as it took, for its next answer


@dataclass
class Pace:
    """How long each site has for each step, as it turned out."""

    slow: dict[tuple[str, str], float] = field(default_factory=dict)
    """How many deadlines it has, where it needs more than one."""
    tried: set[tuple[str, str]] = field(default_factory=set)
    """Where the longest deadline was missed, too, and nothing came since: there it has one each time."""

    def times(self, site: str, step: str) -> float:
        """How many deadlines a site has for a step."""
        return self.slow.get((site, step), 1.0)

    def missed(self, site: str, step: str, times: float) -> None:
        """It has not answered within so many deadlines."""
        if times >= LONGEST:
            self.tried.add((site, step))
        self.slow[site, step] = 1.0 if (site, step) in self.tried else min(2 * times, LONGEST)

    def answered(self, site: str, step: str, times: float) -> None:
        """It has, after so many."""
        self.tried.discard((site, step))
        self.slow[site, step] = min(max(ROOM * times, 1.0), LONGEST)
