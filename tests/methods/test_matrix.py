"""Every method gives the same bits in every engine: serial, strict (each message encoded) and a pool of workers.

Starting workers costs seconds, so the pool runs only the methods that differ in what it has to carry: site memory
beside a message as state (scaffold) and beside a state that is no message (feddyn), no memory but tensors beside the
weights (fedpap), many exchanges in a round and memory between them (fedner), an evaluation that recalls (local), two
exchanges with a message for each site (lazy-mil), and a
user's own module. The others differ from these only in arithmetic, which serial against strict covers.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wardround.layers.ledger import verify
from wardround.methods import METHODS
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.study.load import cells

OWN = '''
"""A user's own method, beside the study file: sites answer with the signs of their changes, and count rounds."""

from dataclasses import dataclass

from wardround.extend import Cohort, Global, LocalTraining, Message, Method, Private, Site, Weights, on_site, reveals


class Signs(Message):
    """Which way each weight went, and how often the site took part."""

    change: Weights = reveals("which way the site's notes move each weight")
    rounds: int = reveals("how often the site took part")


class Rounds(Private):
    """How often the site took part."""

    count: int


@dataclass(frozen=True, kw_only=True)
class MyMethod(LocalTraining, Method[Global]):
    """Goes where most sites go."""

    def start(self, weights: Weights, cohort: Cohort) -> Global:
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        total = cohort.total(self.vote, state)
        return Global(state.weights + total.change * (self.lr / total.rounds))

    @on_site
    def vote(self, model: Global, site: Site) -> Signs:
        count = site.recall(Rounds, Rounds(0)).count + 1
        site.keep(Rounds(count))
        change = self.train(site, model.weights).weights - model.weights
        return Signs(Weights.of_flat(change.flat.sign(), change.layout), count)
'''
MINE = "my_module:MyMethod"
POOLED = {
    "scaffold",
    "feddyn",
    "fedpap",
    "fedner",
    "moon",
    "fedcmc",
    "feded",
    "local",
    "lazy-mil",
    "ridge",
    "ditto",
    MINE,
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a user's own module, as it lies beside a study file."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "my_module.py").write_text(OWN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder
    sys.modules.pop("my_module", None)


TAGGING = {
    "task": {
        "name": "tagging", "buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4,
        "schemes": {"hospital-1": "BIOES"},
    },
    "corpus": {"name": "clinic", "hospitals": 3, "documents": 6, "test_documents": 2},
    "sites": {"private": ["lstm", "crf"]},
}  # fmt: skip
"""Sites with tag sets and schemes of their own, and the parts of the model that go with these."""

TASKS = {(method, METHODS[method].kind.rehearsal if method in METHODS else "features") for method in (*METHODS, MINE)}
TASKS |= {("fedavg", "bags"), ("scaffold", "bags"), ("local", "bags"), ("centralised", "bags")}
DATA = {"bags": rehearsal("bags"), "features": rehearsal("features"), "tagging": TAGGING}


def outcome(method: str, task: str, out: Path, beside: Path, **engine: Any) -> dict[str, Any]:
    """Everything that a run leaves behind, but for the time it took."""
    tables = {
        "name": "matrix",
        "rounds": 2,
        "method": {"name": method},
        "task": {"name": task},
        **DATA[task],
        "evaluation": {"each": True, "splits": ["test", "train"]},
    }
    if method in METHODS and METHODS[method].kind.public:
        tables["public"] = {"fraction": 0.3}
    study = cells(tables, folder=beside)[0].study
    run(study, out, checkpoint_seconds=0, **engine)
    hashes = {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in ("checkpoints/*", "memory/**/*", "model/*")
        for path in sorted(out.glob(pattern))
        if path.is_file()
    }
    journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    metrics = json.loads((out / "metrics.json").read_text())
    for timed in (metrics, *journal):
        assert timed.pop("seconds") >= 0
        timed.pop("ended", None)
    return {"files": hashes, "journal": journal, "metrics": metrics, "ledger": ledger(out / "ledger")}


def ledger(folder: Path) -> dict[str, Any]:
    """What the ledgers say was exchanged; each chain holds, and both sides tell the same."""
    paths = {path.stem: path for path in (folder / "coordinator.jsonl", *sorted(folder.glob("sites/*.jsonl")))}
    content = {name: [json.loads(line) for line in path.read_text().splitlines()] for name, path in paths.items()}
    assert {name: len(lines) for name, lines in content.items()} == {name: verify(path) for name, path in paths.items()}
    received = [line for line in content.pop("coordinator") if "from" in line]
    for site, lines in content.items():
        kept = [(line["round"], line["exchange"], line["step"], line["sent"]) for line in lines]
        mine = [line for line in received if line["from"] == site]
        assert kept == [(line["round"], line["exchange"], line["step"], line["message"]) for line in mine]
    return {
        site: [{k: v for k, v in line.items() if k not in ("time", "hash")} for line in content[site]]
        for site in content
    }


@pytest.mark.parametrize(("method", "task"), sorted(TASKS))
def test_engines_agree(method: str, task: str, beside: Path, tmp_path: Path) -> None:
    """Final weights, site memory, checkpoints, journal and ledger are the same, whatever carried the messages."""
    serial = outcome(method, task, tmp_path / "serial", beside)
    assert serial == outcome(method, task, tmp_path / "strict", beside, strict=True)
    if method in POOLED and (method == "lazy-mil" or task == "features"):
        assert serial == outcome(method, task, tmp_path / "pool", beside, workers=2)

    shares = method not in ("local", "fedproto")
    assert shares == ("model/weights.safetensors" in serial["files"])
    assert [1, 2] == [line["round"] for line in serial["journal"]]
    width = 2 if task == "features" else 1
    sites = [f"site-{index:0{width}}" for index in range(3)]
    assert (["pooled"] if method == "centralised" else sites) == list(serial["ledger"])
    before, after = (line["metrics"]["train_loss"] for line in serial["journal"])
    assert before == after if method in ("ridge", "ridge-sgd") else before > after  # which has solved it in the first


@pytest.mark.parametrize("method", ["fedner", "fedavg", "fedsgd", "scaffold", "fedpap", "fedrep", "local"])
def test_engines_agree_where_parts_of_the_model_are_private(method: str, beside: Path, tmp_path: Path) -> None:
    """The same with tag sets of each site's own; no private part is in a checkpoint, the model or on the wire."""
    serial = outcome(method, "tagging", tmp_path / "serial", beside)
    assert serial == outcome(method, "tagging", tmp_path / "strict", beside, strict=True)
    if method == "fedner":
        assert serial == outcome(method, "tagging", tmp_path / "pool", beside, workers=2)
    folder = tmp_path / "serial"
    assert 3 == len({path.parent for path in folder.glob("memory/*/OwnPart-2-*.kept")})
    sent = [*folder.glob("checkpoints/*"), *folder.glob("model/*.safetensors"), folder / "wire.json"]
    assert [] == [path for path in sent if b"crf.emit" in path.read_bytes()]
    assert [] == [path for path in folder.glob("model/weights.safetensors") if b"cnn." not in path.read_bytes()]
    before, after = (line["metrics"]["train_loss"] for line in serial["journal"])
    assert before > after
