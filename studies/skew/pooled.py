"""Show that `ridge` over sites is ridge over all rows in one place, whoever holds which labels.

    python studies/skew/pooled.py studies/skew/chemprot-frozen.toml

For each α of the study the sites' sums are added and solved as the method does it. Beside it, all rows are put into
one place and least squares are solved from the rows themselves, by numpy's `lstsq` of (Z; √λ I) W = (Y; 0) over
standardised rows Z: no sum, Gram matrix or code of the method. Printed is the largest difference of any number of the
classifiers, in double precision, over all λ of the method; more than 1e-10 is an error.
"""

import sys
import tempfile
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from wardround.core.exchange import Exchange
from wardround.core.weights import Weights
from wardround.methods.ridge import Ridge, Unsolved
from wardround.methods.sums import System
from wardround.runs.build import Built, build
from wardround.study.load import Study, load_study

MOST = 1e-10


def built_of(study: Study) -> Built:
    """The study's sites."""
    return build(study, Path(tempfile.mkdtemp()))


def heads_of(study: Study) -> tuple[list[NDArray[np.float64]], list[int]]:
    """The classifier for each λ, its bias last, from the sites' sums; and how many rows each site has."""
    built, method = built_of(study), cast("Ridge", study.method)
    weights = Weights.of_model(built.task.model())
    sums = [
        method.gather.run(Unsolved(weights, ()), built.host.site(name, Exchange("gather", 1, 0, 0, 0)))
        for name in built.sites.names
    ]
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    system = System(total)
    heads = [system.head(penalty) for penalty in method.penalties]
    return [np.vstack([own.numpy(), bias.numpy()]) for own, bias in heads], [one.rows for one in sums]


@torch.no_grad()
def rows_of(study: Study) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All rows' features, and their labels one-hot."""
    built = built_of(study)
    task, model = built.task, built.task.model().eval()
    train = built.host.site(built.sites.names[0], Exchange("gather", 1, 0, 0, 0)).data.train
    batches = list(task.batches(train, 64, None))
    features = np.vstack([task.features(model, batch).double().numpy() for batch in batches])  # type: ignore[attr-defined]
    labels = np.concatenate([task.targets(batch).numpy() for batch in batches])  # type: ignore[attr-defined]
    return features, np.eye(len(task.labels))[labels]  # type: ignore[attr-defined]


def solved(features: NDArray[np.float64], labels: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Penalised least squares from rows; the bias is that of the method, k / (n + λ) − μᵀW."""
    mean, spread = features.mean(0), features.std(0)
    rows, width = features.shape
    above = np.vstack([(features - mean) / spread, np.sqrt(penalty) * np.eye(width)])
    below = np.vstack([labels, np.zeros((width, labels.shape[1]))])
    own = np.linalg.lstsq(above, below, rcond=None)[0] / spread[:, None]
    return np.vstack([own, labels.sum(0) / (rows + penalty) - mean @ own])


def main(path: Path) -> None:
    """A line for each α."""
    (pooled, *_) = [
        one.study for one in load_study(path, ("partition.sites=1",)) if isinstance(one.study.method, Ridge)
    ]
    features, labels = rows_of(pooled)
    expected = [solved(features, labels, penalty) for penalty in cast("Ridge", pooled.method).penalties]
    seen = set()
    for cell in load_study(path):
        alpha = cell.study.resolved["partition"]["alpha"]
        if isinstance(cell.study.method, Ridge) and alpha not in seen:
            seen.add(alpha)
            actual, rows = heads_of(cell.study)
            apart = max(float(np.abs(a - b).max()) for a, b in zip(actual, expected, strict=True))
            largest = max(float(np.abs(head).max()) for head in expected)
            print(f"α = {alpha:g}: rows {rows}; largest difference {apart:.1e}, largest number {largest:.2g}")
            if apart > MOST:
                raise SystemExit(f"the classifiers differ by {apart:.1e}, more than {MOST:.0e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
