"""What a coordinator that lies tried with success, one after the other, and a site that lies; none of it does any more.

All in one process: a site is asked as its coordinator would ask it.
"""

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from loopback import Exchange, desk_of, put, site_folder
from threat_table import threat
from wardround import __version__
from wardround.consortium.deployed import study_hash
from wardround.consortium.kit_files import read_request
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.studies import RUNS
from wardround.consortium.submit import submit
from wardround.core.bench import Bench
from wardround.core.codec import decode
from wardround.core.exchange import EVALUATION
from wardround.core.method import Counts, Exam, Global
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.engines.certificates import make_key, request_for
from wardround.engines.frames import Line
from wardround.layers.ledger import lines
from wardround.layers.small_counts import SmallCounts
from wardround.methods.fedcmc import Guided
from wardround.methods.feddyn import Dynamic, DynamicUpdate
from wardround.methods.fedner import Turn
from wardround.methods.fedsgd import Gradient
from wardround.methods.lazy_mil import Chosen
from wardround.methods.ridge import Unsolved
from wardround.methods.scaffold import Controlled
from wardround.metrics.classes import MOST, class_counts
from wardround.runs.build import build, build_apart
from wardround.runs.errors import RunError
from wardround.study.load import Study, cells

SITES = ("site-0", "site-1", "site-2")
WORDS = {"name": "classification", "tokens": "words", "buckets": 64}
DEFAULT = "[consent]"
SUMS = '[consent]\nmessages = ["any", "Sums"]'
Answer = tuple[dict[str, Any], bytes]


def study_of(**changes: Any) -> Study:
    tables = {
        "name": "broken", "rounds": 3, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 400}, "partition": {"name": "iid", "sites": 3},
        **changes,
    }  # fmt: skip
    return cells(tables)[0].study


class Asked:
    """A site with its ordinary consent, no restarts, and one study, of which its coordinator asks what it likes."""

    def __init__(
        self, folder: Path, study: Study, names: tuple[str, ...] = SITES, consent: str = DEFAULT, **budget: Any
    ) -> None:
        self.study = study
        self.site = SiteProcess(site_folder(folder, names[0], study, consent, **{"restarts": 0, **budget}))
        self.built = build_apart(study, folder, names)
        self.first = self.built.weights

    def __call__(self, message: Message, run: str = "0" * 16, **changes: Any) -> Answer:
        exchange = {"step": "fit", "round": 1, "number": 1, "settled": 0, "seed": 0, "resumed": [], **changes}
        head = {"version": __version__, "study": study_hash(self.study), "run": run, "exchange": exchange}
        return put(self.site, head, message.encode())

    def near(self, steps: int) -> Weights:
        """A model that training could have led to."""
        return Weights.of_flat(self.first.flat + 1e-3 * steps, self.first.layout)


def code(answer: Answer) -> str:
    return str(answer[0].get("fault", "answered"))


def distinct(answers: list[Answer]) -> int:
    return len({data for _, data in answers if data})


# more answers than a round has


def test_a_model_that_was_evaluated_is_not_one_to_train_again(tmp_path: Path) -> None:
    """FedAtt may ask a round again with the same weights: those of its first exchange, and not of an evaluation."""
    ask = Asked(tmp_path, study_of(method={"name": "fedatt"}))
    bound = torch.zeros(len(ask.first), dtype=torch.float64)
    kind = type(ask.study.method.start(ask.first, None))  # type: ignore[arg-type]
    assert "answered" == code(ask(kind(ask.near(1), bound), round=2))
    assert "answered" == code(ask(Exam(ask.near(2), "test"), step="evaluate", round=2, number=EVALUATION + 1))
    assert "restart" == code(ask(kind(ask.near(2), bound), round=2, number=2, resumed=[1]))
    assert "answered" == code(ask(kind(ask.near(1), bound + 1), round=2, number=2, resumed=[1]))


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedcmc"])
def test_a_round_has_one_answer_to_a_step_whatever_its_number(tmp_path: Path, method: str) -> None:
    """Also where a round has two exchanges, of which each is of another step, and where weights are not all."""
    ask = Asked(tmp_path, study_of(method={"name": method}))
    messages: dict[str, Any] = {
        "fedavg": lambda n: Global(ask.near(n)),
        "scaffold": lambda n: Controlled(ask.near(1), ask.near(n) - ask.first),
        "fedcmc": lambda n: Guided(ask.near(n), ask.first[ask.built.task.classifier]),  # type: ignore[attr-defined]
    }
    answers = [ask(messages[method](n), round=2, number=n) for n in range(1, 7)]
    answers += [ask(messages[method](n), f"{n:016x}", round=2, number=n, resumed=[1]) for n in range(2, 7)]
    assert 1 == distinct(answers)


