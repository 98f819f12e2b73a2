"""Every method and every task, over real NVFlare processes and mutual TLS, gives the same bits as in one process.

NVFlare carries bytes and knows neither: each method goes over it once, and each task. The other pairs go through the
same site processes' code, seals and ledgers with the wire left out (`loopback`), at a tenth of the time.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from encoder_folders import tiny_encoder
from loopback import Exchange
from real_sites import Federation
from wardround.consortium import reach
from wardround.consortium.house_ledger import compared
from wardround.consortium.submit import submit
from wardround.core import exchange as core
from wardround.engines.remote import Remote
from wardround.layers.bound import NOTED
from wardround.layers.ledger import lines, verify
from wardround.methods import METHODS
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks import TASKS

pytest.importorskip("nvflare")

SITES = ("site-0", "site-1", "site-2")
SYNTHETIC = {"name": "synthetic", "sites": 3, "largest": 40}
CLINIC = {"name": "clinic", "hospitals": 3, "documents": 12, "test_documents": 6}
EVENLY = {"name": "iid", "sites": 3}

CASES: dict[str, dict[str, Any]] = {
    "features": {"task": {"name": "features"}, "corpus": SYNTHETIC, "partition": EVENLY},
    "classification": {
        "task": {"name": "classification", "buckets": 256}, "corpus": CLINIC, "partition": EVENLY,
    },
    "bags": rehearsal("bags"),
    "relation": {
        "task": {"name": "relation", "encoder": "encoder", "freeze": 1},
        "corpus": {"name": "clinic-pairs", "hospitals": 3, "notes": 4, "test_notes": 2}, "partition": EVENLY,
    },
    "tagging": {
        "task": {"name": "tagging", "buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4},
        "corpus": {**CLINIC, "documents": 4, "test_documents": 2}, "partition": EVENLY,
        "sites": {"private": ["lstm", "crf"]},
    },
}  # fmt: skip
"""A small study per task; cut into sites called as the consortium's."""

ENCODED: dict[str, dict[str, Any]] = {
    f"{name} by {model}": {
        "task": {"name": name, "model": model, "encoder": "encoder", "freeze": 1, "longest": 60},
        "corpus": CASES[name]["corpus"], "partition": EVENLY,
    }
    for name, model in (("bags", "encoder"), ("classification", "encoder"), ("tagging", "encoder-crf"))
}  # fmt: skip
"""The same tasks by a pretrained encoder, whose way over the wire is that of any weights: one method is enough."""

OWN = '''
"""A user's own method, beside the study and at the sites."""

from dataclasses import dataclass

from wardround.extend import FedAvg


@dataclass(frozen=True, kw_only=True)
class Own(FedAvg):
    """FedAvg of one's own."""
'''
MINE = "my_own:Own"
LAYERS = [Path(__file__).parents[2] / "examples" / "own_layer.py", Path(__file__).parents[1] / "pairwise.py"]

