"""The round loop: from a study to a run folder, with a journal, a ledger, checkpoints and the model.

    result = run(study, Path("runs/x"), workers=2, resume=True)

A run folder holds `study.toml` (resolved), `journal.jsonl` (one line per round), `ledger/`, `checkpoints/`,
`memory/` (what simulated sites keep), `run.json` (its format, what kind of method, after which rounds it was taken up
again), `void.json` (which replies of real sites did not arrive: what they kept then does not count), `data.json` (sizes
and labels by site), `wire.json` (what crossed the wire), `references.json` (figures that the model should beat),
`counts.json` (what was counted in the round that counts), `curve.json` (precision over recall, if the task has it),
`model/` and, once finished, `intervals.json` (of the final figures) and `metrics.json`. All but the ledger, checkpoints
and the model are typed in `files`.

Rules of this file:
1. A round is a function of state, seed, round and site memory: run again, it gives the same bits.
2. The journal never runs ahead of what can be repeated: on resume it is cut back to the checkpoint.
3. Site memory is written as it is kept; then the ledger, then the journal, then the weights of the best round where
   one is chosen (`choice`), and the checkpoint last: whatever the moment of a crash, nothing that it needs is missing.
4. One process at a time: the run folder is locked while it is worked in.
"""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from wardround.core.cohort import Cohort
from wardround.core.doing import NOTICE, doing, noticed
from wardround.core.layer import Layer
from wardround.core.record import Record
from wardround.core.weights import Weights
from wardround.engines.inline import Pool, Serial
from wardround.engines.remote import Remote
from wardround.federation.describe import describe
from wardround.federation.sites import Sites
from wardround.layers.ledger import Ledger
from wardround.metrics.signs import signs
from wardround.privacy.words import noted
from wardround.runs.apart import Apart
from wardround.runs.build import Built, build
from wardround.runs.checkpoint import Checkpoint, kept_rounds, save
from wardround.runs.choice import Choice
from wardround.runs.errors import RunError
from wardround.runs.exchanges import FirstOfEach, rows
from wardround.runs.files import (
    COUNTS,
    CURVE,
    DATA,
    INTERVALS,
    MEMBERS,
    METRICS,
    Bytes,
    Data,
    Metrics,
    RecallCurve,
    Round,
    Tally,
)
from wardround.runs.fitting import choosing
from wardround.runs.folder import Result, attempts, claim, finished, kind_of, locked, versions
from wardround.runs.guards import guards
from wardround.runs.intervals import intervals_of, tally
from wardround.runs.journal import Journal
from wardround.runs.references import add_references, constants, fitted
from wardround.runs.rounds import Rounds
from wardround.runs.stopping import leave_if_asked, stop_asked
from wardround.runs.window import Clock, Window
from wardround.runs.wire import WIRE
from wardround.study.load import Study
from wardround.trained.folder import write_model

CHECKPOINT_SECONDS = 5.0
Progress = Callable[[Round], None]


def run(
    study: Study,
    out: Path,
    *,
    workers: int = 1,
    strict: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    show_errors: bool = False,
    apart: Apart | None = None,
    corpus: Sites | None = None,
    show: Callable[[str], None] | None = None,
    tell: Callable[[str], None] | None = None,
    clock: Clock | None = None,
) -> Result:
    """Run a study to its end, or go on where a killed run left off.

    `show` is given what takes its time, `tell` what is doubtful before the first round.
    """
    with one_thread(), locked(out), noticed(out / NOTICE, show, sites=apart is not None):
        doing("reading the data")
        built = apart.build(study, out) if apart else build(study, out, corpus)
        checkpoint = claim(study, out, resume=resume)
        if checkpoint is not None and (result := finished(study, out, checkpoint.round)):
            return result
        if MEMBERS.exists(out):  # a further round would ask those again who have left
            raise RunError(f"{out}: sites have left its model or joined it since; run it anew with another --out")
        ledger = Ledger(out / "ledger", sites=apart is None)
        engine: Serial | Pool | Remote
        if apart:
            engine = apart.engine(built, ledger, out)
            layers = apart.layers(built, engine)
        else:
            several = min(workers, len(built.sites.names))
            if several > 1 and built.raw:
                built.raw.read()
            engine = (
                Pool(several, built.host, show_errors=show_errors) if several > 1 else Serial(built.host, strict=strict)
            )
            layers = guards(study)
        built.host.device = built.host.device.claim()  # now that workers have begun, which need it untouched
        if tell:
            for words in built.doubts:
                tell(words)
        try:
            window = Window(study.schedule, out, clock or Clock())
            return _Loop(built, window, engine, ledger, layers, progress, checkpoint_seconds).go(checkpoint)
        except Exception as error:
            if show_errors:
                show_traceback(error.__cause__ or error)
            raise
        finally:
            engine.close()
            with contextlib.suppress(OSError):  # a full disk has been told of already
                ledger.flush()  # what was exchanged was exchanged, however the run ends


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread, as every worker has: the same bits however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def show_traceback(error: BaseException) -> None:
    """Print an error in full; only ever on the machine that has the data, and only if asked."""
    traceback.print_exception(error)


