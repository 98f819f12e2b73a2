"""From a study to everything it describes: the task, the sites, the host and the manifest.

built = build(study, Path("runs/x"))               # all sites in one place: a simulation
built = build_apart(study, Path("runs/x"), names)   # the coordinator of real sites, which sees no data
built = build_at_site(study, folder, [name], raw)   # one of them, which sees its own
cohort = built.cohort(round_, drawn(study, built.sites.names, round_), engine)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from wardround.core.cohort import Cohort, Engine, Layer, Seen
from wardround.core.manifest import Manifest
from wardround.core.site import Exchange, Task, seeded
from wardround.core.weights import Weights
from wardround.corpora.federation import Prepared, Raw, Sites, federate, opened, pooled, prepared
from wardround.corpora.texts import AsCorpus
from wardround.engines.host import Host
from wardround.study import Study, StudyError

__all__ = ["Built", "bound", "build", "build_apart", "build_at_site", "drawn", "prefix", "taking_part"]

HUB = "coordinator"


@dataclass
class Built:
    """Everything a study describes, ready to run."""

    study: Study
    task: Task
    sites: Prepared
    host: Host
    weights: Weights
    manifest: Manifest
    raw: Sites | None
    """The sites' examples, where one process may see them all."""

    def cohort(
        self,
        round_: int,
        names: tuple[str, ...],
        engine: Engine,
        layers: tuple[Layer, ...] = (),
        settled: int = 0,
        watch: list[Seen] | None = None,
        resumed: tuple[int, ...] = (),
    ) -> Cohort:
        """These sites, for this round."""
        seed = self.study.seed
        hub = self.host.site(HUB, Exchange("hub", round_, 0, settled, seed, resumed))
        quorum = min(self.study.sites.quorum, len(names))
        count = len(self.sites.names)
        return Cohort(names, count, round_, seed, engine, self.manifest, hub, layers, quorum, settled, resumed, watch)


def build(study: Study, out: Path) -> Built:
    """The task, the sites and the host of a study; site memory lives under `out`."""
    corpus = opened(study.corpus)
    try:
        task = study.task.bind(corpus)
        raw = federate(corpus, study.partition, study.seed)
    except ValueError as error:
        raise StudyError(study.name, [str(error)]) from None
    sites = prepared(pooled(raw) if study.method.pooled else raw, task)
    problems = [*_enough(study, len(sites.names)), *_measurable(study, task)]
    if "valid" in study.evaluation.splits and sites.open(sites.names[0]).valid is None:
        problems.append("evaluation.splits has 'valid', but the sites have only 'test' and 'train'; leave it out")
    if HUB in sites.names:
        problems.append(f"a site is called {HUB!r}, which is the coordinator's own name; rename that source")
    if problems:
        raise StudyError(study.name, problems)
    return _assembled(study, task, sites, raw, out / "memory")


def build_apart(study: Study, out: Path, names: Sequence[str]) -> Built:
    """What the coordinator of real sites has: their names and the task, and no example of theirs."""

    def closed(name: str) -> tuple[Raw, Raw]:
        raise LookupError(f"the data of {name} are at {name}")

    task = bound(study)
    problems = [*_enough(study, len(names)), *_measurable(study, task)]
    if study.method.pooled:
        problems.append(f"{study.resolved['method']['name']} pools all sites' notes; only a simulation can do that")
    if problems:
        raise StudyError(study.name, problems)
    return _assembled(study, task, prepared(Sites(names, closed), task), None, out / "memory")


def build_at_site(study: Study, memory: Path, names: Sequence[str], raw: tuple[Raw, Raw]) -> Built:
    """What one real site has: its own examples, under its name (or under several, to rehearse)."""
    task = bound(study)
    sites = Sites(names, lambda _: raw)
    return _assembled(study, task, prepared(sites, task), sites, memory)


def bound(study: Study) -> Task:
    """The task as the study alone describes it, the same wherever it is read."""
    corpus = opened(study.corpus)
    if isinstance(corpus, AsCorpus) and not corpus.reader.labels:
        wanted = 'corpus.labels is missing: real sites cannot look into each other\'s notes; add labels = ["…", "…"]'
        raise StudyError(study.name, [wanted])
    try:
        task: Task = study.task.bind(corpus)
    except ValueError as error:
        raise StudyError(study.name, [str(error)]) from None
    return task


def _assembled(study: Study, task: Task, sites: Prepared, raw: Sites | None, memory: Path) -> Built:
    """The initial weights, and all that follows from them."""
    torch.default_generator.manual_seed(seeded(study.seed, "weights"))
    weights = Weights.of_model(task.model())
    layouts = {"model": weights.layout, "counts": task.counts()}
    sizes = {**task.sizes(), **study.method.sizes(task, weights)}
    host = Host(study.method, task, sites, memory)
    return Built(study, task, sites, host, weights, Manifest(layouts, sizes, weights.flat.dtype), raw)


def _enough(study: Study, count: int) -> Iterator[str]:
    """Why the study asks for more sites than there are."""
    if study.method.pooled:
        return
    per_round, quorum = study.sites.per_round, study.sites.quorum
    if per_round is not None and per_round > count:
        yield f"sites.per_round = {per_round}, but there are {count} sites; lower it"
    part = min(per_round or taking_part(study.sites.fraction, count), count)
    if quorum > part:
        yield f"sites.quorum = {quorum}, but {part} of {count} sites take part in a round; lower it"


def _measurable(study: Study, task: Task) -> Iterator[str]:
    """Why the study's evaluation cannot be done: found out before the work, not after the first round of it."""
    splits = study.evaluation.splits
    if study.stop is not None:
        ones = {name: torch.ones(shape, dtype=torch.float64) for name, shape in task.counts().shapes.items()}
        known = [prefix(split) + name for split in splits for name in task.metrics(ones)]
        if study.stop.metric not in known:
            yield f"stop.metric = {study.stop.metric!r} is not measured; known: {', '.join(known)}"


def prefix(split: str) -> str:
    """What the figures of a split other than the test split begin with."""
    return "" if split == "test" else f"{split}_"


def taking_part(fraction: float, sites: int) -> int:
    """The number of sites m = max(C·K, 1), guarded against float error: 0.29 · 100 is 29."""
    return max(int(fraction * sites + 1e-9), 1)


def drawn(study: Study, names: tuple[str, ...], round_: int) -> tuple[str, ...]:
    """The sites of a round, drawn without replacement from (seed, round)."""
    count = min(study.sites.per_round or taking_part(study.sites.fraction, len(names)), len(names))
    if count == len(names):
        return names
    rng = np.random.default_rng(seeded(study.seed, round_, "cohort"))
    return tuple(sorted(names[int(index)] for index in rng.choice(len(names), count, replace=False)))