# what was not agreed to


@pytest.mark.parametrize("split", ["train", "valid", "public", "__class__", "", "te\nst"])
def test_a_model_is_tried_on_the_splits_of_the_study_and_no_others(tmp_path: Path, split: str) -> None:
    ask = Asked(tmp_path, study_of())
    assert "message" == code(ask(Exam(ask.first, split), step="evaluate", number=EVALUATION + 1))
    assert "answered" == code(ask(Exam(ask.first, "test"), step="evaluate", number=EVALUATION + 1))


@pytest.mark.parametrize("greeted", [True, False])
def test_data_that_changed_are_noticed_when_another_run_begins(tmp_path: Path, greeted: bool) -> None:
    """Whether it is announced or not: a note that was taken out is not trained on for as long as a process lives."""
    tables = {
        "name": "own", "rounds": 3, "method": {"name": "fedavg"}, "task": WORDS,
        "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": ["drug", "illness"]},
    }  # fmt: skip
    study, place = cells(tables)[0].study, tmp_path / "site-0"
    place.mkdir()
    rows = "text,label\n" + "".join(f"note {n} on aspirin,drug\nnote {n} on fever,illness\n" for n in range(15))
    for name in ("train.csv", "test.csv"):
        (place / name).write_text(rows)
    data = ('format = "csv"', 'train = "train.csv"', 'test = "test.csv"')
    site = SiteProcess(site_folder(tmp_path, "site-0", study, data=data))
    message = Global(build_apart(study, tmp_path, SITES).weights).encode()
    exchange = {"step": "fit", "round": 1, "number": 1, "settled": 0, "seed": 0, "resumed": []}
    head = {"version": __version__, "study": study_hash(study), "run": "0" * 16, "exchange": exchange}
    assert "answered" == code(put(site, head, message))
    (place / "train.csv").write_text(rows.replace("note 7 on fever,illness\n", ""))
    os.utime(place / "train.csv", ns=(time.time_ns(), time.time_ns()))
    other = {**head, "run": "1" * 16}
    asked = put(site, {**other, "hello": True, "rounds": 3}) if greeted else put(site, other, message)
    assert "changed" == code(asked)


# one note out of many


def test_batches_of_two_sizes_would_tell_one_sentence(tmp_path: Path) -> None:
    """FedNER: ten sentences, and in another run and round eleven, from the same model and the same place of a pass."""
    ask = Asked(tmp_path, study_of(method={"name": "fedner"}), restarts=3)
    ten = ask(Turn(ask.first, 10, 0.0, 0), "a" * 16, step="grade")
    eleven = ask(Turn(ask.first, 11, 0.0, 0), "b" * 16, step="grade", round=2)
    got: Any = code(eleven)
    if eleven[1]:
        few, more = decode(Gradient, ten[1]), decode(Gradient, eleven[1])
        got = float(((more.gradient * 11 - few.gradient * 10) / few.examples).norm())  # the eleventh sentence's
    assert ("answered", "batches") == (code(ten), got)
    again = SiteProcess(ask.site.folder)  # which knows it from the ledger
    ask.site = again
    assert "batches" == code(ask(Turn(ask.first, 0, 0.5, 0), "c" * 16, step="grade", round=3))
    assert "answered" == code(ask(Turn(ask.first, 10, 0.0, 0), "c" * 16, step="grade", round=3))


