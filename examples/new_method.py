"""A method of your own, in one file: the median of the sites' changes, which one odd site cannot move far.

    python examples/new_method.py [FOLDER]

In a study file it is `name = "new_method:Median"`, with this file beside it. It runs in both engines, resumes, is in
the ledger and prints its protocol like any other: `wardround protocol new_method:Median`. It looks at each reply
(`ask`), so it cannot run where only sums are shown.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

import wardround
from wardround.extend import Cohort, FedAvg, Global, Weights


@dataclass(frozen=True, kw_only=True)
class Median(FedAvg):
    """Moves each weight by `step` times the median of what the sites would do."""

    step: float = 1.0

    def round(self, state: Global, cohort: Cohort) -> Global:
        """The coordinator's half; the sites' half, `fit`, is that of FedAvg."""
        replies = cohort.ask(self.fit, state).values()
        changes = [reply.change / reply.weight for reply in replies if reply.weight]
        middle = {name: torch.stack([change[name] for change in changes]).median(0).values for name in state.weights}
        return Global(state.weights + Weights(middle) * self.step)


def main(folder: Path) -> None:
    """Run the method on generated rows of numbers."""
    study = {
        "name": "median",
        "rounds": 10,
        "corpus": {"name": "synthetic", "sites": 5, "largest": 100},
        "task": {"name": "features"},
        "method": {"name": "new_method:Median", "lr": 0.1, "step": 1.0},
    }
    result = wardround.run(study, folder / "run", report=False)
    print(f"accuracy {result.metrics['accuracy']:.2f} after {result.rounds} rounds")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
