"""What an exchange across sites costs over NVFlare: real processes, mutual TLS, loopback.

    python benchmarks/exchange.py                  # ours: three sites, no-op, 100 MB, a FedNER minute, memory
    python benchmarks/exchange.py --default        # NVFlare's own settings and tasks beside them
    git worktree add ../before b450eb0; python benchmarks/exchange.py --before ../before

The sites' processes are replaced by an echo, one process each: what is measured is the wire, not the training. Letters
are signed and sealed as the engine's are, both ways. What that costs is said as a ratio to the same bytes in the clear,
over the same wire; and with `--before`, as a ratio to another checkout's whole way of doing it. All take turns, ratios
are those of neighbours in time, and printed are their medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.site_start import commands
from wardround.engines.frames import DOOR, Line, door_of, listen, shut
from wardround.engines.processes import Programs, descendants, end_with_parent
from wardround.engines.remote import borrowed

try:
    from wardround.consortium.roster import read_roster
    from wardround.engines import seal
except ImportError:  # a checkout from before there were seals
    seal = None  # type: ignore[assignment]

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
    parser.add_argument("--before", type=Path, help="another checkout, which takes turns with this one")
    parser.add_argument("--obey", action="store_true", help=argparse.SUPPRESS)  # be that other one
    parser.add_argument("--echo", type=Path, help=argparse.SUPPRESS)  # be the process of the site in this folder
    chosen = parser.parse_args()
    if chosen.echo:
        echo(chosen.echo)
    if chosen.obey:
        obey()
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory(prefix="wardround-") as folder:
        measure(Path(folder), chosen.noops, chosen.megabytes, chosen.minute, chosen.before)
    if chosen.default:
        from nvflare_default import measure_default  # noqa: PLC0415 -- an echo is started with no folder on its path

        with tempfile.TemporaryDirectory(prefix="wardround-") as folder:
            measure_default(Path(folder), SITES, min(chosen.noops, 10))


@contextmanager
def consortium(folder: Path) -> Iterator[tuple[dict[str, Line], "seal.Asker | None", list[Programs]]]:
    """Three sites that echo: the lines to them, the desk that seals, and the programs. One job per site."""
    began = time.perf_counter()
    kits = new_consortium(folder / "centre", "bench", SITES, "127.0.0.1", free_port())
    tell(f"certificates and kits: {time.perf_counter() - began:.1f} s")
    board = {"board": [sys.executable, "-m", "wardround.consortium.switchboard", str(folder / "centre")]}
    programs = [Programs(board, {}, folder / "said")]
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
        tell(f"start to first exchange, three sites: {time.perf_counter() - began:.1f} s")
        desk = asker(folder / "centre") if seal else None
        exchange(lines, b"", desk)
        yield lines, desk, programs
    finally:
        for program in programs:
            program.stop()
        for name in SITES:
            shut(door_of(folder / name))


def measure(folder: Path, noops: int, megabytes: int, minute: float, before: Path | None) -> None:
    """Our settings, and in turns with them the same in the clear, and another checkout."""
    with consortium(folder) as (lines, desk, programs), other(before) as beside:
        times, ratios = turns(lines, b"", desk, noops, beside)
        spread = statistics.quantiles(times, n=4, method="inclusive")
        low, middle, high = (1000 * value for value in (spread[0], statistics.median(times), spread[2]))
        tell(
            f"no-op, three sites: median {middle:.0f} ms, quartiles {low:.0f} – {high:.0f} ms (aim ≤ 300 ms); {ratios}"
        )
        for sites in (("a",), SITES):
            some = {name: lines[name] for name in sites}
            each, ratios = turns(some, os.urandom(megabytes * MEGABYTE), desk, 3, beside)
            tell(f"{megabytes} MB each way, {len(sites)} site(s): {min(each):.1f} s; {ratios}")
        data, count, end = os.urandom(FEDNER), 0, time.monotonic() + minute
        while time.monotonic() < end:
            exchange(lines, data, desk)
            count += 1
        _, ratios = turns(lines, data, desk, max(min(noops, 20), 2), beside)
        what = f"{FEDNER / 1e6:.1f} MB each way, three sites"
        tell(f"a FedNER minute ({what}): {count * 60 / minute:.0f} exchanges; {ratios}")
        memory(programs)


def tell(text: str) -> None:
    """Print at once, on whichever stream is for people."""
    print(text, flush=True, file=sys.stderr if "--obey" in sys.argv else sys.stdout)


Beside = Callable[[str, int], float]


@contextmanager
def other(checkout: Path | None) -> Iterator[Beside | None]:
    """A function that has another checkout's consortium exchange so many bytes with these sites: the seconds."""
    if checkout is None:
        yield None
        return
    command = [sys.executable, __file__, "--obey"]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as there:
        into, out = there.stdin, there.stdout
        assert into and out  # noqa: S101, PT018 -- they are pipes

        def ask(sites: str, size: int) -> float:
            print(sites, size, file=into, flush=True)
            return float(out.readline())

        ask("abc", 0)
        yield ask
        into.close()


