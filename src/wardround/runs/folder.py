"""A run's folder: made, claimed for one process at a time, and read again when a run is taken up."""

import contextlib
import platform
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from wardround import __version__
from wardround.core.doing import ASKED, NOTICE
from wardround.core.files import NO_ROOM, write
from wardround.core.lock import sole
from wardround.runs.checkpoint import Checkpoint, load_newest
from wardround.runs.errors import RunError
from wardround.runs.files import LOCK, METRICS, SITES, START, Kind, Start, current
from wardround.study.load import Study
from wardround.study.settings import StudyError


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    folder: Path
    rounds: int
    metrics: dict[str, float]
    rounds_to_target: int | None
    stopped: str
    chosen: int | None = None
    """The round whose model is kept, where validation has chosen one; the figures are those of that round."""


class Taken(RunError):
    """A run folder that another process works in, or that holds a run already."""


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """The run folder, ours alone; the lock goes with the process, however it ends."""
    new = make_folder(out)
    if not (out / "study.toml").exists() and not all(_leftover(path) for path in out.iterdir()):
        raise RunError(f"{out} is not empty and holds no run; choose another --out")
    with sole(out / LOCK, busy=Taken(f"{out} is being worked in by another process; wait for it or stop it")):
        try:
            yield
        except StudyError:
            if new:  # a study that cannot even be built leaves nothing behind
                (out / LOCK).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    for made in new:
                        made.rmdir()
            raise


def make_folder(out: Path) -> list[Path]:
    """Make a run's folder, or see that it is one; the folders that are new, the innermost first."""
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file, not a folder; choose another --out")
    try:
        new = [path for path in (out, *out.parents) if not path.exists()]
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise RunError(f"{out} cannot be made: {error.strerror}; choose another --out") from None
    return new


def _leftover(path: Path) -> bool:
    """Whether this can be left from a run that was killed before it was one."""
    return path.name in (LOCK, "run.id", SITES.name) or (path.name.startswith(".") and path.name.endswith(".new"))


def claim(study: Study, out: Path, *, resume: bool) -> Checkpoint | None:
    """Make the run folder ours: a new one, or one of the same study to go on with."""
    settings = out / "study.toml"
    if settings.exists() and not resume:
        raise Taken(f"{out} holds a run already; go on with --resume, or choose another --out")
    checkpoint = None
    if settings.exists():
        current(out)
        refuse_other(study, out)
        checkpoint = load_newest(out / "checkpoints", study.fingerprint, type(study.method).state_kind())
        if checkpoint is not None and checkpoint.round > study.rounds:
            done = f"rounds = {study.rounds}, but {checkpoint.round} are done already"
            raise RunError(f"{settings}: {done}; raise it or choose another --out")
    for path, text in ((settings, study.toml()), (out / "fingerprint", study.fingerprint + "\n")):  # in this order
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write(path, text.encode())
    for stale in (*out.glob(".*.new"), *out.glob(".*.old"), *out.glob("checkpoints/.*.new")):
        if stale.name not in (NOTICE, ASKED):  # which are ours, and new
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink()  # half written when a run was killed
    return checkpoint


def kind_of(study: Study) -> Kind:
    """What a study's method is, for those who compare runs."""
    method, trains = study.method, set(study.method.declared()) > {"evaluate"}
    personal = method.personal or bool(study.sites.private)
    return Kind(pooled=method.pooled, shares=method.shares, trains=trains, personal=personal)


def versions() -> dict[str, str]:
    """With what a run is computed."""
    ours = {"wardround": __version__, "python": platform.python_version()}
    return {**ours, "torch": torch.__version__, "numpy": np.__version__}


def attempts(study: Study, out: Path, checkpoint: Checkpoint | None) -> tuple[int, ...]:
    """The rounds after which this run was taken up again, this time included: sites must know what did not count."""
    before = START.read(out)
    now = () if before is None else (*before.resumed, checkpoint.round if checkpoint else -1)
    START.write(out, Start(**kind_of(study).model_dump(), resumed=now))
    return now


def refuse_other(study: Study, out: Path) -> None:
    """Raise an error if the run in this folder is of another study."""
    mark = out / "fingerprint"
    if mark.exists() and mark.read_text(encoding="utf-8").strip() != study.fingerprint:
        settings = out / "study.toml"
        remedy = f"{_by_rounds(study, settings)}choose another --out"
        raise RunError(f"{settings}: the run there has other settings than this study; {remedy}")


def _by_rounds(study: Study, settings: Path) -> str:
    """What to do where only the number of rounds was meant to change, and more follows from it."""
    before = tomllib.loads(settings.read_text(encoding="utf-8"))
    if before.get("rounds") == study.rounds:
        return ""
    if study.dp:
        return (
            f"the noise of privacy.dp was found for rounds = {before.get('rounds')}, and it cannot go on for others; "
        )
    horizon, now = (tables.get("method", {}).get("horizon") for tables in (before, study.resolved))
    return f"to go on with its schedule, set method.horizon = {horizon}, or " if horizon and horizon != now else ""


def finished(study: Study, out: Path, done: int) -> Result | None:
    """The result of a run that has nothing left to do, after `done` rounds."""
    metrics = METRICS.read(out)
    if metrics is None or metrics.rounds != done:  # of before the rounds were raised
        return None
    if not metrics.ended(study.rounds, early=study.stop is not None and study.stop.early):
        return None
    return Result(out, done, metrics.final, metrics.rounds_to_target, metrics.stopped, metrics.chosen)
