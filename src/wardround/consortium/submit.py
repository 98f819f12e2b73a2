"""Running a study over real sites: wait for them, run, wait again when too few are left, go on.

over = Consortium(folder)
result = submit(study, out, over, wait=600.0, say=print)
"""

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from wardround.consortium.answers import PLACE as ANSWERS
from wardround.consortium.answers import Answers
from wardround.consortium.asking import clock_time
from wardround.consortium.delivery import bring
from wardround.consortium.deployed import study_hash
from wardround.consortium.forms import read_charter
from wardround.consortium.greeted import note_greeted, note_versions
from wardround.consortium.notify import notify, read_notify
from wardround.consortium.roster import read_roster
from wardround.consortium.submitted import note_run
from wardround.core.cohort import BelowQuorum
from wardround.core.doing import NOTICE, WAITING, doing, noticed
from wardround.core.exchange import Fault
from wardround.core.files import write
from wardround.core.layer import Layer
from wardround.engines.frames import door_of
from wardround.engines.pace import Pace
from wardround.engines.remote import PATIENCE, Remote
from wardround.engines.seal import Asker, read_signing_key
from wardround.layers.bound import ENOUGH, oversized
from wardround.layers.ledger import Ledger
from wardround.layers.masks import of_all
from wardround.layers.small_counts import uncounted
from wardround.runs.build import Built, build_apart
from wardround.runs.errors import RunError
from wardround.runs.files import COUNTS, METRICS, VOID, Round, read_journal
from wardround.runs.fitting import taking_part
from wardround.runs.folder import Result, Taken, locked
from wardround.runs.guards import guards
from wardround.runs.loop import Progress, run
from wardround.runs.stopping import Stopped, forget_stop, leave_if_asked
from wardround.runs.window import Clock, Window
from wardround.study.load import Study

Say = Callable[[str], None]
TRIES = 3  # of one round


class TooFew(RunError):
    """Fewer sites than the quorum were ready when the time was up."""


@dataclass
class Consortium:
    """The sites of a consortium, as `run` takes them."""

    folder: Path
    deadline: float = 3600.0
    patience: float = PATIENCE
    trust_sizes: bool = False
    """Whether a site may have far more examples than the others."""
    names: tuple[str, ...] = field(init=False)
    declared: dict[str, dict[str, int]] = field(default_factory=dict, init=False)
    """What each site has at most, by split, as it said at the start."""
    left: dict[str, int] = field(default_factory=dict, init=False)
    """How many answers each site's approval had left then."""
    versions: dict[str, str] = field(default_factory=dict, init=False)
    """Which version of wardround each site runs, as its last answer said."""
    pace: Pace = field(default_factory=Pace, init=False)
    """How long each site has needed; where too few answered in time, the next try knows it."""

    def __post_init__(self) -> None:
        self.names = tuple(sorted(read_charter(self.folder).sites))

    def build(self, study: Study, out: Path) -> Built:
        """What the coordinator has of the study: no data."""
        return build_apart(study, out, self.names)

    def engine(self, built: Built, ledger: Ledger, out: Path) -> Remote:
        """The lines to the sites."""
        keep = partial(VOID.write, out)
        remote = self.remote(
            built.study, out, ledger=lambda: ledger.head, void=VOID.read(out), keep=keep,
            whole=lambda: _done(built.study, out),
        )  # fmt: skip
        ledger.run, ledger.theirs = remote.mark["run"], remote.heads
        return remote

    def layers(self, built: Built, engine: Remote) -> tuple[Layer, ...]:
        """The bound on what one site can do to the model, and the study's rule."""

        def declared(name: str) -> dict[str, int] | None:
            if name not in self.declared:  # it was not there at the start
                engine.ready([name], built.study.rounds)
                self.declared |= engine.declared
            return self.declared.get(name)

        barred = {} if self.trust_sizes else oversized(self.declared)
        return guards(built.study, always=True, declared=declared, barred=barred)

    def remote(self, study: Study, out: Path, **options: Any) -> Remote:
        """The lines to the sites, for this run and no other: sites keep apart what they keep for each."""
        mark = out / "run.id"
        if not mark.exists():
            write(mark, secrets.token_hex(8).encode())
        run_id = mark.read_text(encoding="ascii")
        door = door_of(self.folder)
        signing = read_signing_key(self.folder / "keys" / "ask.key")
        desk = Asker(signing, {name: member.seal for name, member in read_roster(self.folder).items()})
        known = Answers(self.folder / ANSWERS)
        plain = {
            "deadline": self.deadline, "patience": self.patience, "title": study.name, "recollection": known,
            "pace": self.pace, "versions": self.versions,
        }  # fmt: skip
        options = {**plain, **options}
        return Remote(door, desk, study_hash(study), run_id, **options)


