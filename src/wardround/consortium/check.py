"""All that can be wrong at a site, found before anything starts; and what a study would make leave it.

for finding in checked(folder, study): print(finding)
"""

import contextlib
import difflib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardround.build import bound, build_at_site
from wardround.consortium.kits import certificate_problems, key_problems, kit_address, lasting, reach
from wardround.consortium.settings import SiteSettings, read_site
from wardround.core.cohort import Seen
from wardround.corpora.federation import Raw
from wardround.corpora.shown import names_of
from wardround.protocol import exchanged
from wardround.study import Study, StudyError

__all__ = ["Finding", "checked", "leaving"]

FEW = 20  # examples that show what a message looks like
ROOM = 1 << 28  # bytes of disk and memory that a site needs besides the model


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what, how it is, and whether that is in order."""

    what: str
    said: str
    good: bool = True


def checked(folder: Path, study: Study | None, *, online: bool = True) -> Iterator[Finding]:
    """What was looked at, in order; what is not good says what to do."""
    try:
        settings = read_site(folder)
    except StudyError as error:
        yield from (Finding("settings", problem, good=False) for problem in error.problems)
        return
    yield Finding("settings", f"site {settings.name}, {settings.workers} thread(s)")
    startup = folder / "kit" / "startup"
    problems = [*key_problems(startup / "client.key"), *(certificate_problems(startup) if startup.is_dir() else ())]
    yield from (Finding("kit", problem, good=False) for problem in problems)
    if not problems:
        yield Finding("kit", f"key and certificates are in order, as is the clock by them, {lasting(startup)}")
        if online:
            host, port = kit_address(folder / "kit")
            said = reach(startup, host, port)
            yield Finding("address", said or f"{host}:{port} answers and knows this kit", good=said is None)
    if study is not None:
        yield from _of_study(folder, settings, study)


def _of_study(folder: Path, settings: SiteSettings, study: Study) -> Iterator[Finding]:
    try:
        train, test = settings.examples(study)
        task = bound(study)
    except StudyError as error:
        yield from (Finding("data", problem, good=False) for problem in error.problems)
        return
    except (ValueError, LookupError, OSError) as error:
        yield Finding("data", str(error), good=False)
        return
    if not len(train):
        yield Finding("data", "there are no training examples for this task; see [data] in site.toml", good=False)
        return
    yield Finding("data", f"{len(train):,} training and {len(test):,} test examples")
    unknown = list(_unknown_labels(task, train, test))
    yield from (Finding("labels", problem, good=False) for problem in unknown)
    if unknown:
        return
    try:
        built = build_at_site(study, folder, [settings.name], (train, test))
        built.sites.open(settings.name)
    except (ValueError, LookupError, OSError) as error:  # a word-vector file or an encoder that is not here, say
        yield Finding("task", f"{error}; files that a study names are looked for in {folder}", good=False)
        return
    yield Finding("labels", "the study knows all of them")
    size = built.weights.flat.nbytes
    free, memory = shutil.disk_usage(folder).free, _free_memory()
    for what, have, need in (("disk", free, 10 * size + ROOM), ("memory", memory, 10 * size + ROOM)):
        said = f"{have / 1e9:.1f} GB free, {need / 1e9:.1f} GB needed"
        yield Finding(what, said if have >= need else f"{said}; make room", good=have >= need)


def _unknown_labels(task: Any, *parts: Raw) -> Iterator[str]:
    """Labels (or types of entities) of the data that the study does not know, each with the nearest that it does."""
    documents = [document for part in parts for document in getattr(part, "documents", ())]
    if hasattr(task, "types"):
        known = list(task.types)
        found = Counter(task.settings.renamed(entity.type) for document in documents for entity in document.entities)
        found.pop("", None)
    else:
        known = list(getattr(task, "labels", ()))
        found = Counter(label for document in documents for label in document.labels)
    names = names_of(found, known)
    if hidden := found.keys() - names if known else set[str]():
        what = f"{len(hidden)} labels are not in the study, and occur once or are too long to be names"
        yield f"{what}; is the column the right one? Mend them, or map them under [labels] in site.toml"
    for label in sorted(found.keys() & names - set(known)) if known else ():
        lower = {name.lower(): name for name in known}
        near = difflib.get_close_matches(label.lower(), lower, 1, 0.3)
        target = lower[near[0]] if near else known[0]
        yield f'label "{label}" is not in the study; map it under [labels] in site.toml: {_key(label)} = "{target}"'


def _key(label: str) -> str:
    return label if label.isascii() and label.replace("_", "").replace("-", "").isalnum() else f'"{label}"'


def _free_memory() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 62


def leaving(folder: Path, settings: SiteSettings, study: Study) -> list[Seen]:
    """What would leave this site in two rounds and an evaluation, from a rehearsal on a few of its examples."""
    few = tuple(part.take(np.arange(min(len(part), FEW))) for part in settings.examples(study))
    with tempfile.TemporaryDirectory(dir=folder) as memory:
        return exchanged(build_at_site(study, Path(memory), ["a", "b"], (few[0], few[1])))
