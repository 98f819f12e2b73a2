"""The round loop: from a study to a run folder, with a journal, a ledger, checkpoints and the model.

    result = run(study, Path("runs/x"), workers=2, resume=True)

A run folder holds `study.toml` (resolved), `journal.jsonl` (one line per round), `ledger/`, `checkpoints/`,
`memory/` (what simulated sites keep), `model/` and, once finished, `metrics.json`.

Rules of this file:
1. A round is a function of state, seed, round and site memory: run again, it gives the same bits.
2. The journal never runs ahead of what can be repeated: on resume it is cut back to the checkpoint.
3. Ledger first, then site memory (which is written as it is kept), then the checkpoint, then the journal's end.
"""

import contextlib
import json
import math
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import save as save_tensors

from wardround.checkpoint import Checkpoint, load_newest, save
from wardround.core.cohort import Cohort, Engine, Layer, Seen
from wardround.core.files import write
from wardround.core.manifest import Manifest
from wardround.core.method import Counts, Exam
from wardround.core.record import Record
from wardround.core.site import Exchange, Task, seeded
from wardround.core.weights import Weights
from wardround.corpora.federation import Prepared, federate, pooled, prepared
from wardround.engines.host import Host
from wardround.engines.inline import Pool, Serial
from wardround.layers.ledger import Ledger
from wardround.study import Study, StudyError

__all__ = ["Built", "Line", "Progress", "Result", "RunError", "build", "drawn", "run", "taking_part"]

CHECKPOINT_SECONDS = 5.0
HUB = "coordinator"


class RunError(RuntimeError):
    """A run cannot start or go on; the message says what to do."""


@dataclass(frozen=True)
class Line:
    """One line of the journal."""

    round: int
    sites: int
    left_out: dict[str, str]
    metrics: dict[str, float]
    per_site: dict[str, dict[str, float]] = field(default_factory=dict)
    up: int = 0
    down: int = 0
    evaluation_up: int = 0
    evaluation_down: int = 0
    seconds: float = 0.0


Progress = Callable[[Line], None]


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    folder: Path
    rounds: int
    metrics: dict[str, float]
    rounds_to_target: int | None
    stopped: str


@dataclass
class Built:
    """Everything a study describes, ready to run."""

    study: Study
    task: Task
    sites: Prepared
    host: Host
    weights: Weights
    manifest: Manifest

    def cohort(
        self,
        round_: int,
        names: tuple[str, ...],
        engine: Engine,
        layers: tuple[Layer, ...] = (),
        settled: int = 0,
        watch: list[Seen] | None = None,
    ) -> Cohort:
        """These sites, for this round."""
        seed = self.study.seed
        hub = self.host.site(HUB, Exchange("hub", round_, 0, settled, seed))
        quorum = min(self.study.sites.quorum, len(names))
        count = len(self.sites.names)
        return Cohort(names, count, round_, seed, engine, self.manifest, hub, layers, quorum, settled, watch)


def build(study: Study, out: Path) -> Built:
    """The task, the sites and the host of a study; site memory lives under `out`."""
    task = study.task.bind(study.corpus)
    try:
        raw = federate(study.corpus, study.partition, study.seed)
    except ValueError as error:
        raise StudyError("partition", [str(error)]) from None
    sites = prepared(pooled(raw) if study.method.pooled else raw, task)
    if study.sites.quorum > len(sites.names) or (study.sites.per_round or 0) > len(sites.names):
        asked = max(study.sites.quorum, study.sites.per_round or 0)
        if not study.method.pooled:
            raise StudyError(
                "sites",
                [f"asks for {asked} sites, but there are {len(sites.names)}; lower quorum or per_round"],
            )
    torch.default_generator.manual_seed(seeded(study.seed, "weights"))
    weights = Weights.of_model(task.model())
    layouts = {"model": weights.layout, "counts": task.counts()}
    sizes = {**task.sizes(), **study.method.sizes(task, weights)}
    host = Host(study.method, task, sites, out / "memory")
    return Built(study, task, sites, host, weights, Manifest(layouts, sizes, weights.flat.dtype))


