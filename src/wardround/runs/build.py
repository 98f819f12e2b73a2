"""From a study to everything it describes: the task, the sites, the host and the manifest.

built = build(study, Path("runs/x"))               # all sites in one place: a simulation
built = build_apart(study, Path("runs/x"), names)   # the coordinator of real sites, which sees no data
built = build_at_site(study, folder, [name], raw)   # one of them, which sees its own
cohort = built.cohort(round_, drawn(study, built.sites.names, round_), engine)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from wardround.core.bench import belongs, statistics
from wardround.core.cohort import Cohort, Engine, Seen
from wardround.core.device import CPU, Device, tried
from wardround.core.exchange import Exchange, seeded
from wardround.core.layer import Layer
from wardround.core.manifest import Manifest
from wardround.core.site import HUB
from wardround.core.weights import Weights
from wardround.engines.host import Host
from wardround.federation.partition import Raw
from wardround.federation.prepared import Prepared
from wardround.federation.sites import Declared, Sites, federate, opened, pooled, thinned
from wardround.federation.validation import validated
from wardround.privacy.guards import Guards
from wardround.privacy.refusals import refused
from wardround.privacy.simulated import simulated_guards, unsteady
from wardround.runs.fitting import enough, fitting, measurable, taking_part
from wardround.study.load import Study
from wardround.study.settings import StudyError
from wardround.tasks.suited_encoder import doubts
from wardround.tasks.task import BoundTask
from wardround.text.language import has_words
from wardround.text.reading import nearest

JUDGED = 3


@dataclass
class Built:
    """Everything a study describes, ready to run."""

    study: Study
    task: BoundTask
    sites: Prepared
    host: Host
    weights: Weights
    manifest: Manifest
    raw: Sites | None
    """The sites' examples, where one process may see them all."""
    doubts: tuple[str, ...] = ()
    """Why its encoder may not suit the texts."""

    def cohort(
        self,
        round_: int,
        names: tuple[str, ...],
        engine: Engine,
        outer: tuple[Layer, ...] = (),
        settled: int = 0,
        watch: list[Seen] | None = None,
        resumed: tuple[int, ...] = (),
        first: int = 0,
    ) -> Cohort:
        """These sites, for this round; behind the study's own layers the outer ones, the ledger last."""
        seed, layers = self.study.seed, (*self.study.layers, *outer)
        hub = self.host.site(HUB, Exchange("hub", round_, first, settled, seed, resumed))
        quorum = min(self.study.sites.quorum, len(names))
        count = len(self.sites.names)
        return Cohort(
            names, count, round_, seed, engine, self.manifest, hub, layers, quorum, settled, resumed, watch,
            exchanges=first,
        )  # fmt: skip


def build(study: Study, out: Path, corpus: Sites | None = None) -> Built:
    """The task, the sites and the host of a study; site memory lives under `out`, the corpus may be open already."""
    corpus = corpus or opened(study.corpus, valid="valid" in study.evaluation.splits)
    try:
        raw = _held(study, federate(corpus, study.partition, study.seed, study.public))
        _ = raw.names  # opens the files: what is wrong with them comes before what a task lacks for want of them
        task = study.task.bind(corpus.about)
        raw = thinned(raw, study.sites.share, study.seed) if study.sites.share < 1 else raw
        sites = _prepared(study, task, pooled(raw) if study.method.pooled else raw)
        if not sites.names:
            raise ValueError("the corpus has no example; look at its files with wardround data check")  # noqa: TRY301
        _ = sites.public  # read now, since its labels may not be the corpus's
        sites.task(sites.names[0])  # likewise, since a tag set of its own may not fit the study
        _judged(task, raw)
        _told_apart(task, raw)
        _one_label(study, task, raw)
        unproven, unsure = list(_unproven(study, raw)), tuple(_doubts(study, raw))
    except ValueError as error:
        raise StudyError(study.name, [str(error)]) from None
    device, missing = tried(study.device, study.precision)
    problems = [*fitting(study, task), *enough(study, len(sites.names)), *measurable(study, task), *unproven]
    problems += refused(study, task, simulated=True) if study.dp else ()
    problems += missing
    if HUB in sites.names:
        problems.append(f"a site is called {HUB!r}, which is the coordinator's own name; rename that source")
    if problems:
        raise StudyError(study.name, problems)
    guards = simulated_guards(study, sites, out) if study.dp else None
    built = _assembled(study, task, sites, raw, out / "memory", device, guards)
    if study.dp and (problems := list(unsteady(study, task, sites.open(sites.names[0])))):
        raise StudyError(study.name, problems)
    return replace(built, doubts=unsure)


