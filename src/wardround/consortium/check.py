"""All that can be wrong at a site, found before anything starts; and what a study would make leave it.

for finding in checked(folder, study): print(finding)
"""

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from wardround.consortium.forms import read_membership
from wardround.consortium.identity import others, pinned, seen
from wardround.consortium.kit_check import kit_address, kit_problems, lasting, reach
from wardround.consortium.labels import labels_of, odd, proposed
from wardround.consortium.private_site import unaffordable, unfit, unwilling
from wardround.consortium.settings import SiteSettings, read_site
from wardround.core.cohort import Seen
from wardround.core.task import SiteData
from wardround.engines.certificates import same_fingerprint
from wardround.engines.proxy import proxy_for
from wardround.layers.masks import Masks
from wardround.privacy.journal import Tampered
from wardround.privacy.words import short
from wardround.runs.build import bound, build_at_site
from wardround.runs.errors import RunError
from wardround.runs.protocol import exchanged
from wardround.study.load import Study
from wardround.study.settings import StudyError
from wardround.text.facts import UNRELATED
from wardround.text.shown import names_of, shown, unlike_names

FEW = 20  # examples that show what a message looks like
MOST = 20  # unknown labels that are listed
ROOM = 1 << 28  # bytes of disk and memory that a site needs besides the model


@dataclass(frozen=True)
class Inspection:
    """One thing that was looked at: what, how it is, and whether that is in order or a question for a person."""

    what: str
    detail: str
    good: bool = True
    asks: bool = False

    @property
    def mark(self) -> str:
        """What stands before it on a screen."""
        return "?? " if self.asks else "ok " if self.good else "BAD"


def checked(folder: Path, study: Study | None, *, online: bool = True) -> Iterator[Inspection]:
    """What was looked at, in order; what is not good says what to do."""
    try:
        settings = read_site(folder)
    except StudyError as error:
        yield from (Inspection("settings", problem, good=False) for problem in error.problems)
        return
    where = f"{settings.threads} thread(s), on {settings.device.kind} in {settings.device.precision}"
    yield Inspection("settings", f"site {settings.name}, {where}")
    startup = folder / "kit" / "startup"
    problems = list(kit_problems(folder))
    yield from (Inspection("kit", problem, good=False) for problem in problems)
    if not problems:
        yield Inspection("kit", f"key and certificates are in order, as is the clock by them, {lasting(startup)}")
        if online:
            host, port = kit_address(folder / "kit")
            detail = reach(startup, host, port)
            way = f", through the proxy {proxy}" if detail is None and (proxy := proxy_for(host)) else ""
            yield Inspection("address", detail or f"{host}:{port} answers and knows this kit{way}", good=detail is None)
    if study is not None:
        yield from _of_study(folder, settings, study)
        for masks in (layer for layer in study.layers if isinstance(layer, Masks)):
            yield from _keys(folder, masks.fewest, must=settings.consent.pinned)


def _keys(folder: Path, fewest: int, *, must: bool) -> Iterator[Inspection]:
    """Whose keys this site knows by itself: for the others it takes the coordinator's word, unless it must not."""
    try:
        names, known, shown = others(folder), pinned(folder), seen(folder)
    except RunError as error:
        yield Inspection("keys", str(error), good=False)
        return
    remedy = f"compare fingerprints over the phone: wardround site trust {folder}"
    for name in [name for name in known if not same_fingerprint(known[name], shown.get(name, known[name]))]:
        yield Inspection("keys", f"the coordinator shows another key of {name} than is pinned; {remedy}", good=False)
    if must and len(known) < fewest - 1:
        words = (
            f"the keys of {len(known)} other sites are pinned, and a sum takes {fewest - 1} at least beside this one"
        )
        yield Inspection("keys", f"{words}; {remedy}", good=False)
    if missing := [name for name in names if name not in known]:
        what = "this site joins no sum with them" if must else "a coordinator that lies could pose as them"
        words = f"the keys of {', '.join(missing[:MOST])} are not pinned: {what}"
        yield Inspection("keys", f"{words}; {remedy}", asks=True)
    elif known:
        yield Inspection("keys", f"the keys of all {len(known)} others that this site knows of are pinned")
    elif not must:
        yield Inspection("keys", f"no key is pinned: a coordinator that lies could pose as others; {remedy}", asks=True)


def _afforded(settings: SiteSettings, study: Study) -> Iterator[Inspection]:
    """Whether what is left of the site's budget does for the study."""
    try:
        if why := unaffordable(settings, study):
            yield Inspection("budget", why, asks=True)
    except Tampered as error:
        words = "no study with privacy.dp is answered until the file is as it was written"
        yield Inspection("budget", f"{error}; {words}", good=False)


