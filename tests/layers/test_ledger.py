"""The ledger: nobody changes the past unseen, a crash breaks no chain, and both ends tell the same story."""

import errno
import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from wardround.core.cohort import Cohort
from wardround.core.exchange import Exchange
from wardround.core.files import file_name
from wardround.core.layer import Layer
from wardround.core.manifest import Manifest
from wardround.core.method import Global
from wardround.core.task import SiteData
from wardround.core.weights import Weights
from wardround.engines.host import Host
from wardround.engines.inline import Serial
from wardround.layers.ledger import SEAM, Chain, Ledger, LedgerError, verify
from wardround.methods.fedavg import FedAvg
from wardround.methods.scaffold import Scaffold
from wardround.tasks.features import FeatureRows, FeaturesTask

NAMES = ("Charité", "St. Mary's", "north/ward", "北京")
ENTRIES: list[dict[str, Any]] = [
    {"round": 1, "from": "a", "note": 'quotes ",\\" and {braces}'},
    {"round": 1, "from": "北京", "message": {"kind": "Update", "bytes": 123}},
    {"round": 2, "note": SEAM + "0" * 64 + '"}'},
    {"round": 2, "note": "two\nlines"},
    {"round": 3},
]


@cache
def written() -> bytes:
    """A ledger of a few lines, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        appended(path, *ENTRIES)
        return path.read_bytes()


def appended(path: Path, *entries: dict[str, Any]) -> None:
    """Lines that a new process adds."""
    chain = Chain(path)
    for entry in entries:
        chain.append(entry)
    chain.flush()


def verified(raw: bytes) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(raw)
        return verify(path)


def broken(raw: bytes) -> None:
    assert raw != written()
    with pytest.raises(LedgerError, match=r"ledger\.jsonl:\d+: the chain is broken here"):
        verified(raw)


# the past


def test_an_intact_ledger_is_counted_and_its_entries_are_plain_json() -> None:
    assert len(ENTRIES) == verified(written())
    lines = [json.loads(line) for line in written().decode().splitlines()]
    assert ENTRIES == [{key: value for key, value in line.items() if key != "hash"} for line in lines]
    assert 0 == verified(b"")


@given(st.integers(0, len(written()) - 1), st.integers(1, 255))
@example(len(written()) - 1, ord("\n") ^ ord(" "))  # the last newline
@example(written().index(b"\n"), ord("\n") ^ ord(" "))  # the first
@example(0, ord("{") ^ ord("\n"))
def test_any_changed_byte_is_noticed(place: int, mask: int) -> None:
    raw = bytearray(written())
    raw[place] ^= mask
    broken(bytes(raw))


def test_every_byte_is_covered() -> None:
    for place in range(len(written())):
        raw = bytearray(written())
        raw[place] ^= 1
        broken(bytes(raw))


@given(st.integers(0, len(ENTRIES) - 2))
def test_a_deleted_line_is_noticed(index: int) -> None:
    lines = written().splitlines(keepends=True)
    broken(b"".join(lines[:index] + lines[index + 1 :]))


@given(st.integers(0, len(ENTRIES)), st.integers(0, len(ENTRIES) - 1), st.binary(max_size=20))
def test_an_inserted_line_is_noticed(index: int, source: int, text: bytes) -> None:
    lines = written().splitlines(keepends=True)
    for line in (lines[source], text + b"\n"):
        broken(b"".join([*lines[:index], line, *lines[index:]]))


@given(st.lists(st.integers(0, len(ENTRIES) - 1), min_size=2, max_size=2, unique=True))
def test_swapped_lines_are_noticed(pair: list[int]) -> None:
    lines = written().splitlines(keepends=True)
    first, second = pair
    lines[first], lines[second] = lines[second], lines[first]
    broken(b"".join(lines))


@given(st.integers(1, len(written()) - 1))
def test_a_cut_within_a_line_is_noticed(length: int) -> None:
    raw = written()[:length]
    if raw.endswith(b"\n"):  # whole lines missing at the end show only against the other side's ledger
        assert raw.count(b"\n") == verified(raw)
    else:
        broken(raw)


def test_the_first_bad_line_is_named() -> None:
    lines = written().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"2", b"3", 1)
    with pytest.raises(LedgerError, match=r":3: "):
        verified(b"".join(lines))


# crashes


@pytest.mark.parametrize("size", [1, 70_000, 300_000], ids="{} bytes".format)
@pytest.mark.parametrize("whole", [0, 1, 3])
def test_a_torn_last_line_is_set_aside_and_the_chain_goes_on(tmp_path: Path, whole: int, size: int) -> None:
    path = tmp_path / "ledger.jsonl"
    long = {"to": "x" * size}
    appended(path, *[long] * whole, {"torn": "y" * size})
    raw = path.read_bytes()
    torn = raw[raw.rfind(b"\n", 0, -1) + 1 :][: -(size // 2 + 1)]
    path.write_bytes(raw[: raw.rfind(b"\n", 0, -1) + 1] + torn)
    appended(path, {"round": 2}, long)
    appended(path, {"round": 3})
    assert whole + 3 == verify(path)
    assert torn + b"\n" == (tmp_path / "ledger.torn").read_bytes()


def test_every_torn_line_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for torn in (b'{"round', b'{"ro'):
        appended(path, {"round": 1})
        with path.open("ab") as file:
            file.write(torn)
    appended(path, {"round": 1})
    assert 3 == verify(path)
    assert b'{"round\n{"ro\n' == (tmp_path / "ledger.torn").read_bytes()


def test_an_intact_ledger_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.jsonl"
    for entry in ENTRIES:
        appended(path, entry)
    assert written() == path.read_bytes()
    assert [path] == list(path.parent.iterdir())


def test_a_full_disk_tears_no_line_and_the_lines_follow_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    chain = Chain(path)
    chain.append({"round": 1})
    chain.flush()
    before = path.read_bytes()
    chain.append({"to": "x" * 2000})
    for _ in range(2):
        with no_file_above(1000), pytest.raises(OSError, match="File too large"):
            chain.flush(durable=True)
        assert before == path.read_bytes()
    chain.flush(durable=True)
    assert 2 == verify(path)


def test_a_disk_that_says_only_at_the_end_that_it_is_full_keeps_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that is another machine's: the ledger would go on without the line, and its chain be broken."""
    path = tmp_path / "ledger.jsonl"
    appended(path, {"round": 1})
    before, chain = path.read_bytes(), Chain(path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    chain.append({"round": 2})
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            chain.flush(durable=True)
    assert before == path.read_bytes()
    chain.flush(durable=True)
    assert 2 == verify(path)


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """As on a full disk, writing stops within a line; the interpreter ignores the signal that goes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# both ends


class Sites:
    """Four sites with a few rows each."""

    names = NAMES

    def open(self, name: str) -> SiteData:
        rng = torch.Generator().manual_seed(len(name))
        rows = FeatureRows(torch.randn(5, 4, generator=rng), torch.randint(3, (5,), generator=rng))
        return SiteData(train=rows, test=rows)


def after_a_run(folder: Path, method: FedAvg | Scaffold, rounds: int = 2) -> Cohort:
    """Runs a method over the sites, with a ledger in the folder; the last round's cohort."""
    task = FeaturesTask(4, 3)
    weights = Weights.of_model(task.model())
    manifest = Manifest({"model": weights.layout, "counts": task.counts()}, task.sizes())
    ledger = Ledger(folder / "ledger", sites=True)
    host = Host(method, task, Sites(), folder / "memory")
    engine = Serial(host, strict=True)
    state: Any = None
    for round_ in range(rounds + 1):
        hub = host.site("hub", Exchange("hub", round_, 0, 0, 0))
        layers: tuple[Layer, ...] = (ledger,)
        cohort = Cohort(tuple(sorted(NAMES)), len(NAMES), round_, 0, engine, manifest, hub, layers)
        state = method.round(state, cohort) if round_ else method.start(weights, cohort)
    ledger.flush()
    return cohort


def lines(path: Path) -> list[dict[str, Any]]:
    assert verify(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("method", [FedAvg, Scaffold], ids=lambda kind: kind.__name__)
def test_sites_and_coordinator_tell_the_same_story(tmp_path: Path, method: Callable[[], FedAvg | Scaffold]) -> None:
    cohort = after_a_run(tmp_path, method())
    own = lines(tmp_path / "ledger" / "coordinator.jsonl")
    bytes_up = 0
    for name in NAMES:
        theirs = lines(tmp_path / "ledger" / "sites" / f"{file_name(name)}.jsonl")
        sent = [
            (line["round"], line["exchange"], line["step"], line["message"])
            for line in own
            if name in line.get("to", [])
        ]
        got = [
            (line["round"], line["exchange"], line["step"], line["message"]) for line in own if name == line.get("from")
        ]
        assert sent == [(line["round"], line["exchange"], line["step"], line["received"]) for line in theirs]
        assert got == [(line["round"], line["exchange"], line["step"], line["sent"]) for line in theirs]
        assert [1, 2] == [line["round"] for line in theirs]
        bytes_up += theirs[-1]["sent"]["bytes"]
    assert cohort.traffic.up == bytes_up


def test_nothing_but_names_kinds_and_counts_is_written_down(tmp_path: Path) -> None:
    after_a_run(tmp_path, FedAvg())
    kinds = {"kind": str, "bytes": int}
    common = {"time": str, "round": int, "exchange": int, "step": str, "hash": str}
    shapes = {
        "to": common | {"to": list, "message": dict},
        "from": common | {"from": str, "message": dict},
        "received": common | {"received": dict, "sent": dict},
    }
    for path in (tmp_path / "ledger").rglob("*.jsonl"):
        for line in lines(path):
            key = next(key for key in shapes if key in line)
            assert shapes[key] == {name: type(value) for name, value in line.items()}
            assert set(line.get("to", [])) <= set(NAMES)
            assert line["step"] in FedAvg.declared()
            for message in (line[name] for name in ("message", "received", "sent") if name in line):
                assert kinds == {name: type(value) for name, value in message.items()}
                assert message["kind"] in {"Global", "Update"}


def test_one_line_tells_of_a_message_that_went_to_all(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    weights = Global(Weights({"a": torch.zeros(2)}))
    other = Global(Weights({"a": torch.zeros(2)}))
    ledger.send({"a": weights, "b": weights, "c": other}, Exchange("fit", 1, 1, 0, 0))
    ledger.flush()
    assert [["a", "b"], ["c"]] == [line["to"] for line in lines(tmp_path / "coordinator.jsonl")]


def test_nothing_reaches_the_disk_before_it_is_flushed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.send({"a": Global(Weights({}))}, Exchange("fit", 1, 1, 0, 0))
    assert not (tmp_path / "ledger").exists()
    ledger.flush()
    ledger.flush()
    assert 1 == verify(tmp_path / "ledger" / "coordinator.jsonl")