def build_apart(study: Study, out: Path, names: Sequence[str]) -> Built:
    """What the coordinator of real sites has: their names and the task, and no example of theirs."""

    def closed(name: str) -> tuple[Raw, Raw]:
        raise LookupError(f"the data of {name} are at {name}")

    task = bound(study)
    problems = [*fitting(study, task), *enough(study, len(names)), *measurable(study, task)]
    problems += [
        f"{key} is only for simulations for now; take it out" for key in ("start", "finish") if getattr(study, key)
    ]
    device, missing = tried(study.device, study.precision)
    problems += missing
    if study.method.pooled:
        problems.append(f"{study.resolved['method']['name']} pools all sites' notes; only a simulation can do that")
    problems += refused(study, task, simulated=False) if study.dp else ()
    if problems:
        raise StudyError(study.name, problems)
    sites = Sites(names, closed, public=_public(study))
    return _assembled(study, task, _ready(study, task, sites), None, out / "memory", device)


def build_at_site(study: Study, memory: Path, names: Sequence[str], raw: Sequence[Raw], device: Device = CPU) -> Built:
    """What one real site has: its own examples to train, to test and perhaps to validate on, under its name.

    To rehearse, under several names.
    """
    task = bound(study)
    train, test, *valid = raw
    tried = (lambda _: valid[0]) if valid else None
    sites = _held(study, Sites(names, lambda _: (train, test), public=_public(study), tried=tried))
    sites = thinned(sites, study.sites.share, study.seed)
    try:
        _judged(task, sites)
        unsure = tuple(_doubts(study, sites))
    except ValueError as error:
        raise StudyError(study.name, [str(error)]) from None
    return replace(_assembled(study, task, _ready(study, task, sites), sites, memory, device), doubts=unsure)


def _held(study: Study, sites: Sites) -> Sites:
    """The sites with what the study sets aside for validation."""
    chosen, each = study.validation, study.dp is not None and study.dp.evaluation == "noised"
    return sites if chosen is None else validated(sites, chosen.share, chosen.by, study.seed, each=each)


def _unproven(study: Study, sites: Sites) -> Iterator[str]:
    """Why there is nothing to test or to validate on, where all sites can be seen."""
    own = 'name files with valid = "…" in [corpus]'
    if "test" in study.evaluation.splits and not any(len(sites.raw(name)[1]) for name in sites.names):
        remedy = "name files that hold some, or have some set aside: wardround data split"
        yield f"no site has an example to test on; {remedy}"
    if "valid" not in study.evaluation.splits or (sites.valid and any(len(sites.valid(name)) for name in sites.names)):
        return
    if study.validation is None:
        remedy = f"{own}, or set some aside: [validation] with share = 0.1"
        yield f"evaluation.splits has 'valid', but the sites have only 'test' and 'train'; {remedy}"
    elif study.validation.share is None:
        yield f"[validation]: the corpus has no validation split; {own}, or set some aside with validation.share = 0.1"
    else:
        few = f"validation.share = {study.validation.share} by {study.validation.by} leaves every site without one"
        yield f"[validation]: {few}; raise it, draw by document, or {own}"


def _judged(task: BoundTask, sites: Sites) -> None:
    """Have a task that can tell (`refuse`) look at the texts of a few sites before a model learns nothing from them."""
    named = sites.names if hasattr(sites.raw(sites.names[0])[0], "documents") else ()
    texts = (document.text for name in named for document in sites.raw(name)[0].documents)  # type: ignore[attr-defined]
    first = next(texts, None)
    if first is not None and not has_words(first) and not any(map(has_words, texts)):
        raise ValueError("no text has a letter or a digit; name the column that holds them (text = … in [corpus])")
    task.refuse(sites.raw(name)[0] for name in sites.names[:JUDGED])


def _doubts(study: Study, sites: Sites) -> Iterator[str]:
    """Why the study's encoder, whatever the task, may not suit the texts of a few sites."""
    if encoder := study.task.files().get("encoder"):
        raw = [sites.raw(name)[0] for name in sites.names[:JUDGED]]
        yield from doubts(encoder, [document for some in raw for document in getattr(some, "documents", ())])


def _told_apart(task: BoundTask, sites: Sites) -> None:
    """Raise an error if the sites' training examples have too few classes between them; a site alone may have one."""
    seen = set[str]()
    for name in sites.names:
        if len(seen) >= task.fewest:
            return
        seen |= task.named(sites.raw(name)[0]).keys()
    if len(seen) < task.fewest:
        known = f"all training examples of all sites have {len(seen)} label{'s' * (len(seen) != 1)} of the declared"
        remedy = "add texts of the others, or name the column that has the labels (label = … in [corpus])"
        raise ValueError(f"{known} {len(task.names())}, so that there is nothing to tell apart; {remedy}")


