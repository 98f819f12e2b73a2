"""What an exchange across sites costs over NVFlare: real processes, mutual TLS, loopback.

    python benchmarks/exchange.py                  # ours: three sites, no-op, 100 MB, a FedNER minute, memory
    python benchmarks/exchange.py --default        # NVFlare's own settings and tasks beside them

The sites' processes are replaced by an echo, one process each: what is measured is the wire, not the training. Letters
are signed and sealed as the engine's are, both ways; what that costs is said as a ratio to the same bytes in the clear,
in turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.roster import read_roster
from wardround.consortium.site_start import commands
from wardround.engines.frames import DOOR, Line, door_of, listen, shut
from wardround.engines.processes import Programs, descendants, end_with_parent
from wardround.engines.remote import borrowed
from wardround.engines.seal import Answerer, Asker, Parcel, read_sealing_key, read_signing_key

SITES = ("a", "b", "c")
MEGABYTE = 1 << 20
FEDNER = 2_600_000  # bytes of a FedNER update: the shared module of a small tagger


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--default", action="store_true", help="NVFlare's default settings, too")
    parser.add_argument("--noops", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--minute", type=float, default=60.0, help="seconds of the FedNER minute")
    parser.add_argument("--echo", type=Path, help=argparse.SUPPRESS)  # be the process of the site in this folder
    chosen = parser.parse_args()
    if chosen.echo:
        echo(chosen.echo)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory(prefix="wardround-") as folder:
        measure(Path(folder), chosen.noops, chosen.megabytes, chosen.minute)
    if chosen.default:
        from nvflare_default import measure_default  # noqa: PLC0415 -- an echo is started with no folder on its path

        with tempfile.TemporaryDirectory(prefix="wardround-") as folder:
            measure_default(Path(folder), SITES, min(chosen.noops, 10))


def measure(folder: Path, noops: int, megabytes: int, minute: float) -> None:
    """Our settings: one job per site, messages pushed."""
    began = time.perf_counter()
    kits = new_consortium(folder / "centre", "bench", SITES, "127.0.0.1", free_port())
    print(f"certificates and kits: {time.perf_counter() - began:.1f} s")
    programs = [
        Programs(
            {"board": [sys.executable, "-m", "wardround.consortium.switchboard", str(folder / "centre")]},
            {},
            folder / "said",
        )
    ]
    for name, kit in zip(SITES, kits, strict=True):
        init_site(kit, folder / name)
        site = {
            "client": commands(folder / name, name)["client"],
            "site": [sys.executable, __file__, "--echo", str(folder / name)],
        }
        programs.append(Programs(site, {DOOR: str(door_of(folder / name))}, folder / "said"))
    try:
        began = time.perf_counter()
        for program in programs:
            program.look()
        lines = {name: reached(folder / "centre", name) for name in SITES}
        print(f"start to first exchange, three sites: {time.perf_counter() - began:.1f} s", flush=True)
        desk = Asker(read_signing_key(folder / "centre" / "keys" / "ask.key"), seals(folder / "centre"))
        exchange(lines, b"", desk)
        times, ratio = turns(lines, b"", desk, noops)
        spread = statistics.quantiles(times, n=4)
        low, middle, high = (1000 * value for value in (spread[0], statistics.median(times), spread[2]))
        print(f"no-op, three sites: median {middle:.0f} ms, quartiles {low:.0f} – {high:.0f} ms (aim ≤ 300 ms); "
              f"{ratio:.2f} × unsealed", flush=True)  # fmt: skip
        for sites in (("a",), SITES):
            data = os.urandom(megabytes * MEGABYTE)
            some = {name: lines[name] for name in sites}
            each, ratio = turns(some, data, desk, 3)
            print(
                f"{megabytes} MB each way, {len(sites)} site(s): {min(each):.1f} s; {ratio:.2f} × unsealed", flush=True
            )
        data, count, end = os.urandom(FEDNER), 0, time.monotonic() + minute
        while time.monotonic() < end:
            exchange(lines, data, desk)
            count += 1
        ratio = turns(lines, data, desk, max(min(noops, 20), 2))[1]
        print(f"a FedNER minute ({FEDNER / 1e6:.1f} MB each way, three sites): {count * 60 / minute:.0f} exchanges; "
              f"{ratio:.2f} × unsealed (aim ≤ 1.1)")  # fmt: skip
        memory(programs)
    finally:
        for program in programs:
            program.stop()
        for name in SITES:
            shut(door_of(folder / name))


def reached(centre: Path, name: str) -> Line:
    """The pipe to a site, as soon as there is one."""
    while True:
        with suppress(OSError):
            if isinstance(line := borrowed(door_of(centre), name), Line):
                return line
        time.sleep(0.05)


def seals(centre: Path) -> dict[str, str]:
    """The public key of each site."""
    return {name: member.seal for name, member in read_roster(centre).items()}


def turns(lines: dict[str, Line], data: bytes, desk: Asker, times: int) -> tuple[list[float], float]:
    """How long sealed exchanges took, and the median of their ratios to those in the clear beside them."""
    sealed, ratios = [], []
    for _ in range(times):
        plain = exchange(lines, data, None)
        sealed.append(exchange(lines, data, desk))
        ratios.append(sealed[-1] / plain)
    return sealed, statistics.median(ratios)


def exchange(lines: dict[str, Line], data: bytes, desk: Asker | None) -> float:
    """One message to each site and each one's echo, side by side as the engine does it; the seconds it took."""

    def one(name: str) -> None:
        letter = desk.write(name, {}, parcel) if desk and parcel else None
        head, sent = (letter.head, letter.data) if letter else ({"ask": "1"}, data)
        lines[name].send({**head, "seconds": 600.0}, sent)
        answer = lines[name].receive()
        assert answer is not None  # noqa: S101 -- or there is nothing to measure
        assert "fault" not in answer[0], (name, answer[0])  # noqa: S101 -- likewise
        back = letter.read(*answer)[1] if letter else answer[1]
        assert len(back) == len(data)  # noqa: S101 -- likewise

    began = time.perf_counter()
    parcel = Parcel.of(data) if desk else None
    with ThreadPoolExecutor(len(lines)) as pool:
        list(pool.map(one, lines))
    return time.perf_counter() - began


