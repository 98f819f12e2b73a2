"""The studies that a site has approved, as it has them: read, built from its own data, and each run's last exchange.

    studies = Studies(folder, log)
    approval = studies.approved(study)                  # by hash; a `Denial` if there is none
    run = studies.run(study, "0123456789abcdef", fresh=True)
    run.admit(exchange, digest)                         # the last reply again, or None: a new exchange

What the hospital decides holds from the next ask on: `site.toml` and approvals are read anew when they have changed,
and so are data when a run begins.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from wardround.consortium.approval import Approval, approval_file, data_fingerprint, read_approval
from wardround.consortium.budget import Denial
from wardround.consortium.deployed import study_hash
from wardround.consortium.exchanges import Expected, expected_exchanges, sites_of
from wardround.consortium.identity import HouseVault
from wardround.consortium.private_site import admit_terms, greet, read_beside, site_guards
from wardround.consortium.reach import Reach
from wardround.consortium.settings import SiteSettings, read_site, site_study
from wardround.core.device import CPU
from wardround.core.exchange import Exchange
from wardround.core.files import write
from wardround.core.task import SiteData, Units
from wardround.engines.host import Host, describe
from wardround.layers.kept_back import KeptBack
from wardround.layers.least import LeastExamples
from wardround.layers.masks import of_all
from wardround.layers.small_counts import SmallCounts
from wardround.privacy.guards import Guards
from wardround.runs.build import Built, build_at_site
from wardround.study.load import Study
from wardround.study.settings import StudyError

Frame = tuple[dict[str, Any], bytes]
RUNS = 16  # kept at hand; a coordinator may name as many as it likes


@dataclass(frozen=True)
class Ready:
    """A study as this site has it: built from its own data, whose fingerprint is known."""

    built: Built
    expected: Expected
    reach: Reach
    data: str
    beside: tuple[bytes, ...]
    """What stands for the files that it was built from besides its data, under differential privacy."""
    sizes: Mapping[str, int]
    """How many examples it has of each split, rounded up to a power of two: all that is told of it beforehand."""
    thin: bool
    """Whether it has too few of some for an answer to leave, where a sum of all sites would wait for it in vain."""


@dataclass
class Run:
    """One run of an approved study at this site."""

    ready: Ready
    host: Host
    memory: Path
    guards: Guards | None = None
    """What stands before its notes, in a study with differential privacy."""
    last: tuple[int, int, int] = (-1, -1, -1)
    """The newest exchange asked for: attempt, round, number."""
    message: str = ""
    reply: Frame | None = field(default=None, repr=False)

    def greet(self, name: str) -> str:
        """Pay for what is told before a run, where it has a price; the head of the budget's journal."""
        return greet(self.guards, name, self.ready.built.sites.open(name)) if self.guards else ""

    def admit(self, exchange: Exchange, digest: str) -> Frame | None:
        """Let a new exchange pass (None), answer the last one again, refuse all others.

        Of a layer's own exchanges the ledger alone knows after a crash: another ask in place of one that was answered
        is refused by that (`Budget`), and so is what may not happen twice in a sum (`core.vault`).
        """
        now = (len(exchange.resumed), exchange.round, exchange.number)
        if now < self.last or (now == self.last and digest != self.message):
            raise Denial("stale")
        if now > self.last and exchange.step in self.ready.expected.own:
            self.last, self.message, self.reply = now, digest, None
        elif now > self.last:
            write(
                self.memory / "last.json",
                json.dumps({"last": now, "message": digest, "resumed": exchange.resumed}).encode(),
            )
            self.last, self.message, self.reply = now, digest, None
        return self.reply


