"""What secure aggregation costs: bytes, seconds of masking, seconds over NVFlare, and accuracy.

    python benchmarks/masks.py                  # bytes and masking: 0.1, 7 and 90 MB, 3, 10 and 30 sites
    python benchmarks/masks.py --sockets        # the same of real site processes, without NVFlare, plain and masked
    python benchmarks/masks.py --flare          # three real sites over NVFlare on loopback, plain and masked
    python benchmarks/masks.py --accuracy       # figures with and without, three seeds

*Masking*: sites that have their update at hand answer one after the other, every message encoded; of the second round,
whose numbers have 32 bits. A site's seconds are those of one of them, for at real sites they pass side by side.
*Real sites*: the rounds of whole runs, plain and masked taking turns; the first two rounds, in which keys and ranges
are handed out, and the last, which is tried, are not counted, but uploads of the second are. A ratio is of the median
rounds of two neighbours in time; printed are the median of the ratios and their quartiles. What would take more memory
than there is, at so many megabytes for each of so many processes, is left out, and said so.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from sockets import Sockets
from wardround.consortium.approval import approve
from wardround.consortium.rehearse import Rehearsal
from wardround.consortium.submit import submit
from wardround.core.cohort import Cohort
from wardround.core.exchange import Exchange
from wardround.core.layer import Layer
from wardround.core.manifest import Manifest
from wardround.core.method import Global, Method, Step, on_site
from wardround.core.record import Message
from wardround.core.site import HUB, Site
from wardround.core.task import SiteData, Task
from wardround.core.weights import Weights
from wardround.engines.host import Host
from wardround.engines.inline import Serial
from wardround.layers.masks import Masks
from wardround.methods.fedavg import Update
from wardround.runs.files import Round
from wardround.runs.loop import run
from wardround.study.load import Study, cells

SIZES = (0.1, 7.0, 90.0)
SITES = (3, 10, 30)
FEW = (3,)
PROCESS = {Rehearsal: 1.6e9, Sockets: 0.35e9}  # bytes of memory that a site and what carries its letters take
TIMES = 9  # what a message takes in memory at a site, in its own bytes
EACH = 7  # numbers that the model of `sized` has for a bucket: a weight for each of six labels, and how much it counts
PRIVACY = {"privacy": {"secure_aggregation": True}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="*", default=SIZES)
    parser.add_argument("--sites", type=int, nargs="+", help="3, 10 and 30; over NVFlare 3")
    parser.add_argument("--flare", action="store_true", help="real sites over NVFlare instead")
    parser.add_argument("--sockets", action="store_true", help="real site processes without NVFlare instead")
    parser.add_argument("--accuracy", action="store_true", help="figures with and without instead")
    parser.add_argument("--turns", type=int, default=3, help="runs of each kind at real sites")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of each of these runs")
    parser.add_argument("--no-batches", action="store_true", help="leave FedNER out")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    if chosen.flare or chosen.sockets:
        wire = Rehearsal if chosen.flare else Sockets
        for size in chosen.megabytes:
            for sites in chosen.sites or (FEW if chosen.flare else SITES):
                if short := _wanting(size, sites, wire):
                    print(f"{size:g} MB, {sites} sites: not measured, {short}", flush=True)
                else:
                    at_real_sites(f"{size:g} MB", sized(size, sites, chosen.rounds), chosen.turns, wire)
        if not chosen.no_batches:
            at_real_sites("FedNER, a batch", batches(), chosen.turns, wire)
    elif chosen.accuracy:
        accuracy()
    else:
        for size in chosen.megabytes:
            for sites in chosen.sites or SITES:
                masking(size, sites)


# bytes and masking


@dataclass(frozen=True, kw_only=True)
class AtHand(Method[Global]):
    """Sites answer with an update that they have at hand."""

    numbers: int

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The model as it is."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """The mean."""
        total = cohort.total(self.fit, state)
        return Global(state.weights + total.change / total.weight)

    @on_site
    def fit(self, model: Global, site: Site) -> Update:
        """Numbers as small as updates are."""
        return Update(Weights.of_flat(torch.randn(self.numbers, generator=site.rng) * 0.1, model.weights.layout), 10)


@dataclass(frozen=True)
class Nowhere:
    """Sites without data."""

    names: tuple[str, ...]

    def open(self, name: str) -> SiteData:
        """There is none."""
        raise LookupError(name)


class Clocked(Serial):
    """Sites one after the other, and how long they took."""

    seconds = 0.0

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any]]:
        """Each site's reply."""
        replies: Iterator[tuple[str, Any]] = iter(super().deliver(exchange, step, messages))
        while True:
            began = time.perf_counter()
            reply = next(replies, None)
            self.seconds += time.perf_counter() - began
            if reply is None:
                return
            yield reply


def masking(megabytes: float, sites: int) -> None:
    """One exchange with masks and without: what a site uploads, and how long it and the coordinator take."""
    numbers = int(megabytes * 1e6 / 4)
    weights = Weights({"weight": torch.zeros(numbers)})
    names = tuple(f"site-{number:02d}" for number in range(sites))
    results = {}
    for kind, layers in (("plain", ()), ("masked", (Masks(),))):
        with tempfile.TemporaryDirectory() as folder:
            results[kind] = _second_round(AtHand(numbers=numbers), weights, names, layers, Path(folder))
    (site, centre, up), (masked_site, masked_centre, masked_up) = results["plain"], results["masked"]
    print(
        f"{megabytes:g} MB, {sites} sites: upload {masked_up / up:.3f} ×; a site {site:.3f} s → {masked_site:.3f} s, "
        f"the coordinator {centre:.3f} s → {masked_centre:.3f} s",
        flush=True,
    )