@pytest.mark.parametrize(("lone", "first"), [("drop", ()), ("drop", (1,)), ("keep", ()), ("refuse", ())])
def test_sums_with_a_class_and_without_it_would_tell_its_products(
    tmp_path: Path, lone: str, first: tuple[int, ...]
) -> None:
    """Ridge: once for all rows, and in another round without those of a class: the difference is its Gram matrix."""
    ask = Asked(tmp_path, study_of(method={"name": "ridge", "lone": lone}), SITES, SUMS, restarts=3, exchanges=100)
    assert "answered" == code(ask(Unsolved(ask.first, first), "a" * 16, step="gather"))
    assert "batches" == code(ask(Unsolved(ask.first, (0,)), "b" * 16, step="gather", round=2))
    ask.site = SiteProcess(ask.site.folder)  # which knows it from the ledger
    assert "batches" == code(ask(Unsolved(ask.first, (2,)), "c" * 16, step="gather", round=3))
    assert "answered" == code(ask(Unsolved(ask.first, first), "d" * 16, step="gather", round=3))


@threat("another encoder")
def test_sums_are_asked_for_under_one_encoder(tmp_path: Path) -> None:
    """Ridge moves nothing but the classifier: features that were made for it would tell of single rows."""
    tables = {
        "method": {"name": "ridge"}, "task": {"name": "classification", "model": "lstm", "buckets": 64},
        "corpus": {"name": "clinic", "hospitals": 3, "documents": 40, "test_documents": 10}, "partition": None,
    }  # fmt: skip
    names = tuple(build(study_of(**tables), tmp_path / "whole").sites.names)
    ask = Asked(tmp_path, study_of(**tables), names, SUMS, restarts=3, exchanges=100)
    head = ask.built.task.classifier  # type: ignore[attr-defined]
    parts = {name: tensor for name, tensor in ask.first.items() if not name.startswith(head.removesuffix("weight"))}
    solved = Weights({**ask.first, head: ask.first[head] + 0.01})
    other = next(iter(parts))
    nudged = Weights({**ask.first, other: ask.first[other] + 1e-6})
    assert "answered" == code(ask(Unsolved(ask.first, ()), step="gather"))
    assert "answered" == code(ask(Exam(solved, "test"), step="evaluate", number=EVALUATION + 1))
    assert "weights" == code(ask(Unsolved(nudged, ()), step="gather", round=2))
    assert "answered" == code(ask(Unsolved(solved, ()), step="gather", round=2, resumed=[1]))
    again = SiteProcess(ask.site.folder)
    ask.site = again
    assert "weights" == code(ask(Exam(nudged, "test"), "b" * 16, step="evaluate", round=3, number=EVALUATION + 1))
    assert "weights" == code(ask(Unsolved(nudged, ()), "b" * 16, step="gather", round=3))


def test_no_class_is_left_out_of_sums_where_the_study_leaves_none_out(tmp_path: Path) -> None:
    for number, (lone, answer) in enumerate({"keep": "classes", "refuse": "classes", "drop": "answered"}.items()):
        ask = Asked(tmp_path / str(number), study_of(method={"name": "ridge", "lone": lone}), SITES, SUMS)
        assert answer == code(ask(Unsolved(ask.first, (1,)), step="gather"))


