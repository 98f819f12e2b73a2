"""A run as a report sees it: what its folder tells, and what tells it from others."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.runs.files import Data, Metrics, Round, Start
from wardround.runs.wire import WireRow

__all__ = ["RunRecord"]

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
    """Recall and precision along the curve of the last evaluation, if the task has one."""
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The figures of what any model should beat, by name."""

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
        """The last round in its journal."""
        return self.lines[-1].round if self.lines else 0

    @property
    def finished(self) -> bool:
        """Whether it came to its end: its last round, or its target; and nobody has taken it further since."""
        if self.metrics is None or self.metrics.rounds != self.rounds:
            return False
        early = self.study.get("stop", {}).get("early", True) and self.metrics.rounds_to_target is not None
        return bool(early) or self.rounds >= self.study.get("rounds", self.rounds)

    @property
    def similarity(self) -> list[tuple[int, Mapping[str, Mapping[str, float]]]]:
        """The rounds in which the method noted how alike the sites' classifier vectors are, and that."""
        noted = [(line.round, line.noted["similarity"]) for line in self.lines if line.noted.get("similarity")]
        return [(at, {site: _finite(own) for site, own in similarity.items()}) for at, similarity in noted]

    @property
    def final(self) -> Mapping[str, float]:
        """The figures of the last round that was evaluated."""
        return next((line.metrics for line in reversed(self.lines) if line.metrics), {})

    @property
    def signs(self) -> tuple[str, ...]:
        """What looked wrong with the model in the last round that was evaluated."""
        return next((line.signs for line in reversed(self.lines) if line.metrics or line.signs), ())

    @property
    def generated(self) -> bool:
        """Whether its data were generated."""
        return self.study["corpus"].get("name") in GENERATED


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
