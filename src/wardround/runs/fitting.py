"""Why a study cannot run as it is: told before the work, not in the middle of a round.

problems = [*fitting(study, task), *enough(study, len(names)), *measurable(study, task)]
"""

from collections.abc import Iterator
from importlib.util import find_spec

import torch

from wardround.core.bench import belongs
from wardround.core.task import ClassTask
from wardround.runs.guards import outnumbered, unguarded
from wardround.runs.references import NEEDED
from wardround.study.load import Study
from wardround.tasks.task import BoundTask


def fitting(study: Study, task: BoundTask) -> Iterator[str]:
    """Why the method cannot work here: found out now, not in the middle of a round."""
    named = {section: study.resolved[section]["name"] for section in ("method", "task")}
    if study.method.public and study.public is None:
        yield f"method {named['method']!r} needs public examples; add [public] with fraction = 0.2, or [public.corpus]"
    if study.method.twice and study.sites.private:
        yield (
            f"method {named['method']!r} has each site train a second model, which would move the private parts of the "
            "first; take sites.private out, or take fedavg or fedrep with it"
        )
    for layer in study.layers:
        if misfit := layer.misfit(study.method, study.layers):
            yield misfit
        if layer.only_sums and study.evaluation.each:
            yield f"evaluation.each shows each site's counts, and {layer.called} only sums; take one out"
    for name in study.references or ():
        if name not in task.references:
            yield f"references has {name!r}, which does not exist for task {named['task']!r}; leave it out"
        elif name == "tfidf" and find_spec(NEEDED) is None:
            yield 'references: "tfidf" needs scikit-learn; pip install "wardround[baselines]", or leave it out'
    yield from unguarded(study)
    yield from _classified(study, task, named["method"], named["task"])


def _classified(study: Study, task: BoundTask, method: str, task_name: str) -> Iterator[str]:
    """Why what looks into a classifier cannot do so."""
    fits = "finish" if study.finish else "start" if study.start else f"method {method!r}"
    if study.finish and not study.method.shares:
        yield f"finish fits the classifier of a shared model, and method {method!r} has no shared model; take it out"
    if study.finish and study.method.apart:
        yield f"finish fits the classifier of the shared model, and method {method!r} tries others; take it out"
    partly = study.sites.fraction < 1 or study.sites.per_round is not None
    if partly and study.resolved["method"].get("lone", "keep") != "keep":
        yield (
            "method.lone looks for classes that one site alone has, and a round that draws some of the sites cannot "
            'tell; take sites.fraction and sites.per_round out, or set method.lone = "keep"'
        )
    if study.method.classifier and isinstance(task, ClassTask) and belongs(task.classifier, study.sites.private):
        yield f"{fits} shares the classifier, and sites.private has it; take it out"
    if study.method.classifier and not isinstance(task, ClassTask):
        yield (
            f"{fits} looks into the linear classifier at the end of a model for one label per "
            f"example, which task {task_name!r} with these settings does not have; "
            f"{task.to_classify}, or choose another method"
        )


def enough(study: Study, count: int) -> Iterator[str]:
    """Why the study asks for more sites than there are."""
    if study.method.pooled:
        if any(layer.quorum for layer in study.layers):
            yield f"{study.resolved['method']['name']} pools all notes: there is nothing to mask; take [privacy] out"
        return
    per_round, quorum = study.sites.per_round, study.sites.quorum
    if per_round is not None and per_round > count:
        yield f"sites.per_round = {per_round}, but there are {count} sites; lower it"
    part = min(per_round or taking_part(study.sites.fraction, count), count)
    if quorum > part:
        yield f"sites.quorum = {quorum}, but {part} of {count} sites take part in a round; lower it"
    yield from outnumbered(study, part)
    fewest = max((layer.quorum for layer in study.layers), default=0)
    if fewest > part:
        few = f"privacy.fewest = {fewest}, but {part} of {count} sites take part in a round"
        yield f"{few}; lower it, or have more sites in a round"
    privacy = study.resolved.get("privacy", {})
    if privacy.get("same_members") and not privacy.get("secure_aggregation"):
        yield "privacy.same_members is about masked sums; set privacy.secure_aggregation = true, or take it out"
    elif privacy.get("same_members") and part < count:
        yield f"privacy.same_members wants all sites in every round, but {part} of {count} take part; take either out"


def measurable(study: Study, task: BoundTask) -> Iterator[str]:
    """Why the study's evaluation cannot be done: found out before the work, not after the first round of it."""
    if study.stop is not None:
        known = [prefix(split) + name for split in study.evaluation.splits for name in _figures(task)]
        if study.stop.metric not in known:
            untried = study.stop.metric.startswith("train_") and "train" not in study.evaluation.splits
            remedy = "; add evaluation.splits = ['test', 'train']" if untried else ""
            yield f"stop.metric = {study.stop.metric!r} is not measured; known: {', '.join(known)}{remedy}"
    named = study.validation.metric if study.validation else None
    figures = [name for name in _figures(task) if not name.endswith("examples")]
    if named is not None and named not in figures:
        yield f"validation.metric = {named!r} is not measured; known: {', '.join(figures)}"


def choosing(study: Study, task: BoundTask) -> str | None:
    """The figure by which the round that is kept is chosen, if the study has one chosen."""
    if study.validation is None:
        return None
    first = next(name for name in _figures(task) if not name.endswith(("loss", "examples")))
    return prefix("valid") + (study.validation.metric or first)


def _figures(task: BoundTask) -> list[str]:
    ones = {name: torch.ones(shape, dtype=torch.float64) for name, shape in task.counts().shapes.items()}
    return list(task.metrics(ones))


def prefix(split: str) -> str:
    """What the figures of a split other than the test split begin with."""
    return "" if split == "test" else f"{split}_"


def taking_part(fraction: float, sites: int) -> int:
    """The number of sites m = max(C·K, 1), guarded against float error: 0.29 · 100 is 29."""
    return max(int(fraction * sites + 1e-9), 1)
