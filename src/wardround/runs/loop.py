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
import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from wardround import __version__
from wardround.core.cohort import EVALUATION, Cohort, Layer, Seen
from wardround.core.files import NO_ROOM, write
from wardround.core.method import Counts, Exam
from wardround.core.record import Record
from wardround.core.weights import Weights
from wardround.engines.inline import Pool, Serial
from wardround.engines.remote import Remote
from wardround.federation.describe import describe
from wardround.layers.bound import Bound
from wardround.layers.ledger import Ledger
from wardround.metrics.signs import signs
from wardround.runs.build import Built, build, drawn, prefix
from wardround.runs.checkpoint import Checkpoint, oldest_round, save
from wardround.runs.errors import RunError
from wardround.runs.folder import (
    Result,
    attempts,
    claim,
    finished,
    locked,
    make_folder,
    refuse_other,
)
from wardround.runs.references import REFERENCES, majority, tfidf, write_references
from wardround.runs.wire import rows
from wardround.study.load import Study
from wardround.trained.folder import write_model

__all__ = [
    "NO_ROOM", "Line", "Progress", "Result", "RunError", "finished", "make_folder",
    "refuse_other", "run",
]  # fmt: skip

CHECKPOINT_SECONDS = 5.0


@dataclass(frozen=True)
class Line:
    """One line of the journal."""

    round: int
    sites: int
    """Whose replies counted in the round's training."""
    left_out: dict[str, str]
    metrics: dict[str, float]
    per_site: dict[str, dict[str, float]] = field(default_factory=dict)
    up: int = 0
    down: int = 0
    evaluation_up: int = 0
    evaluation_down: int = 0
    seconds: float = 0.0
    noted: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    signs: list[str] = field(default_factory=list)
    """Of what looks wrong with the model (see `wardround.metrics.signs`)."""
    asked: int = 0
    """How many sites the round was asked of."""


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
        ledger = Ledger(out / "ledger")
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
            engine = (
                Pool(spec, several, built.host, ledger)
                if several > 1
                else Serial(built.host, ledger, built.manifest, strict=strict)
            )
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
        self.built, self.out, self.engine, self.ledger = built, out, engine, ledger
        self.layers = (ledger, *layers)
        self.progress, self.pause = progress, checkpoint_seconds
        self.study, self.method = built.study, built.study.method
        self.resumed: tuple[int, ...] = ()
        self.seen: list[Seen] | None = _Kinds()
        self.lines: list[str] = []
        self.history: list[Line] = []

    def go(self, checkpoint: Checkpoint | None) -> Result:
        """From the checkpoint, or the start, to the last round or the target."""
        names = self.built.sites.names
        self.settled = oldest_round(self.out / "checkpoints")
        round_ = checkpoint.round if checkpoint else 0
        self._journal_back_to(checkpoint)
        self.resumed = attempts(self.out, checkpoint)
        for layer in self.layers:
            layer.recall([line.noted for line in self.history])
        if checkpoint is None:
            raw, count = self.built.raw, len(names)
            nothing = {"count": count, "sites": {}, "fingerprint": None, "problems": []}
            data: dict[str, Any] = describe(raw, self.built.task) if raw else nothing
            write_json(self.out / "data.json", data)
            if raw:
                figures = tfidf(self.built.task, raw, data["fingerprint"], self.study.references)
                write_references(self.out, "tfidf", figures)
            state: Any = self.method.start(self.built.weights, self._cohort(0, names))
            self._settle(0, state)
        else:
            state = checkpoint.state
        last = time.monotonic()
        reached = self._reached()
        stopped = "all rounds done"
        while round_ < self.study.rounds and not (reached and self._early):
            round_ += 1
            state = self._round(round_, state)
            reached = reached or self._reached()
            over = round_ == self.study.rounds or (reached and self._early)
            if over or time.monotonic() - last >= self.pause:
                self._settle(round_, state)
                last = time.monotonic()
        if reached and self._early:
            stopped = f"{self.study.stop and self.study.stop.metric} reached its target in round {reached}"
        return self._finish(state, round_, reached, stopped)

    @property
    def _early(self) -> bool:
        return self.study.stop is not None and self.study.stop.early

    def _cohort(self, round_: int, names: tuple[str, ...]) -> Cohort:
        return self.built.cohort(round_, names, self.engine, self.layers, self.settled, self.seen, self.resumed)

    def _round(self, round_: int, state: Any) -> Any:
        began = time.perf_counter()
        cohort = self._cohort(round_, drawn(self.study, self.built.sites.names, round_))
        state = self.method.round(state, cohort)
        up, down = cohort.traffic.up, cohort.traffic.down
        line = Line(
            round_, len(cohort.present), dict(cohort.left_out), {}, {}, up, down, noted=cohort.noted,
            asked=len(cohort.names),
        )  # fmt: skip
        if round_ % self.study.evaluation.every == 0 or round_ == self.study.rounds:
            line = self._evaluated(line, state.weights)
        self._note(Line(**{**line.__dict__, "seconds": round(time.perf_counter() - began, 6)}))
        if self.seen is not None and line.metrics:  # one round and one evaluation show every kind of message
            write_json(self.out / "wire.json", [row.__dict__ for row in rows(self.seen)])
            self.seen = None
        return state

    def _evaluated(self, line: Line, weights: Weights) -> Line:
        """The line with the model's figures on it: evaluation is an exchange like any other."""
        metrics: dict[str, float] = {}
        per_site: dict[str, dict[str, float]] = {}
        found: list[str] = []
        cohort = self._cohort(line.round, self.built.sites.names)
        cohort.exchanges = EVALUATION
        for split in self.study.evaluation.splits:
            exam = Exam(weights, split)
            start = prefix(split)
            if self.study.evaluation.each:
                replies = cohort.ask(self.method.evaluate, exam)
                total: Counts | None = None
                for name, counts in replies.items():
                    total = counts if total is None else total + counts
                    own = self.built.task.metrics(counts.numbers)
                    per_site.setdefault(name, {}).update({f"{start}{key}": value for key, value in own.items()})
                numbers = cast("Counts", total).numbers
            else:
                numbers = cohort.total(self.method.evaluate, exam).numbers
            metrics |= {f"{start}{key}": value for key, value in self.built.task.metrics(numbers).items()}
            if split == "test":
                before = [earlier.metrics["loss"] for earlier in self.history if "loss" in earlier.metrics]
                found = signs(self.built.task, numbers, before)
            wanted = REFERENCES if self.study.references is None else self.study.references
            if split == "test" and "majority" in wanted:
                write_references(self.out, "majority", majority(self.built.task, numbers))
            if split == "test" and hasattr(self.built.task, "curve"):
                points = self.built.task.curve(numbers)
                write_json(self.out / "curve.json", {"round": line.round, "points": points})
        left_out = dict(line.left_out)
        for name, why in cohort.left_out.items():  # after what it failed at first
            left_out[name] = f"{left_out[name]}; {why}" if name in left_out else why
        traffic = {"evaluation_up": cohort.traffic.up, "evaluation_down": cohort.traffic.down}
        told = {"metrics": metrics, "per_site": per_site, "left_out": left_out, "signs": found, **traffic}
        return Line(**{**line.__dict__, **told})

    # journal and checkpoints

    def _note(self, line: Line) -> None:
        self.history.append(line)
        self.lines.append(json.dumps(_plain(line.__dict__)) + "\n")
        if self.progress:
            self.progress(line)

    def _settle(self, round_: int, state: Record) -> None:
        """Make everything up to this round durable, in the order of rule 3."""
        self.ledger.flush()
        self._flush_journal()
        save(self.out / "checkpoints", Checkpoint(round_, self.study.fingerprint, state))
        self.settled = oldest_round(self.out / "checkpoints")  # sites keep what either of the two may need

    def _flush_journal(self) -> None:
        with (self.out / "journal.jsonl").open("a", encoding="utf-8") as file:
            file.write("".join(self.lines))
            file.flush()
            os.fsync(file.fileno())
        self.lines.clear()

    def _journal_back_to(self, checkpoint: Checkpoint | None) -> None:
        """Keep the lines up to the checkpoint; those after it are about to be written again."""
        path, round_ = self.out / "journal.jsonl", checkpoint.round if checkpoint else 0
        if checkpoint is None and path.exists() and path.stat().st_size:
            raise RunError(f"{path} tells of rounds, but there is no checkpoint; delete {self.out} to start anew")
        kept = []
        for raw in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError, TypeError, KeyError):  # a line cut off by the crash
                line = json.loads(raw)
                if line["round"] <= round_:
                    kept.append(raw)
                    self.history.append(Line(**line))
        if len(kept) < round_:
            raise RunError(
                f"{path}: {len(kept)} of {round_} rounds are there; the journal was changed since the checkpoint"
            )
        write(path, "".join(f"{raw}\n" for raw in kept).encode())

    def _reached(self) -> int | None:
        """The first round whose metric met the target."""
        stop = self.study.stop
        if stop is None:
            return None
        for line in self.history:
            value = line.metrics.get(stop.metric)
            if value is not None and (value <= stop.target if stop.metric.endswith("loss") else value >= stop.target):
                return line.round
        return None

    def _finish(self, state: Any, rounds: int, reached: int | None, stopped: str) -> Result:
        final = next((line.metrics for line in reversed(self.history) if line.metrics), {})
        told = {
            "study": self.study.name,
            "versions": _versions(),
            "method": self.study.resolved["method"]["name"],
            "seed": self.study.seed,
            "rounds": rounds,
            "stopped": stopped,
            "rounds_to_target": reached,
            "final": final,
            "best": _best(self.history),
            "bytes": {
                key: sum(getattr(line, key) for line in self.history)
                for key in ("up", "down", "evaluation_up", "evaluation_down")
            },
            "seconds": round(sum(line.seconds for line in self.history), 3),
            "signs": next((line.signs for line in reversed(self.history) if line.metrics), []),
        }
        if self.method.shares:
            wire = self.out / "wire.json"
            crossed = json.loads(wire.read_text(encoding="utf-8")) if wire.exists() else []
            write_model(self.out / "model", self.built, state.weights, told, crossed)
        write_json(self.out / "metrics.json", told)
        return Result(self.out, rounds, final, reached, stopped)


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


def _best(history: list[Line]) -> dict[str, dict[str, float]]:
    """Per metric, its best value and the round of it: the lowest loss, the highest of anything else."""
    best: dict[str, dict[str, float]] = {}
    for line in history:
        for name, value in line.metrics.items():
            if name.endswith("examples"):
                continue
            sign = -1 if name.endswith("loss") else 1
            if name not in best or sign * value > sign * best[name]["value"]:
                best[name] = {"value": value, "round": line.round}
    return best


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()
    }
