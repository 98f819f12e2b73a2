"""Those who try a hospital's door, on real processes; the table of `docs/threats.md` is made from here.

One federation serves the module: a coordinator and three hospitals, of which two have notes with a diagnosis, and the
third has notes with entities. Each attack is one that once succeeded.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from attackers import (
    Liar,
    attack,
    bag,
    exchange_of,
    forged_asks,
    local_user,
    neighbour,
    settled_labels,
    start_of,
    words_between,
)  # fmt: skip
from real_sites import Answer, Between, Federation, wait_until
from study_files import cli
from threat_table import threat
from wardround.consortium.approval import RESTARTS, approve, read_approval
from wardround.consortium.deployed import study_hash
from wardround.consortium.kits import init_site, new_consortium
from wardround.core.codec import decode
from wardround.core.method import Global
from wardround.core.weights import Weights
from wardround.engines.frames import Line, dial, door_of
from wardround.engines.seal import STATED
from wardround.methods.fedavg import Update
from wardround.methods.fedner import Roll, Turn
from wardround.methods.fedsgd import Gradient
from wardround.study.load import Study, cells
from wardround.text.segment import Hashed, Words

pytest.importorskip("nvflare")

SITES = ("site-0", "site-1", "site-2")
BUCKETS, LR = 4096, 0.5
DIAGNOSES = ("flu", "gout", "lupus")
COUNTS = (40, 13, 3)
LAST = "mrs miller of elm street saw doctor grey about lupus"
TABLES = {
    "name": "attacked", "rounds": 6, "method": {"name": "fedavg", "lr": LR, "batch": 0},
    "task": {
        "name": "classification", "model": "logistic", "tokens": "words", "ngrams": 1, "class_weights": "none",
        "weighting": "none", "buckets": BUCKETS, "remember": False,
    },
    "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": list(DIAGNOSES)},
    "sites": {"quorum": 2},
}  # fmt: skip
TAGGED = {
    "name": "tagged", "rounds": 6, "method": {"name": "fedner"},
    "task": {
        "name": "tagging", "model": "cnn-crf", "types": ["DRUG"], "buckets": BUCKETS, "embedding": 4, "filters": 4,
    },
    "corpus": {"format": "jsonl", "train": "train.jsonl", "test": "test.jsonl"},
}  # fmt: skip


def notes() -> list[tuple[str, str]]:
    """A hospital's notes and their diagnoses; the last is the secret."""
    common = [
        (f"patient {'abcdefg'[n % 7]} came in with {label} on day {n}", label)
        for label, count in zip(DIAGNOSES, COUNTS, strict=True)
        for n in range(count - (label == "lupus"))
    ]
    return [*common, (LAST, "lupus")]


def sentences() -> list[dict[str, Any]]:
    drugs = ("aspirin", "heparin", "insulin", "warfarin", "digoxin")
    return [
        {"id": f"{n}", "text": f"{drug} was given in room number{n}",
         "entities": [{"id": "T1", "start": 0, "end": len(drug), "type": "DRUG"}]}
        for n, drug in enumerate(drugs * 8)
    ]  # fmt: skip


