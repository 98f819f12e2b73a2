"""What `wardround site start` becomes: it keeps the site process and NVFlare's client running, and ends both.

python -m wardround.consortium.site_start FOLDER
"""

import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path

from wardround.consortium.switchboard import say
from wardround.engines.frames import DOOR, door_of, shut, silence
from wardround.engines.processes import WITH_PARENT, Programs, end_with_parent

__all__ = ["main"]

MINUTE = 60.0
JOINING = ""
CONNECTED = "connected to the coordinator"
GONE = "the coordinator has not been heard of for a minute; waiting for it"
ALONE = "not connected yet; is the coordinator running, and this kit in use nowhere else?"
NAMES = {"process": "the site process", "client": "NVFlare's client"}


def commands(folder: Path, name: str) -> dict[str, list[str]]:
    """The two programs of a site."""
    kit = folder / "kit"
    settings = ["--set", "secure_train=true", f"uid={name}", "org=wardround", "config_folder=config"]
    program = "nvflare.private.fed.app.client.client_train"
    client = [sys.executable, "-m", "wardround.engines.flare", program, "-m", str(kit), "-s", "fed_client.json"]
    return {
        "process": [sys.executable, "-m", "wardround.consortium.site_process", str(folder)],
        "client": [*client, *settings],
    }


def main() -> None:
    """Run a site until interrupted."""
    if WITH_PARENT in os.environ:
        end_with_parent()
    folder, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"{folder}: this site is running already\n")
            sys.exit(2)

        def died(program: str, code: int) -> None:
            say(f"{NAMES[program]} ended (code {code}); it is being started again")

        door = door_of(folder)
        with Programs(commands(folder, name), {DOOR: str(door)}, folder / "printed.txt", died) as programs:
            say(f"{name}: joining; what leaves is written to {folder / 'ledger' / 'site.jsonl'}")
            door.with_name("heard").unlink(missing_ok=True)
            began, last = time.monotonic(), JOINING
            while not stop.is_set():
                programs.look()
                if (now := _state(silence(door), time.monotonic() - began, last)) != last:
                    say(now)
                    last = now
                stop.wait(0.2)
            say("stopping")
        shut(door)


def _state(quiet: float | None, waited: float, last: str) -> str:
    """What there is to say of the coordinator, which is heard of every few seconds unless a line is full."""
    if quiet is not None:
        return CONNECTED if quiet < MINUTE else GONE
    return last if waited < MINUTE else ALONE


if __name__ == "__main__":
    main()