def obey() -> None:
    """Exchange what is asked for, line by line, with whatever code is on the path."""
    with tempfile.TemporaryDirectory(prefix="wardround-") as folder, consortium(Path(folder)) as (lines, desk, _):
        for order in sys.stdin:
            sites, size = order.split()
            print(exchange({name: lines[name] for name in sites}, os.urandom(int(size)), desk), flush=True)


def reached(centre: Path, name: str) -> Line:
    """The pipe to a site, as soon as there is one."""
    while True:
        with suppress(OSError):
            if isinstance(line := borrowed(door_of(centre), name), Line):
                return line
        time.sleep(0.05)


def asker(centre: Path) -> "seal.Asker":
    """The coordinator's desk, with the public key of each site."""
    keys = {name: member.seal for name, member in read_roster(centre).items()}
    return seal.Asker(seal.read_signing_key(centre / "keys" / "ask.key"), keys)


def turns(
    lines: dict[str, Line], data: bytes, desk: "seal.Asker | None", times: int, beside: Beside | None
) -> tuple[list[float], str]:
    """How long sealed exchanges took, and the medians of their ratios to what took place beside them."""
    sealed, clear, before = [], [], []
    for _ in range(times):
        plain = exchange(lines, data, None)
        sealed.append(exchange(lines, data, desk))
        clear.append(sealed[-1] / plain)
        if beside:
            before.append(sealed[-1] / beside("".join(lines), len(data)))
    aim = f", {statistics.median(before):.2f} × the other checkout (aim ≤ 1.1)" if before else ""
    return sealed, f"{statistics.median(clear):.2f} × unsealed{aim}"


def exchange(lines: dict[str, Line], data: bytes, desk: "seal.Asker | None") -> float:
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
    parcel = seal.Parcel.of(data) if desk else None
    with ThreadPoolExecutor(len(lines)) as pool:
        list(pool.map(one, lines))
    return time.perf_counter() - began


def echo(folder: Path) -> NoReturn:
    """A site process that sends back what it gets, sealed if it was."""
    end_with_parent()
    kit = json.loads((folder / "kit" / "site.json").read_text(encoding="utf-8"))
    site = seal and seal.Answerer(folder.name, kit["ask_key"], seal.read_sealing_key(folder / "keys" / "seal.key"))
    server = listen(door_of(folder))
    while True:
        end, _ = server.accept()
        with suppress(OSError), Line(end) as line:
            if frame := line.receive():
                if not site or "signature" not in frame[0]:
                    line.send({"echo": True}, frame[1])
                    continue
                ask = site.open(*frame)
                line.send(*ask.reply({}, ask.data))


def memory(programs: list[Programs]) -> None:
    """Resident memory of every process, after all of this."""
    first = [process.pid for program in programs for process in program.running.values()]
    for pid in [*first, *(child for parent in first for child in descendants(parent))]:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            status = Path(f"/proc/{pid}/status").read_text()
            size = {key: int(status.split(f"{key}:")[1].split()[0]) // 1024 for key in ("VmRSS", "VmHWM")}
            kind = next((word for word in ("switchboard", "server_train", "client_train", "runner_process",
                                           "worker_process") if word in words), "?")  # fmt: skip
            print(f"memory of {kind}: {size['VmRSS']} MB now, {size['VmHWM']} MB at most")


def free_port() -> int:
    """A port that nobody uses."""
    code = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


if __name__ == "__main__":
    main()
