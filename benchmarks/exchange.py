"""What an exchange across sites costs over NVFlare: real processes, mutual TLS, loopback.

    python benchmarks/exchange.py                  # ours: three sites, no-op, 100 MB, a FedNER minute, memory
    python benchmarks/exchange.py --default        # NVFlare's own settings and tasks beside them

The sites' processes are replaced by an echo: what is measured is the wire, not the training.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from nvflare_default import measure_default
from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.site_start import commands
from wardround.engines.frames import DOOR, Line, door_of, listen, shut
from wardround.engines.processes import Programs, descendants
from wardround.engines.remote import borrowed

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
    chosen = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory(prefix="wardround-") as folder:
        measure(Path(folder), chosen.noops, chosen.megabytes, chosen.minute)
    if chosen.default:
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
        client = {"client": commands(folder / name, name)["client"]}
        programs.append(Programs(client, {DOOR: str(door_of(folder / name))}, folder / "said"))
        threading.Thread(target=echo, args=(door_of(folder / name),), daemon=True).start()
    try:
        began = time.perf_counter()
        for program in programs:
            program.look()
        lines = {name: reached(folder / "centre", name) for name in SITES}
        print(f"start to first exchange, three sites: {time.perf_counter() - began:.1f} s", flush=True)
        exchange(lines, b"")
        times = [exchange(lines, b"") for _ in range(noops)]
        spread = statistics.quantiles(times, n=4)
        print(f"no-op, three sites: median {statistics.median(times) * 1000:.0f} ms, quartiles "
              f"{spread[0] * 1000:.0f} – {spread[2] * 1000:.0f} ms (aim ≤ 300 ms)", flush=True)  # fmt: skip
        for sites in (("a",), SITES):
            data = os.urandom(megabytes * MEGABYTE)
            some = {name: lines[name] for name in sites}
            each = [exchange(some, data) for _ in range(2)]
            print(f"{megabytes} MB each way, {len(sites)} site(s): {min(each):.1f} s", flush=True)
        data, count, end = os.urandom(FEDNER), 0, time.monotonic() + minute
        while time.monotonic() < end:
            exchange(lines, data)
            count += 1
        print(f"a FedNER minute ({FEDNER / 1e6:.1f} MB each way, three sites): {count * 60 / minute:.0f} exchanges")
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


def exchange(lines: dict[str, Line], data: bytes) -> float:
    """One message to each site and each one's echo; the seconds it took."""
    began = time.perf_counter()
    for line in lines.values():
        line.send({"ask": "1", "seconds": 600.0}, data)
    for name, line in lines.items():
        answer = line.receive()
        assert answer is not None  # noqa: S101 -- or there is nothing to measure
        assert answer[0].get("echo"), (name, answer[0])  # noqa: S101 -- likewise
        assert len(answer[1]) == len(data)  # noqa: S101 -- likewise
    return time.perf_counter() - began


def echo(door: Path) -> None:
    """A site process that sends back what it gets."""
    server = listen(door)
    while True:
        end, _ = server.accept()
        with suppress(OSError), Line(end) as line:
            if frame := line.receive():
                line.send({"echo": True}, frame[1])


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