def taking_part(fraction: float, sites: int) -> int:
    """M = max(C·K, 1), guarded against float error: 0.29 · 100 is 29."""
    return max(int(fraction * sites + 1e-9), 1)


def drawn(study: Study, names: tuple[str, ...], round_: int) -> tuple[str, ...]:
    """The sites of a round, drawn without replacement from (seed, round)."""
    count = min(study.sites.per_round or taking_part(study.sites.fraction, len(names)), len(names))
    if count == len(names):
        return names
    rng = np.random.default_rng(seeded(study.seed, round_, "cohort"))
    return tuple(sorted(names[int(index)] for index in rng.choice(len(names), count, replace=False)))


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
) -> Result:
    """Run a study to its end, or go on where a killed run left off."""
    with one_thread():
        built = build(study, out)
        checkpoint = _claim(study, out, resume=resume)
        if checkpoint is not None and (out / "metrics.json").exists() and checkpoint.round >= study.rounds:
            return _finished(out, study)
        ledger = Ledger(out / "ledger")
        spec = {
            "study": dict(study.resolved),
            "out": str(out),
            "folder": str(folder or ""),
            "traceback": show_errors,
        }
        engine = (
            Pool(spec, workers, built.host, ledger)
            if workers > 1 and len(built.sites.names) > 1
            else Serial(built.host, ledger, built.manifest, strict=strict)
        )
        try:
            return _Loop(built, out, engine, ledger, progress, checkpoint_seconds).go(checkpoint)
        except Exception as error:
            if show_errors:
                show_traceback(error.__cause__ or error)
            raise
        finally:
            engine.close()


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


def _claim(study: Study, out: Path, *, resume: bool) -> Checkpoint | None:
    """Make the run folder ours: a new one, or one of the same study to go on with."""
    told = out / "study.toml"
    if told.exists() and not resume:
        raise RunError(f"{out} holds a run already; go on with --resume, or choose another --out")
    if not told.exists() and out.exists() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no run; choose another --out")
    found = None
    if told.exists():
        mark = out / "fingerprint"
        if mark.exists() and mark.read_text().strip() != study.fingerprint:
            raise RunError(f"{told}: the run there has other settings than this study; choose another --out")
        found = load_newest(out / "checkpoints", study.fingerprint, type(study.method).state_kind())
    out.mkdir(parents=True, exist_ok=True)
    write(out / "fingerprint", (study.fingerprint + "\n").encode())
    write(told, study.toml().encode())
    return found


def _finished(out: Path, study: Study) -> Result:
    told = json.loads((out / "metrics.json").read_text())
    return Result(out, study.rounds, told["final"], told["rounds_to_target"], told["stopped"])