def submit(
    study: Study,
    out: Path,
    over: Consortium,
    *,
    wait: float = 600.0,
    resume: bool = False,
    alone: bool = False,
    progress: Progress | None = None,
    say: Say = lambda _: None,
    show: Say | None = None,
    clock: Clock | None = None,
) -> Result:
    """Run a study over the consortium's sites; below the quorum, wait for them to come back, but not for ever.

    `show` is told what takes its time. Whoever the coordinator has told to (`notify`) hears how it ended.
    """
    settings, facts = read_notify(over.folder), {"consortium": over.folder.resolve().name, "study": study.name}
    noticed = False

    def short() -> None:
        nonlocal noticed
        if not noticed:
            notify(settings, say, "below-quorum", **facts)
        noticed = True

    def passed(line: Round) -> None:
        nonlocal noticed
        noticed = False
        if progress:
            progress(line)

    try:
        result = _submit(study, out, over, wait, resume, alone, passed, say, show, short, clock or Clock())
    except (KeyboardInterrupt, Stopped, Taken):  # the run that is in that folder has not failed
        raise
    except Exception as error:
        if isinstance(error, TooFew) and not (out / "study.toml").exists():
            notify(settings, say, "below-quorum", **facts, outcome="nothing was begun")  # so no run has failed
            raise
        if isinstance(error, TooFew):
            short()
        notify(settings, say, "failed", **facts, error=type(error).__name__)
        raise
    notify(settings, say, "finished", **facts, rounds=result.rounds)
    by_label = tally.examples if (tally := COUNTS.read(out)) else ()
    for words in uncounted(over.declared, result.metrics.get("examples", math.inf), by_label) if not study.dp else ():
        say(words)
    return result


def _submit(
    study: Study,
    out: Path,
    over: Consortium,
    wait: float,
    resume: bool,
    alone: bool,
    progress: Progress,
    say: Say,
    show: Say | None,
    short: Callable[[], None],
    clock: Clock,
) -> Result:
    study = quorate(study, over.names, alone=alone)
    over.build(study, out)  # its mistakes come before any waiting
    began = (out / "study.toml").exists()
    if began and not resume:
        raise Taken(f"{out} holds a run already; go on with --resume, or choose another --out")
    tries = 0
    forget_stop(out)
    note_run(over.folder, out, study.name)

    few = len(over.names)

    def noted(line: Round) -> None:
        nonlocal few, tries
        tries = 0
        note_versions(out, over.versions, line.left_out)
        if line.sites < min(few, ENOUGH):
            few = line.sites
            say(f"round {line.round}: {_exposed(few)}")
        progress(line)

    while True:
        try:
            if not (began and _done(study, out)):
                with locked(out), noticed(out / NOTICE, show):
                    _in_window(study, out, over, clock, say)
                    few = min(few, wait_for_sites(study, out, over, wait, say, short))
            result = run(
                study, out, resume=resume, progress=noted, checkpoint_seconds=0.0, apart=over, show=show, clock=clock
            )
        except BelowQuorum as error:
            tries += 1
            if tries == TRIES:  # sites that are there and fail again and again are not waited for
                raise
            say(f"{error}; waiting for sites to come back")
            short()
            resume = True
        else:
            bring(over.remote(study, out), out, over.names, say)
            return result


def _in_window(study: Study, out: Path, over: Consortium, clock: Clock, say: Say) -> None:
    """Wait until rounds may start, but first say of each site how it is: what is wrong can be mended by then."""
    window = Window(study.schedule, out, clock)
    if window.closed:
        remote = over.remote(study, out)
        states = remote.ready(over.names, study.rounds)
        remote.close()
        over.left |= remote.left
        note_greeted(out, states, over.left, over.versions)
        for name, why in states.items():
            say(f"{name}: {why or 'ready'}")
        window.wait()