def _of_study(folder: Path, settings: SiteSettings, study: Study) -> Iterator[Inspection]:
    if why := unwilling(settings, study):
        yield Inspection("budget", why, good=False)
        return
    yield from _afforded(settings, study)
    try:
        train, test, *valid = parts = settings.parts(study)
        task = bound(study)
    except StudyError as error:
        yield from (Inspection("data", problem, good=False) for problem in error.problems)
        return
    except (ValueError, LookupError, OSError) as error:
        yield Inspection("data", str(error).replace("in [corpus]", "in [data] of site.toml"), good=False)
        return
    if not len(train):
        yield Inspection("data", "there are no training examples for this task; see [data] in site.toml", good=False)
        return
    yield Inspection("data", f"{len(train):,} training and {len(test):,} test examples")
    unknown = list(_unknown_labels(task.names(), labels_of(task, *parts)))
    yield from (Inspection("labels", problem, good=False) for problem in unknown)
    if unknown:
        return
    try:
        built = build_at_site(study, folder, [settings.name], parts, settings.device)
        data = built.sites.open(settings.name)
    except (ValueError, LookupError, OSError) as error:  # a word-vector file or an encoder that is not here, say
        yield _unready(folder, error)
        return
    if encoder := study.task.files().get("encoder"):
        yield Inspection("encoder", f"{encoder} is here, and can be read")
        yield from (Inspection("encoder", f"{words}; is that meant?", asks=True) for words in built.doubts)
    yield from _enough(settings, study, data, given=bool(valid))
    yield from _protected(settings, study, built.task, data)
    yield Inspection("labels", "the study knows all of them")
    if hasattr(train, "documents"):
        questions = _questions(settings, study, task, labels_of(task, train))
        yield from (Inspection("labels", f"{question}; is that so?", asks=True) for question in questions)
    size = built.weights.flat.nbytes
    free, memory = shutil.disk_usage(folder).free, psutil.virtual_memory().available
    for what, have, need in (("disk", free, 10 * size + ROOM), ("memory", memory, 10 * size + ROOM)):
        room = f"{have / 1e9:.1f} GB free, {need / 1e9:.1f} GB needed"
        yield Inspection(what, room if have >= need else f"{room}; make room", good=have >= need)


def _unready(folder: Path, error: Exception) -> Inspection:
    """Why the site's examples cannot be had as the study takes them."""
    words = str(error).replace("in [corpus]", "in [data] of site.toml")
    if words.startswith("privacy.dp"):
        return Inspection("privacy", words, good=False)
    return Inspection("task", f"{words}; files that a study names are looked for in {folder}", good=False)


def _protected(settings: SiteSettings, study: Study, task: Any, data: SiteData) -> Iterator[Inspection]:
    """Whether the notes fit the study's differential privacy, if it has it."""
    if study.dp is None:
        return
    problems = unfit(settings, study, task, data)
    yield from (Inspection("privacy", problem, good=False) for problem in problems)
    if not problems:
        yield Inspection("privacy", short(study.dp.model_dump()))


def _enough(settings: SiteSettings, study: Study, data: SiteData, *, given: bool) -> Iterator[Inspection]:
    """Whether what the study sets aside for validation is there, and whether answers on so few examples leave."""
    least, valid = settings.consent.least_examples, data.valid
    if study.validation is not None and valid is not None:
        how = "as [data] names them" if given else f"set aside by {study.validation.by}"
        if len(valid):
            yield Inspection("data", f"{len(valid):,} validation examples, {how}; {len(data.train):,} to train on")
        else:
            none = "there are no validation examples: the other sites choose the round whose model is kept"
            yield Inspection("data", f'{none}; name some with valid = "…" in [data]', asks=True)
    for part, name in ((data.train, "training"), (data.test, "test"), (valid, "validation")):
        if part is not None and 0 < len(part) < least:
            few = f"{len(part)} {name} examples, and consent.least_examples = {least}: no answer would leave"
            yield Inspection("data", f"{few}; add notes, or lower it in site.toml", good=False)


def _unknown_labels(known: Sequence[str], counts: Counter[str]) -> Iterator[str]:
    """Labels (or types of entities) of the data that the study does not know, and what to do with each."""
    names = names_of(counts, known)
    unknown = sorted(counts.keys() - set(known), key=lambda label: (label not in names, label)) if known else []
    if unknown and (why := unlike_names(counts)):
        yield f"the labels do not look like labels: {why}; does [data] name the right column?"
    for label in unknown[:MOST]:
        same = proposed(label, known)
        key = _key(label) if label in names else "…"
        choice = f'{key} = "{same}"' if same else f"{key} = …; choose one of {', '.join(known)}"
        yield f"label {shown(label, names)} is not in the study; map it under [labels] in site.toml: {choice}"
    if len(unknown) > MOST:
        yield f"and {len(unknown) - MOST:,} more labels that are not in the study; does [data] name the right column?"


def _questions(settings: SiteSettings, study: Study, task: Any, counts: Counter[str]) -> Iterator[str]:
    """What in the labels of the data, or in the map, a person should look at."""
    unrelated = (UNRELATED, task.answers().get("negative", ""))  # the label of what is not a fact or a relation
    known = [label for label in task.names() if label not in unrelated]
    raw = counts
    if settings.labels:
        with contextlib.suppress(ValueError, LookupError, OSError):  # a reader that needs the map to read at all
            raw = labels_of(task, replace(settings, labels={}).examples(study)[0])
    yield from odd(known, counts, raw, settings.labels)


def _key(label: str) -> str:
    return label if label.isascii() and label.replace("_", "").replace("-", "").isalnum() else f'"{label}"'


def leaving(folder: Path, settings: SiteSettings, study: Study) -> list[Seen]:
    """What would leave this site in two rounds and an evaluation, from a rehearsal on a few of its examples."""
    few = [part.take(np.arange(min(len(part), FEW))) for part in settings.parts(study)]
    names = {settings.name}
    if any(layer.names_cohort for layer in study.layers):  # what leaves is longer the more sites there are
        with contextlib.suppress(RunError):
            names |= {*read_membership(folder / "kit").sites}
    fewest = max([2, *(layer.quorum for layer in study.layers)])
    spare = (f"site-{number}" for number in count())
    while len(names) < fewest:
        names.add(next(spare))
    with tempfile.TemporaryDirectory(dir=folder) as memory:
        seen = exchanged(build_at_site(study, Path(memory), sorted(names), few))
    own = {one.place: one for one in seen if one.site == settings.name}
    return [*{one.place: own.get(one.place, one) for one in seen}.values()]  # it may not be drawn for a round
