"""What old runs leave behind in a site's or a coordinator's folder: listed with sizes, and cleared.

    for one in leftovers(folder): print(one.path, one.size, one.kept)
    clear(leftovers(folder))

Rules of this file:
1. A site's memory of a run goes when the run is over: its last round was answered, and the coordinator has said that
   it ended for good, or has brought its model; or the study is approved here no longer. A run that can be resumed
   needs it, which one that stopped before its last round may be, or one that failed after it (`force`).
2. A folder of NVFlare's job goes unless a process has to do with that job; logs go but for those being written to.
3. Never cleared: the ledger, the budget's journal, approvals and keys: by these a site knows what it must not answer
   again, nor put into another sum.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wardround.consortium.approval import read_approval
from wardround.consortium.backup import kind_of
from wardround.consortium.settings import site_study
from wardround.core.lock import held
from wardround.engines.processes import named_in_commands
from wardround.layers.ledger import lines

JOB = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ROTATED = ("log.txt.*", "log.jsonl.*", "printed.txt.*", "kit/*.txt.*", "server/*.txt.*", "server/*.log.*")
MADE = "made"
MANUAL = "readme.txt"  # NVFlare's, beside its logs
IDLE = ("printed.txt", "kit/*.txt", "kit/*.log", "server/*.txt", "server/*.log")  # written to while it runs


@dataclass(frozen=True)
class Leftover:
    """A file or folder that an old run has left."""

    path: Path
    what: str
    size: int
    kept: str = ""
    """Why it is not cleared unless that is forced; nothing if it goes."""
    unmade: bool = False
    """Whether the site's own model is put together from it, and has not been since the run went on."""


def leftovers(folder: Path) -> list[Leftover]:
    """What lies in a site's or a coordinator's folder and could go, in the order of their names."""
    kind_of(folder)
    runs = held(folder / ".lock") is not False
    logs = {path for pattern in (*ROTATED, *(() if runs else IDLE)) for path in folder.glob(pattern) if path.is_file()}
    unneeded = [Leftover(path, "log", _size(path)) for path in logs if path.name != MANUAL]
    return sorted([*unneeded, *_memories(folder), *_jobs(folder)], key=lambda one: one.path)


def clear(chosen: Iterable[Leftover], *, force: bool = False) -> list[Leftover]:
    """Remove what may go, or all of it; what was removed."""
    gone = []
    for one in chosen:
        if one.kept and not force:
            continue
        if one.path.is_dir():
            shutil.rmtree(one.path, ignore_errors=True)
        else:
            with suppress(OSError):
                one.path.unlink()
        if not one.path.exists():
            gone.append(one)
    return gone


def _memories(folder: Path) -> Iterator[Leftover]:
    """What a site remembers of each run."""
    answered, ended = _runs(folder)
    for path in (folder / "memory").glob("*/*/"):
        key = (path.parent.name, path.name[:16])
        approved = next((folder / "approved").glob(f"{key[0]}*.toml"), None)
        why = ""
        with suppress(ValueError):  # an approval that cannot be read is none
            if approved and (agreed := read_approval(folder, approved.stem)):
                whole = answered.get(key, 0) >= agreed.rounds
                why = "" if whole and key in ended else "it goes on, or can be resumed"
        yield Leftover(path, f"memory of the run {path.name}", _size(path), why, _unmade(folder, path, approved))


def note_made(memory: Path) -> None:
    """Note that the site's model was made with what it has kept of a run."""
    (memory / MADE).touch()


def _unmade(folder: Path, memory: Path, approved: Path | None) -> bool:
    with suppress(FileNotFoundError):
        if (memory / MADE).stat().st_mtime_ns >= (memory / "last.json").stat().st_mtime_ns:
            return False
    try:
        study = site_study(folder, approved.read_text(encoding="utf-8"), str(approved)) if approved else None
    except (OSError, ValueError):
        study = None
    return study is None or study.method.personal or bool(study.sites.private)


def _runs(folder: Path) -> tuple[dict[tuple[str, str], int], set[tuple[str, str]]]:
    """The last round that each run has had here, and which of them have ended since."""
    answered: dict[tuple[str, str], int] = {}
    ended: set[tuple[str, str]] = set()
    ledger = folder / "ledger" / "site.jsonl"
    for line in lines(ledger) if ledger.exists() else ():
        key = (str(line.get("study")), str(line.get("run")))
        if "sent" in line:
            answered[key] = max(answered.get(key, 0), int(line["round"]))
            ended.discard(key)
        elif line.get("whole") or "model" in line:  # what ended otherwise may be taken up again
            ended.add(key)
    return answered, ended


def _jobs(folder: Path) -> Iterator[Leftover]:
    """What NVFlare keeps of each job."""
    places = [folder / "kit", folder / "server", folder / "server" / "store" / "jobs"]
    paths = [path for place in places if place.is_dir() for path in place.iterdir() if JOB.fullmatch(path.name)]
    busy = named_in_commands({path.name for path in paths})
    if held(folder / ".lock") is not False and (folder / "server").is_dir():  # its server looks them up
        busy |= {path.name for path in paths}
    for path in paths:
        why = "its coordinator or its job is running" if path.name in busy else ""
        yield Leftover(path, "job of NVFlare's", _size(path), why)


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.stat().st_size
    return size