def furnish(site: Path, name: str) -> None:
    """Give a site data of its own."""
    if name == "site-2":
        data = ['format = "jsonl"', 'train = "train.jsonl"', 'test = "test.jsonl"']
        for split in ("train", "test"):
            lines = "".join(json.dumps(one) + "\n" for one in sentences())
            (site / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    else:
        data = ['format = "csv"', 'train = "train.csv"', 'test = "test.csv"']
        for split in ("train", "test"):
            lines = "".join(f"{text},{label}\n" for text, label in notes())
            (site / f"{split}.csv").write_text("text,label\n" + lines, encoding="utf-8")
    (site / "site.toml").write_text("\n".join([f'name = "{name}"', "[data]", *data]) + "\n", encoding="utf-8")


@dataclass
class Scene:
    """The federation, and the first model of a study on notes with diagnoses."""

    federation: Federation
    weights: Weights
    folder: Path
    studies: int = 0
    runs: int = 0

    def approved(self, *names: str, tables: Mapping[str, Any] = TABLES) -> Study:
        """A study like all the others that these sites have just approved, and of which nothing was asked yet."""
        self.studies += 1
        study = cells({**tables, "seed": self.studies}, folder=self.folder)[0].study
        for name in names:  # with the budget that a hospital gives if it says no more
            approve(self.federation.site(name), study)
        return study

    def whole(self, names: Sequence[str], tables: Mapping[str, Any]) -> None:
        """Wait until these sites would take part in such a study."""
        study = self.approved(*names, tables=tables)
        with Liar(self.federation, study) as liar:
            wait_until(lambda: not any(liar.remote.ready(names, study.rounds).values()))

    def run(self) -> str:
        """A run that nobody has heard of."""
        self.runs += 1
        return f"{self.runs:016x}"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("a")
    federation = Federation(folder, SITES)
    for name in SITES:
        furnish(federation.site(name), name)
    with federation:
        scene = Scene(federation, start_of(cells(TABLES, folder=folder)[0].study, SITES), folder)
        scene.whole(("site-0", "site-1"), TABLES)
        scene.whole(("site-2",), TAGGED)
        yield scene


# a, b: who is not the coordinator


@threat("another hospital")
@pytest.mark.parametrize("inside", [True, False])
def test_another_hospital_asks(scene: Scene, inside: bool) -> None:
    scene.whole(("site-0", "site-1"), TABLES)
    plan = neighbour(scene.federation, "site-0", victim="site-1", inside=inside)
    asks = forged_asks(scene.federation, "site-1", scene.approved("site-1"), Global(scene.weights), scene.run())
    loot = attack(plan, asks)
    assert inside == loot.connected  # a second line with the same certificate is not let in
    if not inside:
        assert ([], []) == (loot.peers, loot.answers)
        return
    assert any(peer.startswith("site-1.") for peer in loot.peers)  # NVFlare tells it where to knock
    assert [] == loot.messages
    assert ["unsigned"] * len(asks) == loot.codes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can pose as another user")
@threat("local user")
def test_a_local_user_asks(scene: Scene) -> None:
    scene.whole(("site-1",), TABLES)  # its job is up, or there would be nobody to ask
    plan = local_user(scene.federation, "site-1")
    asks = forged_asks(scene.federation, "site-1", scene.approved("site-1"), Global(scene.weights), scene.run())
    loot = attack(plan, asks, user="nobody")
    assert loot.user not in (0, os.geteuid())
    assert loot.connected
    assert [] == loot.messages
    assert ["unsigned"] * len(asks) == loot.codes


# c, d: who listens on the way, and sends again what was sent


@dataclass
class Tape:
    """What went over the wire at both ends of NVFlare."""

    frames: list[Answer] = field(default_factory=list)

    def within(self, values: Weights) -> bool:
        """Whether some of these numbers can be read in it."""
        wire = b"".join(json.dumps(head).encode() + data for head, data in self.frames)
        flat = values.flat.numpy()
        rows = [flat[place : place + 4] for place in flat.nonzero()[0].tolist()[:200]]
        return any(row.tobytes() in wire for row in rows if len(row) == 4)


def recorded(scene: Scene, monkeypatch: pytest.MonkeyPatch, model: Weights) -> tuple[list[Answer], Tape, Update]:
    """An honest ask: the frames that reach the site, everything on the wire, and the update."""
    asks: list[Answer] = []
    tape = Tape()

    def twist(_: Mapping[str, Any], answer: Answer) -> Answer:
        tape.frames.append(answer)
        return answer

    send, receive = Line.send, Line.receive

    def sent(line: Line, head: Mapping[str, Any], data: bytes | memoryview = b"") -> None:
        tape.frames.append((dict(head), bytes(data)))
        if "want" not in head:
            asks.append((dict(head), bytes(data)))
        send(line, head, data)

    def received(line: Line, *limits: int) -> Answer | None:
        if (frame := receive(line, *limits)) is not None:
            tape.frames.append(frame)
        return frame

    with monkeypatch.context() as patch, Between(scene.federation.site("site-1"), twist):
        patch.setattr(Line, "send", sent)
        patch.setattr(Line, "receive", received)
        with Liar(scene.federation, scene.approved("site-0", "site-1")) as liar:
            _, data = liar.ask("site-1", Global(model), scene.run(), round=2)
    return [ask for ask in asks if ask[1]], tape, decode(Update, data)


def knocked(scene: Scene, site: str, head: Mapping[str, Any], data: bytes) -> Answer:
    """What a site's process answers to a frame on its own line, where NVFlare's door at the site knocks."""
    with dial(door_of(scene.federation.site(site)), timeout=30.0) as line:
        line.send(head, data)
        return line.receive() or ({}, b"")


@threat("listener")
def test_who_listens_reads_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Weights({name: torch.randn(value.shape) * 1e-3 for name, value in scene.weights.items()})
    _, tape, update = recorded(scene, monkeypatch, model)
    assert 4 <= len(tape.frames)
    assert (False, False) == (tape.within(model), tape.within(update.change))


@threat("replay")
def test_what_was_sent_cannot_be_sent_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asks, _, update = recorded(scene, monkeypatch, scene.weights)
    head, data = asks[0]
    before = len(scene.federation.ledger("site-1"))
    others = {"run": scene.run(), "exchange": exchange_of(round=3), "to": "site-0"}
    altered = {what: ({**head, what: others.get(what, "0" * 64)}, data) for what in (*STATED, "signature", "inside")}
    altered |= {f"byte {place}": (head, flipped(data, place)) for place in (0, 8, len(data) // 2, len(data) - 1)}
    altered |= {"cut": (head, data[:-1]), "more": (head, data + b"0"), "nothing": (head, b"")}
    got = {what: knocked(scene, "site-1", *frame) for what, frame in altered.items()}
    assert dict.fromkeys(altered, "unsigned") == {what: said.get("fault") for what, (said, _) in got.items()}
    assert "unsigned" == knocked(scene, "site-0", head, data)[0].get("fault")
    again = knocked(scene, "site-1", head, data)
    assert {"ask", "key", "inside"} == again[0].keys()  # of which the last is sealed, as the data are
    assert not Tape([again]).within(update.change)
    assert [] == [line for line in scene.federation.ledger("site-1")[before:] if line.get("mark") == "new"]


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


# e: more than was approved


def moved(model: Weights, steps: int) -> Weights:
    """A model nearby, with other scores of the last class."""
    sign = torch.tensor([0.0] * (len(DIAGNOSES) - 1) + [1.0])
    return Weights({name: value + 1e-4 * steps * sign for name, value in model.items()})


def distinct(answers: list[Answer]) -> int:
    return len({data for _, data in answers if data})


@threat("budget")
def test_one_approval_is_a_budget(scene: Scene) -> None:
    study, model = scene.approved("site-0"), scene.weights
    with Liar(scene.federation, study) as liar:
        answers = [
            liar.ask("site-0", Global(moved(model, (round_ > 1) * (10 * run + round_))), scene.run(), round=round_)
            for run in range(6)
            for round_ in range(1, 7)
        ]
    agreed = read_approval(scene.federation.site("site-0"), study_hash(study))
    assert agreed is not None
    assert (6, 14, RESTARTS) == (agreed.rounds, agreed.exchanges, agreed.restarts)
    assert 6 <= distinct(answers) <= 14
    assert {"restart", "spent"} >= {str(head["fault"]) for head, data in answers if not data}


@threat("second model")
def test_a_round_has_one_model(scene: Scene) -> None:
    """Each time as if the run had been resumed, as another run, or as a later exchange of the same round."""
    study, model, run = scene.approved("site-1"), scene.weights, scene.run()
    with Liar(scene.federation, study) as liar:
        first = liar.ask("site-1", Global(model), run)
        second = liar.ask("site-1", Global(moved(model, 1)), run, round=2)
        turns = range(2, 7)
        answers = [liar.ask("site-1", Global(moved(model, n)), run, round=2, resumed=[1] * n) for n in turns]
        answers += [liar.ask("site-1", Global(moved(model, n)), scene.run(), round=2) for n in turns]
        answers += [liar.ask("site-1", Global(moved(model, n)), scene.run(), round=2, number=n) for n in turns]
        answers += [liar.ask("site-1", Global(moved(model, n)), scene.run(), round=0, number=n) for n in turns]
        answers += [liar.ask("site-1", Global(moved(model, n)), scene.run(), round=1, number=n) for n in turns]
    assert 2 == distinct([first, second])
    assert RESTARTS >= distinct(answers), Counter(str(head.get("fault", "answered")) for head, _ in answers)


# f: messages that no training makes


def fitted(answer: Answer) -> Update | str:
    return decode(Update, answer[1]) if answer[1] else str(answer[0].get("fault", "silence"))


@threat("sure model")
def test_label_counts_by_a_model_that_is_sure(scene: Scene) -> None:
    with Liar(scene.federation, scene.approved("site-0")) as liar:
        got = fitted(liar.ask("site-0", Global(bag(scene.weights, {0: 40.0})), scene.run()))
    assert "weights" == (settled_labels(got, LR) if isinstance(got, Update) else got)


def test_an_honest_round_tells_label_counts_and_words(scene: Scene) -> None:
    """Not defended, and said so in the table: the study's own first model, and all notes in one batch."""
    with Liar(scene.federation, scene.approved("site-0")) as liar:
        got = fitted(liar.ask("site-0", Global(scene.weights), scene.run()))
    assert isinstance(got, Update)
    even = got.weight / len(DIAGNOSES)  # what a model that knows nothing expects
    assert list(COUNTS) == [round(float(value) / LR + even) for value in got.change["bias"]]
    number = Hashed(buckets=BUCKETS)
    words = {number(word) for text, _ in notes() for word in Words()(text)}
    assert words == set(got.change["words.weight"].abs().sum(1).nonzero().flatten().tolist())


@threat("two models")
def test_the_words_of_one_note_by_two_models(scene: Scene) -> None:
    number = Hashed(buckets=BUCKETS)
    vocabulary = {word: number(word) for text, _ in notes() for word in Words()(text)}
    chosen = {number("miller"): {1: 4000.0}}
    with Liar(scene.federation, scene.approved("site-0")) as liar:
        before, after = (
            fitted(liar.ask("site-0", Global(bag(scene.weights, {0: 40.0}, words)), scene.run()))
            for words in ({}, chosen)
        )
    got: Any = (before, after)
    if isinstance(before, Update) and isinstance(after, Update):
        got = words_between(before, after, vocabulary)
    assert ("weights", "weights") == got


def test_two_rounds_that_differ_in_one_word_tell_the_words_of_a_note(scene: Scene) -> None:
    """Not defended, and said so in the table: both models are small, each is asked once, and in a round of its own."""
    number = Hashed(buckets=BUCKETS)
    vocabulary = {word: number(word) for text, _ in notes() for word in Words()(text)}
    model, run = scene.weights, scene.run()
    nearby = model + bag(model, {}, {number("miller"): {1: 0.5}})
    with Liar(scene.federation, scene.approved("site-0")) as liar:
        before = fitted(liar.ask("site-0", Global(model), run, round=1))
        after = fitted(liar.ask("site-0", Global(nearby), run, round=2))
    assert isinstance(before, Update)
    assert isinstance(after, Update)
    assert set(LAST.split()) == words_between(before, after, vocabulary)


@threat("one sentence")
def test_a_gradient_of_one_sentence(scene: Scene) -> None:
    study = scene.approved("site-2", tables=TAGGED)
    model, run = start_of(study, SITES), scene.run()
    with Liar(scene.federation, study) as liar:
        liar.ask("site-2", Roll(), run, step="size", round=0)
        head, data = liar.ask("site-2", Turn(model, 1, 0.01, 3), run, step="grade")
    got: Any = head.get("fault")
    if data:
        number = Hashed(buckets=BUCKETS)
        vocabulary = {number(word): word for one in sentences() for word in one["text"].split()}
        rows = decode(Gradient, data).gradient["words.weight"].abs().sum(1)
        got = [vocabulary.get(row, row) for row in rows.nonzero().flatten().tolist()]
    assert "few" == got


# g: kits and studies with code

MARK = "import pathlib; pathlib.Path({!r}).touch()\n"
EVIL = '''
from dataclasses import dataclass
from wardround.extend import FedAvg

@dataclass(frozen=True, kw_only=True)
class M(FedAvg):
    """Evil."""
'''


def tampered(kit: Path, files: Mapping[str, str]) -> None:
    with zipfile.ZipFile(kit, "a") as file:
        for name, text in files.items():
            file.writestr(name, text)


@threat("code in a kit")
def test_a_kit_with_a_module_is_none(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    kit = new_consortium(tmp_path / "c", "c", ["a"], "127.0.0.1", 8002)[0]
    tampered(kit, {"evil.py": MARK.format(str(ran)) + EVIL})
    unpacked = cli("site", "init", kit, tmp_path / "a", cwd=tmp_path)
    assert (2, True) == (unpacked.code, "evil.py" in unpacked.err)
    assert not (tmp_path / "a").exists()
    assert not ran.exists()


@threat("code in a study")
@pytest.mark.parametrize(("place", "name"), [("evil.py", "evil:M"), ("kit/evil.py", "kit.evil:M")])
def test_a_study_that_names_a_module_runs_nothing(tmp_path: Path, place: str, name: str) -> None:
    """A file that lies in the site's folder, by whatever way it came there."""
    ran, site = tmp_path / "ran", tmp_path / "a"
    init_site(new_consortium(tmp_path / "c", "c", ["a"], "127.0.0.1", 8002)[0], site)
    furnish(site, "a")
    (site / place).write_text(MARK.format(str(ran)) + EVIL, encoding="utf-8")
    study = tmp_path / "study.toml"
    study.write_text(cells(TABLES, folder=tmp_path)[0].study.toml().replace('"fedavg"', f'"{name}"'), encoding="utf-8")
    for order in (("check", site, "--offline", "--study", study), ("approve", site, study)):
        ended = cli("site", *order, cwd=tmp_path)
        assert (2, True) == (ended.code, name in ended.err)
    assert not ran.exists()
    assert not (site / "approved").exists()


@threat("code in a folder")
def test_files_that_lie_in_the_sites_folder(scene: Scene, tmp_path: Path) -> None:
    """Started from its own folder, as people do: a strange file in the kit stops a site, elsewhere it is inert."""
    federation, ran = scene.federation, tmp_path / "ran"
    site = federation.site("site-2")
    federation.stop("site-2")
    try:
        custom = "kit/local/custom/nvflare_decomposers/__init__.py"
        printed = {file: started_with(site, file, ran) for file in (custom, "kit/json.py", "json.py")}
    finally:
        federation.start("site-2")
    assert not ran.exists()
    assert [False, False, True] == ["connected to the coordinator" in text for text in printed.values()]
    assert [True, True] == ["custom" in printed[custom], "json.py" in printed["kit/json.py"]]


def started_with(site: Path, file: str, ran: Path) -> str:
    """What a site says when it is started with this file in its folder, until it is connected or has ended."""
    place, printed = site / file, ran.with_name("said")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(MARK.format(str(ran)), encoding="utf-8")
    with printed.open("wb") as output:
        program = Path(sys.executable).with_name("wardround")
        process = subprocess.Popen([program, "site", "start", "."], cwd=site, stdout=output, stderr=output)
        try:
            wait_until(lambda: b"connected" in printed.read_bytes() or process.poll() is not None)
        finally:
            process.terminate()
            process.wait(60)
            place.unlink()
            shutil.rmtree(site / "kit" / "local" / "custom", ignore_errors=True)
    return printed.read_text(encoding="utf-8")