class Studies:
    """What one site has of the studies that it takes part in."""

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self.folder, self.log = folder, log
        self.settings: SiteSettings = read_site(folder)
        self.name = self.settings.name
        self.runs: dict[tuple[str, str, int], Run] = {}
        self.stamp: tuple[tuple[str, int, int], ...] = ()
        """The site's files as they were when they were last read."""
        self.read = lru_cache(maxsize=1)(self._read)
        self.ready = lru_cache(maxsize=4)(self._ready)
        self.approval = lru_cache(maxsize=64)(self._approval)

    def run(self, study: str, run: str, *, fresh: bool) -> Run:
        """The run as this site knows it; with fresh data, if a run begins, announced or not, and they have changed."""
        if not (run.isalnum() and run.isascii() and len(run) <= 64):
            raise Denial("study")
        changed = _changed(self.folder / "site.toml")
        try:
            self.settings = self.read(changed)
        except StudyError:
            self.log("settings: site.toml is not in order; run wardround site check")
            raise Denial("settings") from None
        key = (study, run, changed)
        if (fresh or key not in self.runs) and (stamp := _stamp(self.folder, self.settings)) != self.stamp:
            self.ready.cache_clear()
            self.runs.clear()
            self.stamp = stamp
        if key not in self.runs:
            self.runs = {known: value for known, value in self.runs.items() if known[2] == changed}
            ready = self.ready(study, changed)
            if ready.beside != _beside(ready.built.study):  # another file of word vectors has come since
                self.ready.cache_clear()
                ready = self.ready(study, changed)
            memory = self.folder / "memory" / study[:16] / run
            consent, built = self.settings.consent, ready.built
            own = (SmallCounts(consent.smallest_count), LeastExamples(consent.least_examples))
            kept = () if consent.label_counts else (KeptBack(),)
            # What it does not tell it does not tell behind a mask either.
            layers = (*self.settings.layers, *kept, *own, *built.study.layers)
            private, wanted = built.study.sites.private, built.study
            vault = HouseVault(self.folder, study, run, pinned=consent.pinned) if wanted.layers else None
            guards = site_guards(self.settings, wanted, study, run, ready.data, ready.beside) if wanted.dp else None
            host = Host(
                wanted.method, built.task, built.sites, memory, layers, private, built.manifest, vault,
                guards=guards, device=built.host.device,
            )  # fmt: skip
            while len(self.runs) >= RUNS:  # each holds a reply; what must last is on the disk
                del self.runs[next(iter(self.runs))]
            self.runs[key] = known = Run(ready, host, memory, guards)
            with contextlib.suppress(FileNotFoundError):
                last = json.loads((memory / "last.json").read_text(encoding="utf-8"))
                known.last, known.message = tuple(last["last"]), last["message"]
        return self.runs[key]

    def approved(self, study: str) -> Approval:
        """What was agreed to for this study, which may be taken back or added to at any time."""
        if not (study.isalnum() and study.isascii() and len(study) == 64):
            raise Denial("study")
        place = approval_file(self.folder, study)
        approval = self.approval(study, _changed(place), _changed(place.with_suffix(".toml")))
        if approval is None:
            raise Denial("study")
        return approval

    def _approval(self, study: str, *_changed: int) -> Approval | None:
        try:
            return read_approval(self.folder, study)
        except ValueError:
            self.log("approved: an approval cannot be read; give it again with wardround site approve")
            return None

    def _read(self, _changed: int) -> SiteSettings:
        return read_site(self.folder)

    def _ready(self, study: str, _changed: int) -> Ready:
        path = approval_file(self.folder, study).with_suffix(".toml")
        try:
            settings = site_study(self.folder, path.read_text(encoding="utf-8"), str(path))
            if study_hash(settings) != study:  # a module of the hospital's own was changed since
                raise Denial("study")
            examples = self.settings.parts(settings)
            beside = _beside(settings)  # before it is read
            device = CPU if settings.dp else self.settings.device.claim()  # single units' gradients are the CPU's
            built = build_at_site(settings, self.folder, [self.name], examples, device)
            data = built.sites.open(self.name)
            if not len(data.train):
                raise Denial("data")
            admit_terms(self.settings, settings, built.task, data)
        except FileNotFoundError:
            raise Denial("study" if not path.exists() else "data") from None
        except (ValueError, LookupError, OSError) as error:
            self.log(f"data: {describe(error)}; run wardround site check")
            raise Denial("data") from None
        splits = {"train": data.train, "test": data.test, "valid": data.valid}
        mark = data_fingerprint(self.settings, examples)
        plan = None
        counts = {split: len(part) for split, part in splits.items() if part is not None}
        if settings.dp:  # no more is told than what has noise
            plan = site_guards(self.settings, settings, study, "", mark, beside).plan(
                self.name, cast("Units", data.units)
            )
            counts = {"train": plan.size}
        sizes = {split: 1 << max(count - 1, 0).bit_length() for split, count in counts.items()}
        expected = expected_exchanges(settings, len(data.train), sites_of(self.folder))
        reach = Reach(built, self.name, self.settings.consent.largest_change, expected.first, plan)
        if few := _few(settings, self.settings.consent.least_examples, data):
            wanted = "no answer on them would leave, and with privacy.same_members no sum goes without this site"
            self.log(f"few: {few}: {wanted}; add notes, or lower consent.least_examples in site.toml")
        return Ready(built, expected, reach, mark, beside, sizes, bool(few))


def _beside(study: Study) -> tuple[bytes, ...]:
    return tuple(read_beside(study)) if study.dp else ()


def _few(study: Study, least: int, data: SiteData) -> str:
    """The examples on which no answer leaves, where every sum is of all sites; nothing elsewhere."""
    if not of_all(study.layers) or study.dp:  # whose counts are others, with noise
        return ""
    parts = {split: getattr(data, split) or () for split in ("train", *study.evaluation.splits)}
    few = [f"{len(part)} {split} examples" for split, part in parts.items() if 0 < len(part) < least]
    return " and ".join(few)


def _changed(path: Path) -> int:
    """When a file was last changed; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _stamp(folder: Path, settings: SiteSettings) -> tuple[tuple[str, int, int], ...]:
    """Size and time of every file that `[data]` names, or that lies in a folder that it names."""
    named = [folder / value for value in settings.data.values() if isinstance(value, str) and value]
    files = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    with contextlib.suppress(OSError):
        return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file())
    return ()