class _Loop:
    """One run, round after round."""

    def __init__(
        self,
        built: Built,
        out: Path,
        engine: Serial | Pool,
        ledger: Ledger,
        progress: Progress | None,
        checkpoint_seconds: float,
    ) -> None:
        self.built, self.out, self.engine, self.ledger = built, out, engine, ledger
        self.progress, self.pause = progress, checkpoint_seconds
        self.study, self.method = built.study, built.study.method
        self.lines: list[str] = []
        self.history: list[Line] = []

    def go(self, checkpoint: Checkpoint | None) -> Result:
        """From the checkpoint, or the start, to the last round or the target."""
        names = self.built.sites.names
        if checkpoint is None:
            self.settled, state = 0, None
            self._journal_back_to(0)
            state = self.method.start(self.built.weights, self._cohort(0, names))
            self._settle(0, state)
        else:
            self.settled, state = checkpoint.round, checkpoint.state
            self._journal_back_to(checkpoint.round)
        last = time.monotonic()
        reached = self._reached()
        stopped = "all rounds done"
        round_ = self.settled
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
        return self.built.cohort(round_, names, self.engine, (self.ledger,), self.settled)

    def _round(self, round_: int, state: Any) -> Any:
        began = time.perf_counter()
        cohort = self._cohort(round_, drawn(self.study, self.built.sites.names, round_))
        state = self.method.round(state, cohort)
        line = Line(round_, len(cohort.names), dict(cohort.left_out), {}, {}, cohort.traffic.up, cohort.traffic.down)
        if round_ % self.study.evaluation.every == 0 or round_ == self.study.rounds:
            line = self._evaluated(line, state.weights)
        self._note(Line(**{**line.__dict__, "seconds": round(time.perf_counter() - began, 6)}))
        return state

    def _evaluated(self, line: Line, weights: Weights) -> Line:
        """The line with the model's figures on it: evaluation is an exchange like any other."""
        metrics: dict[str, float] = {}
        per_site: dict[str, dict[str, float]] = {}
        cohort = self._cohort(line.round, self.built.sites.names)
        cohort.exchanges = 1000  # evaluation comes after whatever the method did in this round
        for split in self.study.evaluation.splits:
            exam = Exam(weights, split)
            prefix = "" if split == "test" else f"{split}_"
            if self.study.evaluation.each:
                replies = cohort.ask(self.method.evaluate, exam)
                total: Counts | None = None
                for name, counts in replies.items():
                    total = counts if total is None else total + counts
                    own = self.built.task.metrics(counts.numbers)
                    per_site.setdefault(name, {}).update({f"{prefix}{key}": value for key, value in own.items()})
                numbers = cast("Counts", total).numbers
            else:
                numbers = cohort.total(self.method.evaluate, exam).numbers
            metrics |= {f"{prefix}{key}": value for key, value in self.built.task.metrics(numbers).items()}
        left_out = {**line.left_out, **cohort.left_out}
        traffic = {"evaluation_up": cohort.traffic.up, "evaluation_down": cohort.traffic.down}
        return Line(**{**line.__dict__, "metrics": metrics, "per_site": per_site, "left_out": left_out, **traffic})

    # journal and checkpoints

    def _note(self, line: Line) -> None:
        self.history.append(line)
        self.lines.append(json.dumps(_plain(line.__dict__)) + "\n")
        if self.progress:
            self.progress(line)

    def _settle(self, round_: int, state: Record) -> None:
        """Make everything up to this round durable, in the order of rule 3."""
        self.ledger.flush()
        save(self.out / "checkpoints", Checkpoint(round_, self.study.fingerprint, state))
        self.settled = round_
        self._flush_journal()

    def _flush_journal(self) -> None:
        with (self.out / "journal.jsonl").open("a", encoding="utf-8") as file:
            file.write("".join(self.lines))
            file.flush()
            os.fsync(file.fileno())
        self.lines.clear()

    def _journal_back_to(self, round_: int) -> None:
        """Keep the lines up to the checkpoint; those after it are about to be written again."""
        path = self.out / "journal.jsonl"
        kept = []
        for raw in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):  # a line cut off by the crash
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
        if self.history and self.history[-1].metrics and stop.metric not in self.history[-1].metrics:
            known = ", ".join(self.history[-1].metrics)
            raise StudyError("stop", [f"metric = {stop.metric!r} is not measured; known: {known}"])
        for line in self.history:
            value = line.metrics.get(stop.metric)
            if value is not None and (value <= stop.target if stop.metric.endswith("loss") else value >= stop.target):
                return line.round
        return None

    def _finish(self, state: Any, rounds: int, reached: int | None, stopped: str) -> Result:
        final = next((line.metrics for line in reversed(self.history) if line.metrics), {})
        told = {
            "study": self.study.name,
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
        }
        model = self.out / "model"
        tensors = save_tensors(dict(state.weights))
        write(model / "weights.safetensors", tensors)
        write(model / "study.toml", self.study.toml().encode())
        write(self.out / "metrics.json", (json.dumps(told, indent=2) + "\n").encode())
        return Result(self.out, rounds, final, reached, stopped)


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
