"""A run's folder: made, claimed for one process at a time, and read again when a run is taken up."""

import contextlib
import errno
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.core.files import write
from wardround.core.refusal import Refusal
from wardround.runs.checkpoint import Checkpoint, load_newest
from wardround.study.load import Study
from wardround.study.settings import StudyError

__all__ = ["NO_ROOM", "Result", "RunError", "attempts", "claim", "finished", "locked", "make_folder", "refuse_other"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOCK = ".lock"


class RunError(Refusal, RuntimeError):
    """A run cannot start or go on; the message says what to do."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    folder: Path
    rounds: int
    metrics: dict[str, float]
    rounds_to_target: int | None
    stopped: str


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """The run folder, ours alone; the lock goes with the process, however it ends."""
    new = make_folder(out)
    if not (out / "study.toml").exists() and not all(_leftover(path) for path in out.iterdir()):
        raise RunError(f"{out} is not empty and holds no run; choose another --out")
    with (out / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"{out} is being worked in by another process; wait for it or stop it") from None
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
    return path.name in (LOCK, "run.id") or (path.name.startswith(".") and path.name.endswith(".new"))


def claim(study: Study, out: Path, *, resume: bool) -> Checkpoint | None:
    """Make the run folder ours: a new one, or one of the same study to go on with."""
    told = out / "study.toml"
    if told.exists() and not resume:
        raise RunError(f"{out} holds a run already; go on with --resume, or choose another --out")
    found = None
    if told.exists():
        refuse_other(study, out)
        found = load_newest(out / "checkpoints", study.fingerprint, type(study.method).state_kind())
        if found is not None and found.round > study.rounds:
            raise RunError(
                f"{told}: rounds = {study.rounds}, but {found.round} are done already; raise it or choose another --out"
            )
    for path, text in ((told, study.toml()), (out / "fingerprint", study.fingerprint + "\n")):  # in this order
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write(path, text.encode())
    for stale in (*out.glob(".*.new"), *out.glob(".*.old"), *out.glob("checkpoints/.*.new")):
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()  # half written when a run was killed
    return found


def attempts(out: Path, checkpoint: Checkpoint | None) -> tuple[int, ...]:
    """The rounds after which this run was taken up again, this time included: sites must know what did not count."""
    path = out / "attempts.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    now = [] if before is None else [*before, checkpoint.round if checkpoint else -1]
    write(path, (json.dumps(now) + "\n").encode())
    return tuple(now)


def refuse_other(study: Study, out: Path) -> None:
    """Raise an error if the run in this folder is of another study."""
    mark = out / "fingerprint"
    if mark.exists() and mark.read_text(encoding="utf-8").strip() != study.fingerprint:
        raise RunError(f"{out / 'study.toml'}: the run there has other settings than this study; choose another --out")


def finished(study: Study, out: Path, done: int) -> Result | None:
    """The result of a run that has nothing left to do, after `done` rounds."""
    path = out / "metrics.json"
    told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if told.get("rounds") != done:  # of before the rounds were raised
        return None
    early = study.stop is not None and study.stop.early and told["rounds_to_target"] is not None
    if done < study.rounds and not early:
        return None
    return Result(out, done, told["final"], told["rounds_to_target"], told["stopped"])