def _second_round(
    method: AtHand, weights: Weights, names: tuple[str, ...], layers: tuple[Layer, ...], folder: Path
) -> tuple[float, float, int]:
    """A site's seconds, the coordinator's, and the bytes that a site sent."""
    manifest = Manifest({"model": weights.layout}, {})
    host = Host(method, cast("Task", None), Nowhere(names), folder, layers, (), manifest)
    state, given = Global(weights), (0.0, 0.0, 0)
    for round_ in (1, 2):
        engine = Clocked(host, strict=True)
        hub = host.site(HUB, Exchange("hub", round_, 0, 0, 0))
        cohort = Cohort(names, len(names), round_, 0, engine, manifest, hub, layers)
        began = time.perf_counter()
        state = method.round(state, cohort)
        whole = time.perf_counter() - began
        given = engine.seconds / len(names), whole - engine.seconds, cohort.traffic.up // len(names)
    return given


# real sites


def sized(megabytes: float, sites: int = 3, rounds: int = 6) -> dict[str, Any]:
    """A study of a bag of words whose table has so many megabytes, with next to no notes."""
    return {
        "name": "sized", "rounds": rounds, "evaluation": {"every": rounds},
        "corpus": {"name": "clinic", "hospitals": sites, "documents": 3, "test_documents": 3},
        "task": {"name": "classification", "tokens": "words", "buckets": int(megabytes * 1e6 / 4 / EACH)},
        "method": {"name": "fedavg"},
    }  # fmt: skip


def _wanting(megabytes: float, sites: int, wire: type[Rehearsal]) -> str:
    """Why this does not fit into memory; nothing if it does."""
    needed = sites * (PROCESS[wire] + TIMES * megabytes * 1e6)
    with Path("/proc/meminfo").open(encoding="utf-8") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    return f"it takes some {needed / 1e9:.0f} GB, and {free / 1e9:.0f} are free" if needed > free else ""


def batches() -> dict[str, Any]:
    """FedNER's exchanges, one for each batch."""
    return {
        "name": "batches", "rounds": 6, "evaluation": {"every": 6},
        "corpus": {"name": "clinic", "hospitals": 3, "documents": 6, "test_documents": 3},
        "task": {"name": "tagging"},
        "method": {"name": "fedner", "ask_sizes": False, "batch": 16, "steps": 5},
    }  # fmt: skip


def at_real_sites(what: str, tables: dict[str, Any], turns: int, wire: type[Rehearsal]) -> None:
    """Rounds of real sites, plain and masked in turns."""
    ratios, up, seconds, loads, each = [], [], [], [], 0.0
    plain = study_of(tables)
    with tempfile.TemporaryDirectory(prefix="wardround-") as name:
        folder = Path(name)
        with wire(folder, plain, folder) as sites:
            places = sorted((folder / "sites").iterdir())
            for turn in range(turns):
                middle, sent = {}, {}
                for kind, more in (("plain", {}), ("masked", PRIVACY)):
                    study = study_of({**tables, **more, "seed": turn})
                    for place in places:
                        approve(place, study)
                    out = folder / f"{kind}-{turn}"
                    submit(study, out, sites.over)
                    text = (out / "journal.jsonl").read_text(encoding="utf-8")
                    rounds = [Round.model_validate_json(line) for line in text.splitlines()]
                    middle[kind] = statistics.median(line.seconds for line in rounds[2:-1])
                    sent[kind] = sum(line.up for line in rounds[1:-1])
                each = sent["plain"] / len(rounds[1:-1]) / len(places)
                ratios.append(middle["masked"] / middle["plain"])
                seconds.append(middle["plain"])
                up.append(sent["masked"] / sent["plain"])
                loads.append(os.getloadavg()[0])
    low, half, high = statistics.quantiles(ratios, n=4, method="inclusive") if turns > 1 else ratios * 3
    carried = "NVFlare" if wire is Rehearsal else "local sockets"
    print(
        f"{what}, {len(places)} sites over {carried}: upload {up[-1]:.3f} × of {each / 1e6:.3g} MB a "
        f"round, time {half:.2f} × [{low:.2f} – {high:.2f}] of {statistics.median(seconds):.3f} s a round; "
        f"load {min(loads):.0f} to {max(loads):.0f}",
        flush=True,
    )


# accuracy


def accuracy() -> None:
    """Figures of the same study with and without masks."""
    notes = {"corpus": {"name": "clinic", "hospitals": 5, "documents": 60, "test_documents": 30}, "rounds": 15}
    for name, metric, tables in (
        ("fedavg, classification", "macro_f1", {"task": {"name": "classification"}, "method": {"name": "fedavg"}}),
        ("fedner, tagging", "f1", {"task": {"name": "tagging"}, "method": {"name": "fedner", "ask_sizes": False}}),
    ):  # fmt: skip
        pairs = []
        for seed in range(3):
            with tempfile.TemporaryDirectory() as folder:
                figures = []
                for kind, more in (("plain", {}), ("masked", PRIVACY)):
                    study = study_of({"name": "figures", **notes, **tables, **more, "seed": seed})
                    figures.append(run(study, Path(folder) / kind).metrics[metric])
            pairs.append(f"{figures[0]:.4f} → {figures[1]:.4f}")
        print(f"{name}, {metric} without and with masks: {', '.join(pairs)}", flush=True)


def study_of(tables: Mapping[str, Any]) -> Study:
    """The study of these tables."""
    return cells(dict(tables))[0].study


if __name__ == "__main__":
    main()