def test_what_is_left_of_a_pass_and_is_too_few_does_not_keep_a_site_out(tmp_path: Path) -> None:
    ask = Asked(tmp_path, study_of(method={"name": "fedner"}), exchanges=1000)
    count = len(build(ask.study, tmp_path / "whole").sites.open("site-0").train)
    share = next(share for share in range(10, count) if count % share in (1, 2, 3, 4))
    turns = range(1, count // share + 4)
    codes = [code(ask(Turn(ask.first, share, 0.0, 99), step="grade", number=number)) for number in turns]
    assert {"answered"} == set(codes)


def test_a_strong_pull_would_leave_the_last_batch_alone(tmp_path: Path) -> None:
    """FedDyn: with η α n/n_k = 1 each step starts where the first did, and the last batch may be one note."""
    settings = {"name": "feddyn", "by_size": True}
    counted = len(build(study_of(), tmp_path / "whole").sites.open("site-0").train)
    batch = next(size for size in range(10, counted) if counted % size == 1)
    for by_size, expected in ((True, "few"), (False, "answered")):
        study = study_of(method={**settings, "by_size": by_size, "batch": batch})
        ask = Asked(tmp_path / str(by_size), study)
        method: Any = ask.study.method
        strong = counted / (method.lr * method.alpha)
        answers = [ask(Dynamic(ask.first, size), f"{n:016x}", round=2 + n) for n, size in enumerate((strong, 0.0))]
        assert [expected, "answered"] == [code(answer) for answer in answers]
        if not by_size:  # nothing that the coordinator says makes the pull another
            norms = [decode(DynamicUpdate, data).change.norm() for _, data in answers]
            assert norms[1] == pytest.approx(norms[0], rel=0.5)


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    tables = {
        "name": "bags", "rounds": 9, "method": {"name": "lazy-mil"},
        "task": {"name": "bags", "buckets": 256, "embedding": 8, "filters": 12},
        "corpus": {"name": "clinic-bags", "hospitals": 3, "sentences": 60, "test_sentences": 20},
    }  # fmt: skip
    study, folder = cells(tables)[0].study, tmp_path_factory.mktemp("bags")
    return Asked(folder, study, tuple(build(study, folder / "names").sites.names))


@pytest.mark.parametrize(("rows", "expected"), [
    ([1] * 1000 + [2, 3, 4, 5], "few"), ([1, 2, 3, -57, -58], "few"), ([-1, -2, -3, -4, -5], "few"),
    ([1, 2, 3, 4, 10**6], "failed"), ([1, 2, 3, 4, 2**62], "failed"), ([1, 2, 3, 4, 5], "answered"),
])  # fmt: skip
def test_a_sentence_has_one_name_and_is_named_once(bags: Asked, rows: list[int], expected: str) -> None:
    message = Chosen(bags.first, torch.tensor(rows))
    answer = bags(message, f"{abs(hash(tuple(rows))):x}"[:16], step="fit_chosen", number=2)
    assert expected == code(answer)


def test_vectors_to_contrast_with_are_no_longer_than_a_model(tmp_path: Path) -> None:
    ask = Asked(tmp_path, study_of(method={"name": "fedcmc"}))
    own = ask.first[ask.built.task.classifier]  # type: ignore[attr-defined]
    spike = own.clone()
    spike[0, 0] += 1e6
    assert ["weights", "weights"] == [code(ask(Guided(ask.first, majors))) for majors in (spike, own + 1e4)]
    assert "answered" == code(ask(Guided(ask.first, own)))


@pytest.mark.parametrize("rate", ["NaN", "Infinity", "-1.0", "0.0", "1e308"])
def test_a_rate_that_is_none(tmp_path: Path, rate: str) -> None:
    ask = Asked(tmp_path, study_of(method={"name": "fedner"}))
    answer = ask(Turn(ask.first, 0, float(rate), 0), step="grade")
    assert code(answer) in ("message", "few", "failed", "answered")
    if answer[1]:  # then it is the gradient of all
        bench = Bench.of(ask.built.task)
        assert decode(Gradient, answer[1]).gradient.layout == bench.layout


@pytest.fixture
def lupus(tmp_path: Path) -> Asked:
    """A hospital with thirty common notes and three of a rare label."""
    tables = {
        "name": "own", "rounds": 3, "method": {"name": "fedavg", "batch": 0},
        "task": WORDS,
        "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": ["drug", "illness", "lupus"]},
    }  # fmt: skip
    place = tmp_path / "site-0"
    place.mkdir()
    rows = "".join(f"note {n} on aspirin,drug\nnote {n} on fever,illness\n" for n in range(15)) + "a b,lupus\n" * 3
    for name in ("train.csv", "test.csv"):
        (place / name).write_text("text,label\n" + rows)
    data = ('format = "csv"', 'train = "train.csv"', 'test = "test.csv"')
    return Asked(tmp_path, cells(tables)[0].study, data=data)


def test_false_alarms_do_not_tell_how_many_examples_were_left_out_as_few(lupus: Asked) -> None:
    """Whoever is missed is somebody's false alarm, and a model that never says lupus misses all: these are left out.

    Not defended: labels so many that no matrix is counted, of which it is not known whose false alarms they are.
    """
    chosen = dict(lupus.first)
    chosen["bias"] = chosen["bias"] + torch.tensor([0.5, 0.5, -0.5])
    _, data = lupus(Exam(Weights(chosen), "test"), step="evaluate", number=EVALUATION + 1)
    told = decode(Counts, data).numbers
    assert 0.0 == float((told["hits"] + told["misses"])[2])
    assert 0.0 == float(told["false_alarms"].sum() - told["misses"].sum())
    many = torch.tensor([0] * 15 + [1] * 3)
    counts = class_counts(torch.eye(MOST + 1)[torch.zeros_like(many)], many, torch.tensor(1.0))
    left = cast("Counts", SmallCounts(10).leave(Counts(Weights(counts)), cast("Any", None))).numbers
    assert 3.0 == float(left["false_alarms"].sum() - left["misses"].sum())


