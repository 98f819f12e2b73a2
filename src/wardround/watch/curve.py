"""A figure over rounds in bounded memory: once there are too many points, every second one is let go."""

from dataclasses import dataclass, field

POINTS = 400


@dataclass
class ThinnedCurve:
    """Rounds and values, at most `POINTS` of them and the last."""

    points: list[tuple[int, float]] = field(default_factory=list)
    every: int = 1
    """How many rounds stand behind one point."""
    best: tuple[int, float] | None = None
    last: tuple[int, float] | None = None
    _skipped: int = 0

    def add(self, round_: int, value: float, *, lower: bool) -> None:
        """One more round."""
        self.last = round_, value
        if self.best is None or (value < self.best[1] if lower else value > self.best[1]):
            self.best = self.last
        self._skipped += 1
        if self._skipped < self.every and self.points:
            return
        self._skipped = 0
        self.points.append(self.last)
        if len(self.points) > POINTS:
            self.points = self.points[::2]
            self.every *= 2

    @property
    def drawn(self) -> list[tuple[int, float]]:
        """What to draw: the points, and where it is now."""
        return self.points if not self.last or self.points[-1] == self.last else [*self.points, self.last]