KINDS = {known.kind: name for name, known in reversed(METHODS.items()) if not known.kind.pooled}
WIRED = sorted(
    {
        (name, "bags" if known.kind.rehearsal == "bags" else "features")
        for name, known in METHODS.items()
        if not known.kind.pooled
    }
    | {("fedavg", task) for task in (*CASES, *ENCODED)}
    | {(MINE, "features")}
)
"""Every method, and every task."""
OTHERS = sorted({(method, task) for task in CASES for method in (*KINDS.values(), MINE)} - set(WIRED))
"""The rest of every method on every task; those that are only settings of others have been."""


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("study")
    (folder / "my_own.py").write_text(OWN, encoding="utf-8")
    for layer in LAYERS:
        (folder / layer.name).write_bytes(layer.read_bytes())
        sys.modules.pop(layer.stem, None)  # that of another test's folder, which may be gone
    tiny_encoder(folder / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder
    sys.modules.pop("my_own", None)


@pytest.fixture(scope="module")
def federation(beside: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder = tmp_path_factory.mktemp("federation")
    with Federation(folder, SITES, sorted(beside.glob("*.py"))) as federation:
        yield federation


def study_of(method: str, task: str, beside: Path) -> Study:
    tables = {
        "name": "both",
        "rounds": 2,
        "method": {"name": method},
        "evaluation": {"each": True},
        **(CASES | ENCODED)[task],
    }
    if "encoder" in tables["task"]:
        tables["task"] = {**tables["task"], "encoder": str(beside / "encoder")}
    if method in METHODS and METHODS[method].kind.public:
        tables["public"] = {"fraction": 0.3}
    return cells(tables)[0].study


def outcome(out: Path) -> dict[str, Any]:
    """What must be the same bits, whatever carried the messages."""
    files = {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in ("checkpoints/*", "model/weights*")
        for path in sorted(out.glob(pattern))
    }
    journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    metrics = json.loads((out / "metrics.json").read_text())
    for timed in (metrics, *journal):
        timed.pop("seconds")
        timed.pop("ended", None)
    for line in journal:
        line["noted"].pop(NOTED, None)  # by which real sites are judged
    return {"files": files, "journal": journal, "metrics": metrics, "wire": (out / "wire.json").read_text()}


def test_every_task_has_a_case() -> None:
    assert set(TASKS) == set(CASES)


@pytest.mark.parametrize(("method", "task"), OTHERS)
def test_site_processes_give_the_same_bits(
    method: str, task: str, beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First of all: a federation that waits takes a sixth of a core."""
    monkeypatch.setattr(reach, "STEPS", 10)  # by which a site finds out how far training may go, not the run itself
    try:
        study = study_of(method, task, beside)
        run(study, tmp_path / "inline", checkpoint_seconds=0)
    except StudyError as error:
        pytest.skip(f"{method} does not take {task}: {error.problems[0]}")
    with Exchange(tmp_path, study, SITES, modules=[beside / "my_own.py"], exchanges=10**6) as exchange:
        submit(study, tmp_path / "real", exchange.over)
    assert outcome(tmp_path / "inline") == outcome(tmp_path / "real")
    assert_ledgers_agree(exchange, tmp_path / "real", dict.fromkeys(SITES, 0))


@pytest.mark.parametrize(("method", "task"), WIRED)
def test_real_sites_give_the_same_bits(
    method: str, task: str, federation: Federation, beside: Path, tmp_path: Path
) -> None:
    study = study_of(method, task, beside)
    run(study, tmp_path / "inline", checkpoint_seconds=0)
    federation.approve(study)
    before = {name: len(federation.ledger(name)) for name in SITES}
    federation.submit(study, tmp_path / "real")
    assert outcome(tmp_path / "inline") == outcome(tmp_path / "real")
    assert_ledgers_agree(federation, tmp_path / "real", before)


@pytest.mark.parametrize("task", CASES)
def test_real_sites_set_aside_and_choose_the_same(
    task: str, federation: Federation, beside: Path, tmp_path: Path
) -> None:
    tables = dict(study_of("fedavg", task, beside).resolved)
    tables |= {"rounds": 5, "validation": {"share": 0.3, "patience": 2}}
    study = cells(tables)[0].study
    result = run(study, tmp_path / "inline", checkpoint_seconds=0)
    assert result.chosen
    federation.approve(study)
    before = {name: len(federation.ledger(name)) for name in SITES}
    federation.submit(study, tmp_path / "real")
    assert outcome(tmp_path / "inline") == outcome(tmp_path / "real")
    assert any("best-" in name for name in outcome(tmp_path / "real")["files"])
    assert_ledgers_agree(federation, tmp_path / "real", before)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
@pytest.mark.parametrize("layer", ["own_layer:Blinds", "pairwise:Pairwise"])
@pytest.mark.usefixtures("beside")
def test_a_users_own_layer_gives_the_same_bits(layer: str, method: str, federation: Federation, tmp_path: Path) -> None:
    """Its exchanges, before and after those of the method, are in both ledgers like any other."""
    tables = {"name": "both", "rounds": 2, "method": {"name": method}, "layers": [{"name": layer}]}
    study = cells({**tables, **CASES["classification"]})[0].study
    run(study, tmp_path / "inline", checkpoint_seconds=0)
    federation.approve(study)
    before = {name: len(federation.ledger(name)) for name in SITES}
    federation.submit(study, tmp_path / "real")
    assert outcome(tmp_path / "inline") == outcome(tmp_path / "real")
    assert_ledgers_agree(federation, tmp_path / "real", before)


def test_masked_sums_give_the_same_bits_though_a_site_is_killed_before_it_opens_one(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"name": "both", "rounds": 2, "method": {"name": "fedavg"}, "privacy": {"secure_aggregation": True}}
    study = cells({**tables, **CASES["classification"]})[0].study
    run(study, tmp_path / "inline", checkpoint_seconds=0)
    federation.approve(study)
    before = {name: len(federation.ledger(name)) for name in SITES}
    whole, killed = Remote.deliver, list[int]()

    def deliver(engine: Remote, exchange: core.Exchange, *given: Any) -> Any:
        if (exchange.round, exchange.step) == (2, "Masks.open") and not killed:
            killed.append(exchange.number)
            federation.kill_part("site-1", "wardround.consortium.site_process")
        return whole(engine, exchange, *given)

    monkeypatch.setattr(Remote, "deliver", deliver)
    federation.submit(study, tmp_path / "real")
    assert 1 == len(killed)
    assert outcome(tmp_path / "inline") == outcome(tmp_path / "real")
    kinds = {line["sent"]["kind"] for line in federation.ledger("site-0")[before["site-0"] :] if "sent" in line}
    assert {"Key", "Masked", "Opened"} == kinds


def assert_ledgers_agree(federation: Federation | Exchange, out: Path, before: dict[str, int]) -> None:
    """Each side wrote down what the other did, and knows the other's last line."""
    central = out / "ledger" / "coordinator.jsonl"
    assert 0 < verify(central)
    received = [line for line in map(json.loads, central.read_text().splitlines()) if "from" in line]
    for name in SITES:
        own = federation.site(name) / "ledger" / "site.jsonl"
        mine = [line for line in list(lines(own))[before[name] :] if "sent" in line]
        theirs = [line for line in received if line["from"] == name]
        assert 0 < len(mine)
        assert [
            (line["round"], line["exchange"], line["step"], line["message"]) for line in theirs if "message" in line
        ] == [
            (line["round"], line["exchange"], line["step"], {key: line["sent"][key] for key in ("kind", "bytes")})
            for line in mine
        ]
        assert sum("theirs" in line for line in theirs) == compared(own, central)
        models = sum("model" in line for line in list(lines(own))[before[name] :])
        assert models == sum("delivered" in line for line in theirs)
        assert 0 < compared(central, own)