# what fills a disk


def test_what_is_signed_is_kept_and_has_to_be_short(tmp_path: Path) -> None:
    ask = Asked(tmp_path, study_of())
    letter = desk_of(ask.site).write(
        "site-0", {"version": __version__, "exchange": {"step": "fit", "junk": "x" * 10**5}}
    )
    assert "unsigned" == ask.site.answer(letter.head, letter.data)[0]["fault"]
    for number in range(40):  # as many runs as it likes to name
        ask(Global(ask.first), f"{number:016x}")
    assert RUNS == len(ask.site.studies.runs)
    marks = [line["mark"] for line in lines(ask.site.folder / "ledger" / "site.jsonl") if "mark" in line]
    assert ["new", *["again"] * 39] == marks


# a site that lies, and who comes with strange keys


@pytest.mark.parametrize("most", [
    {"train": 10**400, "test": 8}, {"train": 32, "\x1b[2J": 5}, {"train": [[]], "test": "8"}, {"train": True}, [], None,
])  # fmt: skip
def test_what_a_site_says_of_itself_neither_stops_a_run_nor_reaches_a_terminal(tmp_path: Path, most: Any) -> None:
    study, lines = study_of(rounds=1), list[str]()
    with Exchange(tmp_path, study, SITES) as exchange:
        exchange.twist = lambda name, head, answer: (
            ({**answer[0], "most": most}, answer[1]) if name == "site-2" and "hello" in head else answer
        )
        submit(study, tmp_path / "run", exchange.over, say=lines.append, wait=0.5)
    assert 1 == json.loads((tmp_path / "run" / "metrics.json").read_text())["rounds"]
    assert all(line.isprintable() for line in lines)


def test_an_answer_with_strange_heads_costs_its_site_the_round_and_nobody_else(tmp_path: Path) -> None:
    study = study_of(rounds=1)
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    heads: list[Mapping[str, Any]] = [
        {"ledger": "x" * 10**6}, {"ledger": deep}, {"fault": deep}, {"fault": None}, {"fault": "\x1b[2J", "version": 1},
    ]  # fmt: skip
    for number, head in enumerate(heads):
        folder = tmp_path / str(number)
        with Exchange(folder, study, SITES) as exchange:
            exchange.twist = lambda name, asked, answer, head=head: (  # type: ignore[misc]
                (dict(head), answer[1]) if name == "site-2" and "exchange" in asked else answer
            )
            submit(study, folder / "run", exchange.over)
        written = (folder / "run" / "ledger" / "coordinator.jsonl").read_text(encoding="utf-8")
        assert max(map(len, written.splitlines())) < 2000
        assert "\x1b" not in written


def test_a_head_that_is_nested_without_end_is_no_frame() -> None:
    near, far = socket.socketpair()
    raw = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with Line(near) as sender, Line(far) as receiver:
        threading.Thread(
            target=sender.socket.sendall, args=(struct.pack("<QQ", len(raw), 0) + raw,), daemon=True
        ).start()
        assert receiver.receive() is None


@pytest.mark.parametrize("seal", ["00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f"])
def test_a_key_to_which_nothing_can_be_sealed_is_not_admitted(tmp_path: Path, seal: str) -> None:
    """Points of low order, with which all agree on the same; each ask to such a site would end its thread."""
    make_key(tmp_path / "client.key")
    row = {"name": "a", "csr": request_for(tmp_path / "client.key", "a").decode(), "version": __version__}
    path = tmp_path / "a.request"
    path.write_text(json.dumps({**row, "seal": "09" + "00" * 31}))
    assert "a" == read_request(path).name
    path.write_text(json.dumps({**row, "seal": seal}))
    with pytest.raises(RunError, match="has a wrong seal: letters cannot be sealed to it"):
        read_request(path)
