"""What commands do that are given a person's folder: the same as on the coordinator's machine, through its door.

submit_from_afar(study, Path("ada"), None, order, quiet=False, most=4.0)
"""

import shutil
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Any

from rich.table import Table

from wardround.cli.options import console, errors, fail
from wardround.consortium.errand import Denied, Errand, tunnel
from wardround.consortium.orders import LARGEST, Order
from wardround.runs.errors import RunError

LOOK_SECONDS = 1.0
FILES = 10_000
TRIES = 600  # seconds of asking how a run is, while the coordinator is being started again


def submit_from_afar(study: Path, folder: Path, out: Path | None, order: Order, *, quiet: bool, most: float) -> None:
    """Submit a study, tell what its run says, and fetch what comes of it, up to so many GB."""
    try:
        text = study.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{study} cannot be read: {error}") from None
    if len(text) > LARGEST // 2:
        raise RunError(f"{study} is too large for a study file")
    errand = Errand(folder)
    whole = order.model_copy(update={"study": text})
    name = str(whole.tables()["name"])  # its own word, not the coordinator's: it becomes a folder here
    errand.ask("/submit", whole.model_dump())
    place = f"{errand.card.name}/{name}"
    errors.print(f"{place} has begun; it goes on without this command: wardround status {folder}")
    code = _followed(errand, place, quiet=quiet)
    if code:
        raise SystemExit(code)
    target = out or Path("runs") / name
    for file, size in _agreed(errand.ask(f"/files/{place}")["files"], most, target).items():
        errand.fetch(f"/files/{place}/{file}", target / _below(file), size)
    console.print(f"figures, report and model are in {target}")


def _agreed(files: Any, most: float, target: Path) -> dict[str, int]:
    """What a run has left to fetch, by the coordinator's word; a `RunError` if that is more than was agreed to."""
    sizes = [*files.values()] if isinstance(files, dict) else [-1]
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise RunError("the coordinator does not say how large its files are; nothing was fetched")
    if sum(sizes) > most * 1e9 or len(sizes) > FILES:
        raise RunError(
            f"the coordinator would send {len(sizes):,} files of {sum(sizes) / 1e9:,.1f} GB, and --fetch takes "
            f"{FILES:,} files of {most:g} GB; nothing was fetched. To take more: --resume --fetch GB"
        )
    place = next(folder for folder in (target.absolute(), *target.absolute().parents) if folder.is_dir())
    if sum(sizes) > (free := shutil.disk_usage(place).free):
        raise RunError(f"{place} has room for {free / 1e9:,.1f} GB, and {sum(sizes) / 1e9:,.1f} GB would come")
    return dict(files)


def _below(name: str) -> PurePosixPath:
    """The name of a file within a folder; a coordinator's word does not lead out of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise RunError(f"the coordinator names a file {name[:80]!r}; nothing more was written")
    return path


def _followed(errand: Errand, place: str, *, quiet: bool) -> int:
    """Print what a run says until it has ended; the code that it ended with."""
    at, failed = 0, 0
    while True:
        try:
            news = errand.ask(f"/output/{place}?from={at}")
        except Denied:
            raise
        except RunError:
            failed += 1
            if failed == TRIES:
                raise
        else:
            failed, at = 0, int(news["end"])
            for line in () if quiet else news["lines"]:
                errors.print(str(line))
            if news["code"] is not None and not news["lines"]:
                return int(news["code"])
            if news["lines"]:
                continue
        time.sleep(LOOK_SECONDS)


def status_from_afar(folder: Path) -> None:
    """Who is there, and how far the newest runs are."""
    errand = Errand(folder)
    status = errand.ask("/status")
    card = errand.card
    table = Table("site", "state", box=None)
    for name, state in status["sites"].items():
        table.add_row(str(name), str(state["words"]))
    console.print(f"consortium {card.consortium} at {card.host}:{card.port}, as {card.name} ({card.role})")
    console.print(table)
    for run in status["runs"]:
        console.print(f"{run['run']}: {run['words']}")


def stop_from_afar(folder: Path, run: str) -> None:
    """End a run after its round; without one, the coordinator."""
    errand = Errand(folder)
    if run:
        errand.ask("/stop", {"run": run if "/" in run or errand.card.role == "admin" else f"{errand.card.name}/{run}"})
        console.print(f"{run} will stop after this round")
    else:
        errand.ask("/end", {})
        console.print("the coordinator is stopping")


def watch_from_afar(folder: Path, port: int) -> None:
    """Serve the coordinator's page on this machine's loopback, until Ctrl-C: for looking, whatever the role."""
    from wardround.serve.server import HostError, address, listening

    errand = Errand(folder)
    errand.ask("/status")
    try:
        door = listening("127.0.0.1", port)
    except HostError as error:
        fail(str(error))
    with door:
        console.print(f"{address('127.0.0.1', door)}   (Ctrl-C ends it)")
        try:
            while True:
                near, _ = door.accept()
                threading.Thread(target=_carried, args=(errand, near), daemon=True).start()
        except KeyboardInterrupt:
            console.print("stopped")


def _carried(errand: Errand, near: Any) -> None:
    try:
        far = errand.connect(looking=True)
    except RunError:
        near.close()
        return
    tunnel(near, far)
