"""A run as a report sees it: what its folder tells, and what tells it from others."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.runs.files import Change, Data, Intervals, Metrics, Round, Start, Tally
from wardround.runs.wire import WireRow

GENERATED = frozenset({"synthetic", "clinic", "clinic-pairs", "clinic-bags"})


@dataclass(frozen=True)
class RunRecord:
    """One run, as its folder tells it."""

    folder: str
    origin: str
    label: str
    """The method, and the settings that tell it from others of the same method."""
    measured_on: str
    """The settings of corpus and partition in which the runs differ; empty if all have the same."""
    study: Mapping[str, Any]
    toml: str
    lines: tuple[Round, ...]
    start: Start
    metrics: Metrics | None
    data: Data | None
    wire: tuple[WireRow, ...]
    fingerprint: str
    pr: tuple[tuple[float, float], ...] = ()
    """Recall and precision along the curve of the round that counts, if the task has one."""
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The figures of what any model should beat, by name."""
    tally: Tally | None = None
    """What was counted on the test split in the round that counts."""
    intervals: Intervals | None = None
    """How far the final figures could be elsewhere by the choice of test documents."""
    members: tuple[Change, ...] = ()
    """Who has left its model since it ended, or joined it."""

    @property
    def apart(self) -> bool:
        """Whether it was over real sites, which keep counts of few examples to themselves."""
        return self.data is not None and not self.data.sites

    @property
    def seed(self) -> int:
        """What all its chance comes from."""
        return int(self.study.get("seed", 0))

    @property
    def method(self) -> str:
        """The method's name in the study."""
        return str(self.study["method"]["name"])

    @property
    def rounds(self) -> int:
        """How far it is; [finish], which has a line of its own in the journal, is no round."""
        last = self.lines[-1].round if self.lines else 0
        return self.metrics.rounds if self.metrics and self._whole else min(last, self.study.get("rounds", last))

    @property
    def _whole(self) -> bool:
        """Whether the journal ends where the run did: nobody has taken it further since."""
        finish = "finish" in self.study
        return bool(self.metrics and self.lines and self.lines[-1].round == self.metrics.rounds + finish)

    @property
    def finished(self) -> bool:
        """Whether it came to its end: its last round, or its target; and nobody has taken it further since."""
        if self.metrics is None or not self._whole:
            return False
        early = bool(self.study.get("stop", {}).get("early", True))
        return self.metrics.ended(self.study.get("rounds", self.metrics.rounds), early=early)

    @property
    def similarity(self) -> list[tuple[int, Mapping[str, Mapping[str, float]]]]:
        """The rounds in which the method noted how alike the sites' classifier vectors are, and that."""
        noted = [(line.round, line.noted["similarity"]) for line in self.lines if line.noted.get("similarity")]
        return [(at, {site: _finite(own) for site, own in similarity.items()}) for at, similarity in noted]

    @property
    def chosen(self) -> int | None:
        """The round that validation chose, if it did and the run is over."""
        return self.metrics.chosen if self.metrics and self.finished else None

    @property
    def last(self) -> Round | None:
        """The round that counts: the one that validation chose, or the last that was evaluated.

        Where sites have left the model since, or joined it, that is what was measured then.
        """
        if self.members and self.metrics:
            at = self.metrics.chosen or self.metrics.rounds
            return Round(round=at, metrics=self.metrics.final, signs=self.metrics.signs)
        return next((line for line in reversed(self.lines) if line.metrics and self.chosen in (None, line.round)), None)

    @property
    def final(self) -> Mapping[str, float]:
        """The figures of the round that counts."""
        return self.last.metrics if self.last else {}

    @property
    def signs(self) -> tuple[str, ...]:
        """What looked wrong with the model in the round that counts."""
        return self.last.signs if self.last else ()

    @property
    def generated(self) -> bool:
        """Whether its data were generated."""
        return self.study["corpus"].get("name") in GENERATED


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
