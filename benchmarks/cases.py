"""What is trained: two small studies, and the same work written out for those who know no studies."""

import functools
from pathlib import Path
from typing import Any, cast

from bare import Turn, Work
from wardround.core.exchange import seeded
from wardround.methods.fedavg import FedAvg
from wardround.runs.build import Built, build, drawn
from wardround.study.load import cells

__all__ = ["CASES", "HERE", "case", "work_again", "work_of"]

HERE = Path(__file__).resolve().parent

CASES: dict[str, dict[str, Any]] = {
    "tiny": {
        "rounds": 20,
        "corpus": {"name": "synthetic", "sites": 100, "largest": 100},
        "task": {"name": "features"},
        "method": {"name": "fedavg", "batch": 10, "steps": 5},
        "sites": {"per_round": 10},
    },
    "lstm": {
        "rounds": 3,
        "corpus": {"name": "tokens:Tokens", "sites": 20},
        "task": {"name": "tokens:Reading"},
        "method": {"name": "fedavg", "batch": 16, "steps": 5, "lr": 0.1},
        "sites": {"per_round": 10},
    },
}


def case(name: str, out: Path, *, quick: bool) -> Built:
    """The study of this name, ready to run; a quick one has two rounds."""
    tables = {**CASES[name], "name": name, **({"rounds": 2} if quick else {})}
    return build(cells(tables, folder=HERE)[0].study, out)


def work_of(built: Built) -> Work:
    """What the study's method would do, written out: sites, data and shuffles of each round."""
    study, method = built.study, cast("FedAvg", built.study.method)
    data = {}
    for site in built.sites.names:
        train: Any = built.sites.open(site).train
        data[site] = (train.inputs, train.labels)
    plan = [
        [Turn(site, seeded(study.seed, round_, site, "fit")) for site in drawn(study, built.sites.names, round_)]
        for round_ in range(1, study.rounds + 1)
    ]
    start = {name: tensor.clone() for name, tensor in built.weights.items()}
    return Work(built.task.model, start, data, plan, method.lr, method.batch, method.steps)


@functools.cache
def work_again(name: str, *, quick: bool) -> Work:
    """The same work in another process, made once there."""
    return work_of(case(name, HERE, quick=quick))