def quorate(study: Study, names: Sequence[str], *, alone: bool = False) -> Study:
    """The study with the quorum of real sites: two, unless it says otherwise or one is to be enough."""
    if len(names) == 1 and not alone:
        raise RunError(f"{_exposed(1)}; if that is meant: submit --alone")
    if "quorum" in study.sites.model_fields_set:
        return study
    part = study.sites.per_round or taking_part(study.sites.fraction, len(names))
    sites = study.sites.model_copy(update={"quorum": 1 if alone else min(2, part)})
    return replace(study, sites=sites)


def _exposed(sites: int) -> str:
    """What so few sites means."""
    if sites == 1:
        return "a federation of one: the coordinator can read its updates as they are"
    return f"{sites} sites: a median of fewer than {ENOUGH} protects nobody, one that lies can spoil the model unseen"


def _done(study: Study, out: Path) -> bool:
    metrics = METRICS.read(out)
    return metrics is not None and metrics.rounds >= study.rounds


def needed(study: Study, names: Sequence[str]) -> int:
    """How many sites a run begins with at least: its quorum, or all of them where every sum is of all."""
    if of_all(study.layers):
        return len(names)
    return max([study.sites.quorum, *(layer.quorum for layer in study.layers)])


def wait_for_sites(study: Study, out: Path, over: Consortium, wait: float, say: Say, short: Callable[[], None]) -> int:
    """Wait until all sites are ready, or until the time is up and the quorum is; how many are.

    `short` is called when the quorum is not there after the time that a site needs to be linked; `TooFew` after all of
    it.
    """
    out.mkdir(parents=True, exist_ok=True)
    quorum = needed(study, over.names)
    rest = study.rounds - max((line.round for line in read_journal(out)), default=0)
    remote = over.remote(study, out)
    began = time.monotonic()
    end = began + wait
    until = clock_time(wait)
    last = ""
    try:
        while True:
            leave_if_asked(out, "while it waited for sites")
            states = remote.ready(over.names, study.rounds)
            over.declared |= remote.declared
            over.left |= remote.left
            if not over.trust_sizes:
                there = {name: over.declared[name] for name, why in states.items() if not why and name in over.declared}
                states |= {name: Fault("refused", why) for name, why in oversized(there).items()}
            note_greeted(out, states, over.left, over.versions)
            missing = {name: why for name, why in states.items() if why is not None}
            ready = len(states) - len(missing)
            if not missing:
                say(f"all {ready} sites are ready")
                _introduce(study, states, over, rest, say)
                return ready
            reasons = "; ".join(f"{name}: {why}" for name, why in missing.items())
            refused = [name for name, why in missing.items() if why and why.code == "refused"]
            if (news := f"{ready} of {len(states)} sites ready, waiting until {until} ({reasons})") != last:
                say(news)
                doing(f"{WAITING} until {until}: {ready} of {len(states)} are ready")
                last = news
            # A site that refuses will not change its mind by being waited for, unless it is needed.
            if ready >= quorum and (time.monotonic() >= end or len(refused) == len(missing)):
                say(f"going on with {ready} of {len(states)} sites, the quorum is {quorum}")
                _introduce(study, states, over, rest, say)
                return ready
            if ready < quorum and began + over.patience <= time.monotonic() < end:
                short()
            if time.monotonic() >= end:
                raise TooFew(
                    f"{ready} of {len(states)} sites are ready, the quorum is {quorum}: {reasons}; "
                    f"nothing is lost: try again later, with --resume if it had begun"
                )
            time.sleep(0.5)
    finally:
        remote.close()


def _introduce(study: Study, states: Mapping[str, Fault | None], over: Consortium, rest: int, say: Say) -> None:
    """Say of each site how much it has at most, how it is, and whether its approval will do for the rest of rounds."""
    for name, why in states.items():
        declared = over.declared.get(name, {})
        sizes = f", at most {' and '.join(f'{most:,} {split}' for split, most in declared.items())} examples"
        if study.dp:
            sizes = f", up to about {declared.get('train', 0):,} {study.dp.unit}s to train on, counted with noise"
        say(f"{name}: {why or 'ready'}" + sizes * bool(declared))
        if why is None and (left := over.left.get(name, rest)) < rest:
            spent = "is spent: it repeats what it has answered, and no more"
            words = f"has {left} answer{'s' * (left > 1)} left" if left else spent
            say(f"{name}: its approval {words}; there: wardround site approve --again")
    ready = sum(why is None for why in states.values())
    if ready < ENOUGH:
        say(_exposed(ready))
