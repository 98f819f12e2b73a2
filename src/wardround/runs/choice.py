"""The round whose model is kept: the best so far by a figure on validation examples, and its weights.

    choice = Choice(out / "checkpoints", "valid_macro_f1", patience=5)
    choice.look(12, metrics, weights)           # whether round 12 is the best so far
    choice.save(); choice.forget(journal, kept) # beside the checkpoints, of which any may be gone back to

Rules of this file:
1. Which round is best follows from the journal alone, the first of equals: a resumed run chooses as it would have.
2. Its weights are on the disk before the checkpoint that they belong to, and stay as long as a checkpoint needs them.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from wardround.core.codec import DecodeError, decode
from wardround.core.files import BrokenSeal, seal, unseal, write
from wardround.core.method import Global
from wardround.core.weights import Weights
from wardround.metrics.defined import better
from wardround.runs.checkpoint import CheckpointError
from wardround.runs.errors import RunError
from wardround.runs.journal import Journal


class Choice:
    """The best round so far; without a figure to choose by there is none."""

    def __init__(self, folder: Path, metric: str | None, patience: int | None) -> None:
        self.folder, self.metric, self.patience = folder, metric, patience
        self.round: int | None = None
        self.value = math.nan
        self.weights: Weights | None = None
        self._unsaved = False

    def look(self, round_: int, metrics: Mapping[str, float], weights: Weights) -> bool:
        """Whether this round is the best so far; then it is remembered. Without a figure to choose by, each is."""
        if self.metric is None:
            return True
        value = metrics.get(self.metric, math.nan)
        if not math.isfinite(value):
            if self.round is None:
                raise RunError(
                    f"{self.metric} cannot be measured, and the round to keep is chosen by it: no site tells of a "
                    "validation example, or all are of one class; raise validation.share, name files with "
                    'valid = "…", or choose by another figure with validation.metric'
                )
            return False
        if self.round is not None and not better(self.metric, value, self.value):
            return False
        self.round, self.value, self.weights, self._unsaved = round_, value, weights, True
        return True

    def exhausted(self, journal: Journal) -> int:
        """How many evaluations there were without a better one, if that is as many as there should be; else 0.

        A figure of 0 does not count: a tagger that finds nothing in its first rounds has not begun to learn, and what
        it found by chance before it did is no reason to stop.
        """
        if self.metric is None or self.patience is None:
            return 0
        later = (line for line in journal.lines if line.metrics and line.round > (self.round or 0))
        share = better(self.metric, 1, 0)
        since = sum(not (share and line.metrics.get(self.metric) == 0) for line in later)
        return since if since >= self.patience else 0

    def save(self) -> None:
        """Make the weights of the best round durable."""
        if self._unsaved and self.weights is not None:
            write(self._path(self.round or 0), seal(Global(self.weights).encode()))
            self._unsaved = False

    def forget(self, journal: Journal, checkpoints: Iterable[int]) -> None:
        """Let go of the weights that no checkpoint needs."""
        needed = {self._path(best) for at in checkpoints if (best := self.best(journal, at)) is not None}
        for path in self.folder.glob("best-*.weights"):
            if path not in needed:
                path.unlink(missing_ok=True)

    def best(self, journal: Journal, until: int) -> int | None:
        """The round that was the best after so many."""
        return journal.first_best(self.metric, until) if self.metric else None

    def restore(self, journal: Journal, until: int) -> None:
        """Take up the choice as it was after so many rounds."""
        self.round = self.best(journal, until)
        if self.round is None or self.metric is None:
            return
        path = self._path(self.round)
        self.value = next(line.metrics[self.metric] for line in journal.lines if line.round == self.round)
        try:
            self.weights = decode(Global, unseal(path)).weights
        except (BrokenSeal, DecodeError, OSError) as error:
            what = f"{path}: the weights of the best round so far cannot be read ({error})"
            raise CheckpointError(f"{what}; restore the file, or delete the run folder to start anew") from None

    def _path(self, round_: int) -> Path:
        return self.folder / f"best-{round_:06d}.weights"