class _Loop:
    """One run, round after round."""

    def __init__(
        self,
        built: Built,
        window: Window,
        engine: Serial | Pool | Remote,
        ledger: Ledger,
        layers: tuple[Layer, ...],
        progress: Progress | None,
        checkpoint_seconds: float,
    ) -> None:
        self.built, self.window, self.out, self.ledger = built, window, window.out, ledger
        self.study, self.method = built.study, built.study.method
        self.rounds = Rounds(built, engine, (*layers, ledger), FirstOfEach())
        self.journal = Journal(self.out)
        validation = self.study.validation
        patience = validation.patience if validation else None
        self.choice = Choice(self.out / "checkpoints", choosing(self.study, built.task), patience)
        self.tally: Tally | None = None
        self.curve: RecallCurve | None = None
        self.progress, self.pause, self.waited = progress, checkpoint_seconds, 0.0

    def go(self, checkpoint: Checkpoint | None) -> Result:
        """From the checkpoint, or the start, to the last round, the target, or the end of all patience."""
        round_ = checkpoint.round if checkpoint else 0
        self.journal.back_to(None if checkpoint is None else round_)
        self.choice.restore(self.journal, round_)
        self._settled()
        self.rounds.resumed = attempts(self.study, self.out, checkpoint)
        for layer in self.rounds.outer:
            layer.recall([line.noted for line in self.journal.lines])
        if checkpoint is None:
            self._describe()
            self._in_window()
            state: Any = self.rounds.start()
            if not self.rounds.begins:  # the first round's line has what was sent before it: they are run together
                self._settle(0, state)
        else:
            state, self.tally, self.curve = checkpoint.state, checkpoint.tally, checkpoint.curve
        last, saved = time.monotonic(), round_
        while not (why := self._over(round_)):
            if self.window.closed and saved < round_:
                self._settle(round_, state)
            self._in_window()
            round_ += 1
            state = self._round(round_, state)
            over, stop = self._over(round_), stop_asked(self.out)
            if over or stop or time.monotonic() - last >= self.pause:
                self._settle(round_, state)
                last, saved = time.monotonic(), round_
            if not over:
                leave_if_asked(self.out, f"after round {round_}")
        exhausted = self.choice.exhausted(self.journal) > 0
        if self.study.finish:  # no checkpoint has it: a run whose rounds are raised goes on from before
            best = state.weights if self.choice.weights is None else self.choice.weights
            self._in_window()
            state = self._round(round_ + 1, replace(state, weights=best), last=True)
            self.ledger.flush()
            self.journal.flush()
        return self._finish(state, round_, why, exhausted=exhausted)

    def _in_window(self) -> None:
        """Wait until a round may start; real sites are free for other studies meanwhile."""
        if self.window.closed:
            if isinstance(self.rounds.engine, Remote):
                self.rounds.engine.close()
            self.waited += self.window.wait()

    def _over(self, round_: int) -> str:
        """Why there is no further round, in words; nothing if there is one."""
        stop, reached = self.study.stop, self._reached()
        if stop is not None and stop.early and reached:
            return f"{stop.metric} reached its target in round {reached}"
        if in_vain := self.choice.exhausted(self.journal):
            return f"no better {self.choice.metric} in {in_vain} evaluations after round {self.choice.round or 0}"
        return "all rounds done" if round_ == self.study.rounds else ""

    def _reached(self) -> int | None:
        """The first round whose metric met the target."""
        return self.journal.reached(self.study.stop.metric, self.study.stop.target) if self.study.stop else None

    def _describe(self) -> None:
        """What the data are like, and what a plain model makes of them, where one process may see them all."""
        raw = self.built.raw
        if raw is None:
            DATA.write(self.out, Data(count=len(self.built.sites.names), sites={}, fingerprint=None, problems=()))
            return
        doing("looking through the data")
        seen = describe(raw, self.built.task)
        data = Data(**{**seen, "problems": [*self.built.doubts, *seen.get("problems", ())]})
        DATA.write(self.out, data)
        add_references(self.out, fitted(self.built.task, raw, data.fingerprint, self.study.references))

    def _round(self, round_: int, state: Any, *, last: bool = False) -> Any:
        began = time.perf_counter()
        state, cohort = (self.rounds.finish if last else self.rounds.train)(round_, state)
        if round_ == 1 and self.rounds.begins and (opening := self.rounds.opening):
            cohort.traffic.up += opening.traffic.up
            cohort.traffic.down += opening.traffic.down
            cohort.noted = {**opening.noted, **cohort.noted}
        due = last or round_ % self.study.evaluation.every == 0 or round_ == self.study.rounds
        evaluated = self._evaluated(round_, state.weights, cohort) if due else {"left_out": cohort.left_out}
        line = Round(
            round=round_, sites=len(cohort.present), up=cohort.traffic.up, down=cohort.traffic.down,
            noted={**cohort.noted, **noted(self.study.dp, round_, self.study.rounds)}, asked=len(cohort.names),
            **evaluated, seconds=round(time.perf_counter() - began, 6), waited=round(self.waited, 3),
            ended=round(time.time(), 3),
        )  # fmt: skip
        self.waited = 0.0
        self.journal.add(line)
        if self.progress:
            self.progress(line)
        if self.rounds.watch is not None and line.metrics:  # a round and an evaluation show every kind of message
            WIRE.write(self.out, rows(self.rounds.watch, self.study.dp))
            self.rounds.watch = None
        return state

    def _evaluated(self, round_: int, weights: Weights, trained: Cohort) -> dict[str, Any]:
        """What an evaluation adds to the round's line; what else its counts tell goes into files of its own."""
        assessment = self.rounds.evaluate(round_, weights)
        cohort, task, numbers = assessment.cohort, self.built.task, assessment.test
        kept = self.choice.look(round_, assessment.metrics, weights)
        wrong: list[str] = []
        if numbers is not None:
            wrong = signs(task, numbers, self.journal.values("loss"))
            add_references(self.out, constants(task, numbers, self.study.references))
            if kept:
                points = task.curve(numbers)
                self.tally = tally(task, round_, numbers)
                self.curve = None if points is None else RecallCurve(round=round_, points=tuple(points))
        left_out = dict(trained.left_out)
        for name, why in cohort.left_out.items():  # after what it failed at first
            left_out[name] = why if left_out.get(name, why) == why else f"{left_out[name]}; {why}"
        return {
            "metrics": assessment.metrics, "per_site": assessment.per_site, "left_out": left_out, "signs": wrong,
            "evaluation_up": cohort.traffic.up, "evaluation_down": cohort.traffic.down,
        }  # fmt: skip

    def _settle(self, round_: int, state: Record) -> None:
        """Make everything up to this round durable, in the order of rule 3."""
        self.ledger.flush()
        self.journal.flush()
        self.choice.save()
        save(self.out / "checkpoints", Checkpoint(round_, self.study.fingerprint, state, self.tally, self.curve))
        self._tell()
        self.choice.forget(self.journal, kept_rounds(self.out / "checkpoints"))
        self._settled()

    def _tell(self) -> None:
        """Show what was counted in the round that counts so far."""
        COUNTS.renew(self.out, self.tally)
        CURVE.renew(self.out, self.curve)

    def _settled(self) -> None:
        """Have sites keep what either of the two checkpoints may need, and their own part of the best round's model."""
        oldest = min(kept_rounds(self.out / "checkpoints"), default=0)
        best = self.choice.best(self.journal, oldest)
        own = bool(self.study.sites.private) or self.method.personal
        self.rounds.settled = oldest if best is None or not own else best

    def _finish(self, state: Any, rounds: int, stopped: str, *, exhausted: bool) -> Result:
        lines, choice = self.journal.lines, self.choice
        last = next((line for line in lines if line.round == choice.round), self.journal.evaluated)
        metrics = Metrics(
            **kind_of(self.study).model_dump(),
            study=self.study.name,
            versions=versions(),
            method=self.study.resolved["method"]["name"],
            seed=self.study.seed,
            rounds=rounds,
            stopped=stopped,
            rounds_to_target=self._reached(),
            chosen=choice.round,
            chosen_by=choice.metric or "",
            exhausted=exhausted,
            final=last.metrics if last else {},
            best=self.journal.best(),
            bytes=Bytes(**{key: sum(getattr(line, key) for line in lines) for key in Bytes.model_fields}),
            seconds=round(sum(line.seconds for line in lines), 3),
            signs=last.signs if last else (),
        )
        doing("drawing intervals")
        weights = state.weights if choice.weights is None else choice.weights
        self._tell()
        INTERVALS.renew(self.out, intervals_of(self.built, weights, self.tally, self.rounds.resumed))
        if self.method.shares:
            write_model(self.out / "model", self.built, weights, metrics, WIRE.read(self.out) or ())
        METRICS.write(self.out, metrics)
        return Result(self.out, rounds, metrics.final, metrics.rounds_to_target, stopped, choice.round)
