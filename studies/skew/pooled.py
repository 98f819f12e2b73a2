"""Show that `ridge` over sites is ridge over all rows in one place, whoever holds which labels.

    python studies/skew/pooled.py studies/skew/chemprot-frozen.toml

For each α of the study the sites' sums are added and solved as the method does it, and compared with two others: the
method over one site that has all rows, and least squares from those rows themselves, by numpy's `lstsq` of
(Z; √λ I) W = (Y; 0) over standardised rows Z, which knows no sum, Gram matrix or code of the method. Printed are, for
each λ of the method, the largest difference of any number from either, in double precision, and the largest number of
the classifier. A difference of more than 1e-10 of that is an error. It shrinks as λ grows: a small λ leaves a system of
hardly more rows than features nearly singular, and what is compared is then the rounding of two ways to solve it.
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

MOST = 1e-10  # of the largest number


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
    """A block of lines for each α, one for each λ."""
    every = [one.study for one in load_study(path) if isinstance(one.study.method, Ridge)]
    pooled = next(one.study for one in load_study(path, ("partition.sites=1",)) if isinstance(one.study.method, Ridge))
    penalties = cast("Ridge", pooled.method).penalties
    alone, _ = heads_of(pooled)
    features, labels = rows_of(pooled)
    expected = [solved(features, labels, penalty) for penalty in penalties]
    for alpha, study in {one.resolved["partition"]["alpha"]: one for one in reversed(every)}.items():
        actual, rows = heads_of(study)
        print(f"α = {alpha:g}, {features.shape[1]} features, rows {rows}")
        for penalty, mine, one, other in zip(penalties, actual, alone, expected, strict=True):
            gaps, largest = [float(np.abs(mine - head).max()) for head in (one, other)], float(np.abs(other).max())
            print(f"  λ = {penalty:g}: {gaps[0]:.0e} from one site, {gaps[1]:.0e} from lstsq, of {largest:.2g}")
            if max(gaps) > MOST * largest:
                raise SystemExit("the classifiers differ by more than rounding")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
