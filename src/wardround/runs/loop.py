"""The round loop: from a study to a run folder, with a journal, a ledger, checkpoints and the model.

    result = run(study, Path("runs/x"), workers=2, resume=True)

A run folder holds `study.toml` (resolved), `journal.jsonl` (one line per round), `ledger/`, `checkpoints/`,
`memory/` (what simulated sites keep), `attempts.json` (after which rounds it was taken up again), `void.json` (which
replies of real sites did not arrive: what they kept then does not count), `data.json` (sizes and labels by site),
`wire.json` (what crossed the wire, in words), `references.json` (figures that the model should beat), `curve.json`
(precision over recall, where the task has such), `model/` and, once finished, `metrics.json`.

Rules of this file:
1. A round is a function of state, seed, round and site memory: run again, it gives the same bits.
2. The journal never runs ahead of what can be repeated: on resume it is cut back to the checkpoint.
3. Site memory is written as it is kept; then the ledger, then the journal, and the checkpoint last: whatever the
   moment of a crash, nothing that the checkpoint needs is missing.
4. One process at a time: the run folder is locked while it is worked in.
"""

import contextlib
import json
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from wardround import __version__
from wardround.core.cohort import Seen
from wardround.core.files import write
from wardround.core.layer import Layer
from wardround.core.record import Record
from wardround.core.weights import Weights
from wardround.engines.inline import Pool, Serial
from wardround.engines.remote import Remote
from wardround.federation.describe import describe
from wardround.layers.bound import Bound
from wardround.layers.ledger import Ledger
from wardround.metrics.signs import signs
from wardround.runs.build import Built, build
from wardround.runs.checkpoint import Checkpoint, oldest_round, save
from wardround.runs.folder import Result, attempts, claim, finished, locked
from wardround.runs.journal import Journal, Line
from wardround.runs.references import REFERENCES, majority, tfidf, write_references
from wardround.runs.rounds import Rounds
from wardround.runs.wire import rows
from wardround.study.load import Study
from wardround.trained.folder import write_model

__all__ = ["Apart", "Progress", "one_thread", "run", "show_traceback"]

CHECKPOINT_SECONDS = 5.0


Progress = Callable[[Line], None]


class Apart(Protocol):
    """Real sites: how to build a study for them, and what carries its messages."""

    def build(self, study: Study, out: Path) -> Built:
        """What the coordinator has of the study."""

    def engine(self, built: Built, ledger: Ledger, out: Path) -> Remote:
        """What carries messages to the sites."""

    def layers(self, built: Built, engine: Remote) -> tuple[Layer, ...]:
        """What the coordinator makes of the replies, beside its ledger."""


def run(
    study: Study,
    out: Path,
    *,
    workers: int = 1,
    strict: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    folder: Path | None = None,
    show_errors: bool = False,
    apart: Apart | None = None,
) -> Result:
    """Run a study to its end, or go on where a killed run left off."""
    with one_thread(), locked(out):
        built = apart.build(study, out) if apart else build(study, out)
        checkpoint = claim(study, out, resume=resume)
        if checkpoint is not None and (result := finished(study, out, checkpoint.round)):
            return result
        ledger = Ledger(out / "ledger", sites=apart is None)
        spec = {
            "study": dict(study.resolved),
            "out": str(out),
            "folder": str(folder or ""),
            "traceback": show_errors,
        }
        engine: Serial | Pool | Remote
        if apart:
            engine = apart.engine(built, ledger, out)
            layers = apart.layers(built, engine)
        else:
            several = min(workers, len(built.sites.names))
            engine = Pool(spec, several) if several > 1 else Serial(built.host, strict=strict)
            layers = bounded(study)
        try:
            return _Loop(built, out, engine, ledger, layers, progress, checkpoint_seconds).go(checkpoint)
        except Exception as error:
            if show_errors:
                show_traceback(error.__cause__ or error)
            raise
        finally:
            engine.close()
            with contextlib.suppress(OSError):  # a full disk has been told of already
                ledger.flush()  # what was exchanged was exchanged, however the run ends


def bounded(study: Study) -> tuple[Layer, ...]:
    """The bound that a simulation has only if its study asks for one."""
    bound = study.sites.bound
    return (Bound(bound, contradiction=study.method.contradiction),) if bound else ()


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


class _Kinds(list[Seen]):
    """The first exchange of each step: a whole round's would hold every site's reply."""

    def append(self, seen: Seen) -> None:
        """Keep it if it is the first of its step."""
        if all(known.step != seen.step for known in self):
            super().append(seen)