def echo(folder: Path) -> NoReturn:
    """A site process that sends back what it gets, sealed if it was."""
    end_with_parent()
    kit = json.loads((folder / "kit" / "site.json").read_text(encoding="utf-8"))
    site = Answerer(folder.name, kit["ask_key"], read_sealing_key(folder / "keys" / "seal.key"))
    server = listen(door_of(folder))
    while True:
        end, _ = server.accept()
        with suppress(OSError), Line(end) as line:
            if frame := line.receive():
                if "signature" not in frame[0]:
                    line.send({"echo": True}, frame[1])
                    continue
                ask = site.open(*frame)
                line.send(*ask.reply({}, ask.data))


def memory(programs: list[Programs]) -> None:
    """Resident memory of every process, after all of this."""
    first = [process.pid for program in programs for process in program.running.values()]
    for pid in [*first, *(child for parent in first for child in descendants(parent))]:
        with suppress(OSError):
            told = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            status = Path(f"/proc/{pid}/status").read_text()
            size = {key: int(status.split(f"{key}:")[1].split()[0]) // 1024 for key in ("VmRSS", "VmHWM")}
            kind = next((word for word in ("switchboard", "server_train", "client_train", "runner_process",
                                           "worker_process") if word in told), "?")  # fmt: skip
            print(f"memory of {kind}: {size['VmRSS']} MB now, {size['VmHWM']} MB at most")


def free_port() -> int:
    """A port that nobody uses."""
    code = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


if __name__ == "__main__":
    main()