def _one_label(study: Study, task: BoundTask, sites: Sites) -> None:
    """Raise an error with file and line if a text of one's own files has several labels, where it may have one."""
    where = getattr(study.corpus, "where", None)
    if where is None or not task.fewest:
        return
    parts = (part for name in sites.names for part in (*sites.raw(name), *([sites.valid(name)] if sites.valid else [])))
    several = [document.id for part in parts for document in part.documents if len(document.labels) > 1]  # type: ignore[attr-defined]  # of texts
    if several:
        remedy = "set several = true in [task], or keep one of them"
        raise ValueError(f"{where('label', several[0])}: text with several labels ({len(several):,} in all); {remedy}")


def _public(study: Study) -> Callable[[], Raw] | None:
    """The public examples, which every party reads by itself; a fraction of the notes is none at real sites."""

    def read() -> Raw:
        shared = federate(opened(study.corpus), None, study.seed, study.public).public
        return cast("Callable[[], Raw]", shared)()

    return read if study.public else None


def _prepared(study: Study, task: BoundTask, sites: Sites) -> Prepared:
    unit = study.dp.unit if study.dp else None
    return Prepared(sites, task, study.sites.private, public=study.method.public, unit=unit)


def _ready(study: Study, task: BoundTask, sites: Sites) -> Prepared:
    ready = _prepared(study, task, sites)
    try:
        _ = ready.public  # read now, where it can be told
    except (ValueError, OSError) as error:
        problem = f"the public examples cannot be read here: {error}; [public.corpus] names a file that every party has"
        raise StudyError(study.name, [problem]) from None
    return ready


def bound(study: Study) -> BoundTask:
    """The task as the study alone describes it, the same wherever it is read."""
    corpus = study.corpus
    if not hasattr(corpus, "names"):
        reader, corpus = corpus, Declared.by(corpus)
        known: Sequence[object] = corpus.labels
        table, key = "corpus", "relations" if hasattr(reader, "declared") else "labels"
        if study.task.types is not None:
            known, table, key = study.task.types or corpus.types, "task", "types"
        shape = '["…", "…"]'
        if getattr(reader, "aligned", False) and known:
            known, key, shape = getattr(reader, "pairs", ()), "pairs", '[["…", "…"]], the types of head and tail,'
        if not known:
            remedy = f"add {key} = {shape} to [{table}]"
            raise StudyError(
                study.name, [f"{table}.{key} is missing: real sites cannot look into each other's notes; {remedy}"]
            )
    try:
        task: BoundTask = study.task.bind(corpus)
    except ValueError as error:
        raise StudyError(study.name, [str(error)]) from None
    return task


def _assembled(
    study: Study,
    task: BoundTask,
    sites: Prepared,
    raw: Sites | None,
    memory: Path,
    device: Device,
    guards: Guards | None = None,
) -> Built:
    """The initial weights, and all that follows from them."""
    private = study.sites.private
    torch.default_generator.manual_seed(seeded(study.seed, "weights"))
    try:
        model = task.model()
    except (ValueError, OSError) as error:  # a file of vectors or an encoder's folder that is not there, or not one
        raise StudyError(study.name, [str(error)]) from None
    if why := statistics(model, apart=study.dp is not None):
        raise StudyError(study.name, [why])
    parts = [name for name, _ in model.named_children()]
    if unknown := [name for name in private if name not in (*parts, "all")]:
        near = nearest(unknown[0], parts)
        hint = f"did you mean {near!r}?" if near else f"it has {', '.join(parts)}"
        raise StudyError(study.name, [f"sites.private names {unknown[0]!r}, which is not a part of the model; {hint}"])
    weights = Weights({name: w for name, w in Weights.of_model(model).items() if not belongs(name, private)})
    layouts = {"model": weights.layout, "counts": task.counts()}
    try:
        sizes = {**task.sizes(), **study.method.sizes(task, weights)}
    except ValueError as error:  # the method asks more of the task than it has
        raise StudyError(study.name, [str(error)]) from None
    if sites.public is not None:
        sizes["public"] = len(sites.public)
    manifest = Manifest(layouts, sizes, weights.flat.dtype, study.method.dtypes())
    host = Host(study.method, task, sites, memory, study.layers, private, manifest, guards=guards, device=device)
    return Built(study, task, sites, host, weights, manifest, raw)


def drawn(study: Study, names: tuple[str, ...], round_: int) -> tuple[str, ...]:
    """The sites of a round, drawn without replacement from (seed, round)."""
    count = min(study.sites.per_round or taking_part(study.sites.fraction, len(names)), len(names))
    if count == len(names):
        return names
    rng = np.random.default_rng(seeded(study.seed, round_, "cohort"))
    return tuple(sorted(names[int(index)] for index in rng.choice(len(names), count, replace=False)))