class _Loop:
    """One run, round after round."""

    def __init__(
        self,
        built: Built,
        out: Path,
        engine: Serial | Pool | Remote,
        ledger: Ledger,
        layers: tuple[Layer, ...],
        progress: Progress | None,
        checkpoint_seconds: float,
    ) -> None:
        self.built, self.out, self.ledger = built, out, ledger
        self.study, self.method = built.study, built.study.method
        self.rounds = Rounds(built, engine, (*layers, ledger), _Kinds())
        self.journal = Journal(out / "journal.jsonl")
        self.progress, self.pause = progress, checkpoint_seconds

    def go(self, checkpoint: Checkpoint | None) -> Result:
        """From the checkpoint, or the start, to the last round or the target."""
        round_ = checkpoint.round if checkpoint else 0
        self.journal.back_to(None if checkpoint is None else round_)
        self.rounds.settled = oldest_round(self.out / "checkpoints")
        self.rounds.resumed = attempts(self.out, checkpoint)
        for layer in self.rounds.outer:
            layer.recall([line.noted for line in self.journal.lines])
        if checkpoint is None:
            self._describe()
            state: Any = self.rounds.start()
            self._settle(0, state)
        else:
            state = checkpoint.state
        last = time.monotonic()
        reached = self._reached()
        while round_ < self.study.rounds and not (reached and self._early):
            round_ += 1
            state = self._round(round_, state)
            reached = reached or self._reached()
            over = round_ == self.study.rounds or (reached and self._early)
            if over or time.monotonic() - last >= self.pause:
                self._settle(round_, state)
                last = time.monotonic()
        return self._finish(state, round_, reached)

    @property
    def _early(self) -> bool:
        return self.study.stop is not None and self.study.stop.early

    def _reached(self) -> int | None:
        """The first round whose metric met the target."""
        return self.journal.reached(self.study.stop.metric, self.study.stop.target) if self.study.stop else None

    def _describe(self) -> None:
        """What the data are like, and what a plain model makes of them, where one process may see them all."""
        raw = self.built.raw
        if raw is None:
            nothing = {"count": len(self.built.sites.names), "sites": {}, "fingerprint": None, "problems": []}
            write_json(self.out / "data.json", nothing)
            return
        data = describe(raw, self.built.task)
        write_json(self.out / "data.json", data)
        figures = tfidf(self.built.task, raw, data["fingerprint"], self.study.references)
        write_references(self.out, "tfidf", figures)

    def _round(self, round_: int, state: Any) -> Any:
        began = time.perf_counter()
        state, cohort = self.rounds.train(round_, state)
        line = Line(
            round_, len(cohort.present), dict(cohort.left_out), {}, {}, cohort.traffic.up, cohort.traffic.down,
            noted=cohort.noted, asked=len(cohort.names),
        )  # fmt: skip
        if round_ % self.study.evaluation.every == 0 or round_ == self.study.rounds:
            line = self._evaluated(line, state.weights)
        line = replace(line, seconds=round(time.perf_counter() - began, 6))
        self.journal.add(line)
        if self.progress:
            self.progress(line)
        if self.rounds.watch is not None and line.metrics:  # a round and an evaluation show every kind of message
            write_json(self.out / "wire.json", [row.__dict__ for row in rows(self.rounds.watch)])
            self.rounds.watch = None
        return state

    def _evaluated(self, line: Line, weights: Weights) -> Line:
        """The line with the model's figures on it; what else the counts tell goes into files of its own."""
        evaluation = self.rounds.evaluate(line.round, weights)
        cohort, task, numbers = evaluation.cohort, self.built.task, evaluation.test
        wrong: list[str] = []
        if numbers is not None:
            wrong = signs(task, numbers, self.journal.values("loss"))
            if "majority" in (REFERENCES if self.study.references is None else self.study.references):
                write_references(self.out, "majority", majority(task, numbers))
            if hasattr(task, "curve"):
                write_json(self.out / "curve.json", {"round": line.round, "points": task.curve(numbers)})
        left_out = dict(line.left_out)
        for name, why in cohort.left_out.items():  # after what it failed at first
            left_out[name] = f"{left_out[name]}; {why}" if name in left_out else why
        return replace(
            line, metrics=evaluation.metrics, per_site=evaluation.per_site, left_out=left_out, signs=wrong,
            evaluation_up=cohort.traffic.up, evaluation_down=cohort.traffic.down,
        )  # fmt: skip

    def _settle(self, round_: int, state: Record) -> None:
        """Make everything up to this round durable, in the order of rule 3."""
        self.ledger.flush()
        self.journal.flush()
        save(self.out / "checkpoints", Checkpoint(round_, self.study.fingerprint, state))
        self.rounds.settled = oldest_round(self.out / "checkpoints")  # sites keep what either of the two may need

    def _finish(self, state: Any, rounds: int, reached: int | None) -> Result:
        stopped = "all rounds done"
        if reached and self._early:
            stopped = f"{self.study.stop and self.study.stop.metric} reached its target in round {reached}"
        lines, last = self.journal.lines, self.journal.evaluated
        told = {
            "study": self.study.name,
            "versions": _versions(),
            "method": self.study.resolved["method"]["name"],
            "seed": self.study.seed,
            "rounds": rounds,
            "stopped": stopped,
            "rounds_to_target": reached,
            "final": last.metrics if last else {},
            "best": self.journal.best(),
            "bytes": {
                key: sum(getattr(line, key) for line in lines)
                for key in ("up", "down", "evaluation_up", "evaluation_down")
            },
            "seconds": round(sum(line.seconds for line in lines), 3),
            "signs": last.signs if last else [],
        }
        if self.method.shares:
            wire = self.out / "wire.json"
            crossed = json.loads(wire.read_text(encoding="utf-8")) if wire.exists() else []
            write_model(self.out / "model", self.built, state.weights, told, crossed)
        write_json(self.out / "metrics.json", told)
        return Result(self.out, rounds, last.metrics if last else {}, reached, stopped)


def write_json(path: Path, told: Any) -> None:
    """Write plain values as a file that is easy to read."""
    write(path, (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode())


def _versions() -> dict[str, str]:
    return {
        "wardround": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
