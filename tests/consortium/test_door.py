"""What the coordinator itself, or who has its keys, may ask of a site: so much as was agreed to, and no more."""

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from loopback import Exchange, ask, desk_of, first_weights, put, site_folder
from wardround import __version__
from wardround.consortium.approval import approve
from wardround.consortium.deployed import study_hash
from wardround.consortium.house_ledger import proven
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import submit
from wardround.core.cohort import BelowQuorum
from wardround.core.exchange import EVALUATION
from wardround.core.method import Exam, Global
from wardround.core.weights import Weights
from wardround.engines.seal import verify_statement
from wardround.layers.ledger import LedgerError, lines, verify
from wardround.layers.small_counts import uncounted
from wardround.methods import METHODS
from wardround.methods.fedner import Turn
from wardround.methods.lazy_mil import Chosen
from wardround.runs.build import build_apart
from wardround.study.load import Study, cells

SITES = ("site-0", "site-1", "site-2")
WORDS = {"name": "classification", "tokens": "words", "buckets": 64}


def study_of(**changes: Any) -> Study:
    tables = {
        "name": "door", "rounds": 3, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 400}, "partition": {"name": "iid", "sites": 3},
        **changes,
    }  # fmt: skip
    return cells(tables)[0].study


def code(answer: tuple[dict[str, Any], bytes]) -> str:
    return str(answer[0].get("fault", "answered"))


def nudged(weights: Weights, by: float) -> Weights:
    return Weights.of_flat(weights.flat + by, weights.layout)


# how often


def test_an_approval_is_a_budget_over_all_runs_and_attempts(tmp_path: Path) -> None:
    study = study_of(rounds=6)
    site = SiteProcess(site_folder(tmp_path, "site-0", study, exchanges=6 + 6, restarts=0))
    weights = first_weights(study, tmp_path)
    left: set[bytes] = set()
    for run in range(12):
        for attempt in range(3):
            for round_ in range(1, 9):
                model = Global(nudged(weights, 1e-4 * (round_ > 1) * (1 + run + attempt)))
                head, data = ask(study, model, run=f"{run:016x}", round=round_, resumed=[0] * attempt)
                left.add(put(site, head, data)[1])
    assert 6 == len(left - {b""})
    assert (6, 0) == (
        site.ledger.budget.of(study_hash(study)).exchanges,
        site.ledger.budget.of(study_hash(study)).restarts,
    )
    again = SiteProcess(tmp_path / "site-0")  # which knows it from the ledger
    assert "restart" == code(put(again, *ask(study, Global(nudged(weights, 1e-3)), round=2, run="f" * 16)))
    assert "rounds" == code(put(again, *ask(study, Global(weights), round=7, run="f" * 16)))


def test_one_round_is_asked_with_one_state_and_the_same_state_costs_nothing(tmp_path: Path) -> None:
    study = study_of(method={"name": "scaffold"})
    site = SiteProcess(site_folder(tmp_path, "site-0", study, exchanges=2 + 3, restarts=0))
    state = study.method.start(first_weights(study, tmp_path), None)  # type: ignore[arg-type]
    later = dataclasses.replace(state, weights=nudged(state.weights, 1e-4))
    other = dataclasses.replace(state, weights=nudged(state.weights, 2e-4))
    asked = [put(site, *ask(study, message, round=round_)) for round_, message in ((1, state), (2, later))]
    assert ["answered"] * 2 == [code(answer) for answer in asked]
    for run, resumed in (("0" * 16, [1]), ("1" * 16, []), ("2" * 16, [])):  # taken up again, or begun again
        if run != "0" * 16:
            assert asked[0][1] == put(site, *ask(study, state, run=run))[1]
        answer = put(site, *ask(study, later, round=2, run=run, resumed=resumed))
        assert asked[1][1] == answer[1]
    for number in range(20):
        assert "restart" == code(put(site, *ask(study, other, round=2, run=f"{number:016d}", resumed=[1, 1])))
    assert "spent" == code(put(site, *ask(study, other, round=3, resumed=[1, 1])))
    approve(tmp_path / "site-0", study, restarts=1, exchanges=4, again=True)
    assert "answered" == code(put(site, *ask(study, other, round=2, resumed=[1, 1])))
    assert "restart" == code(put(site, *ask(study, later, round=2, run="a" * 16)))
    marks = [line["mark"] for line in lines(tmp_path / "site-0" / "ledger" / "site.jsonl") if "mark" in line]
    assert ["new", "new", *["again"] * 5, "restart"] == marks


def test_an_answer_that_would_differ_from_the_one_that_left_does_not_leave(tmp_path: Path) -> None:
    """SCAFFOLD's answer depends on what the site remembers: a run that leaves out round 1 gets another view."""
    study = study_of(method={"name": "scaffold"})
    site = SiteProcess(site_folder(tmp_path, "site-0", study, restarts=0))
    state = study.method.start(first_weights(study, tmp_path), None)  # type: ignore[arg-type]
    later = dataclasses.replace(state, weights=nudged(state.weights, 1e-4))
    for round_, message in ((1, state), (2, later)):
        assert "answered" == code(put(site, *ask(study, message, round=round_)))
    assert "restart" == code(put(site, *ask(study, later, round=2, run="1" * 16)))


def test_what_the_coordinator_signed_stays_in_the_ledger(tmp_path: Path) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    put(site, *ask(study, Global(first_weights(study, tmp_path))))
    path = tmp_path / "site-0" / "ledger" / "site.jsonl"
    (line,) = [line for line in lines(path) if "signed" in line]
    verify_statement(line["signed"], site.seal.ask_key)
    assert line["signed"]["digest"] == line["received"]["digest"]
    assert 1 == proven(path, site.seal.ask_key)
    with pytest.raises(LedgerError, match="the coordinator did not sign this message"):
        proven(path, "00" * 32)
    assert [next(iter(site.studies.runs.values())).ready.data] == [
        line["data"] for line in lines(path) if "data" in line
    ]


# for what


def test_a_reply_stands_on_many_examples_or_does_not_leave(tmp_path: Path) -> None:
    study = study_of(method={"name": "fedner"}, task={"name": "features"})
    site = SiteProcess(site_folder(tmp_path, "site-0", study, "[consent]"))
    weights = first_weights(study, tmp_path)
    rate = Turn(weights, 0, 1e-9, 0)  # a share that the site rounds itself
    assert "few" == code(put(site, *ask(study, rate, step="grade", run="9" * 16)))
    codes = [
        code(put(site, *ask(study, Turn(weights, share, 0.0, 0), step="grade", run=f"{share:016d}")))
        for share in (1, 2, 4, 5)
    ]
    assert ["few", "few", "few", "answered"] == codes


def test_one_sentence_named_ten_times_is_one(tmp_path: Path) -> None:
    tables = {
        "name": "bags", "rounds": 3, "method": {"name": "lazy-mil"},
        "task": {"name": "bags", "buckets": 256, "embedding": 8, "filters": 12},
        "corpus": {"name": "clinic-bags", "hospitals": 3, "sentences": 60, "test_sentences": 20},
    }  # fmt: skip
    study = cells(tables)[0].study
    names = build_names(study, tmp_path)
    site = SiteProcess(site_folder(tmp_path, names[0], study, "[consent]", restarts=0))
    weights = build_apart(study, tmp_path, names).weights
    for rows, expected in (([3] * 10, "few"), ([1, 2, 3, 4], "few"), ([], "answered"), (list(range(8)), "restart")):
        message = Chosen(weights, torch.tensor(rows, dtype=torch.int64))
        head, data = ask(study, message, step="fit_chosen", number=2, run=f"{len(rows):016d}")
        assert expected == code(put(site, head, data))


def build_names(study: Study, tmp_path: Path) -> tuple[str, ...]:
    from wardround.runs.build import build  # noqa: PLC0415

    return tuple(build(study, tmp_path / "names").sites.names)


@pytest.mark.parametrize(("weights", "expected"), [
    ("first", "answered"), ("near", "answered"), ("far", "weights"), ("spike", "weights"), ("zero", "weights"),
])  # fmt: skip
def test_weights_that_cannot_be_this_studys_are_refused(tmp_path: Path, weights: str, expected: str) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    begin = first_weights(study, tmp_path)
    put(site, *ask(study, Global(begin)))
    spike = begin.flat.clone()
    spike[0] += 100.0
    chosen = {
        "first": begin,
        "near": nudged(begin, 0.01),
        "far": nudged(begin, 100.0),
        "spike": Weights.of_flat(spike, begin.layout),
        "zero": begin * 1e4,
    }[weights]
    assert (expected if weights != "zero" or bool(begin.flat.any()) else "answered") == code(
        put(site, *ask(study, Global(chosen), round=2))
    )


def test_round_one_begins_with_the_studys_own_first_model(tmp_path: Path) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    begin = first_weights(study, tmp_path)
    assert "weights" == code(put(site, *ask(study, Global(nudged(begin, 1e-6)))))
    assert "answered" == code(put(site, *ask(study, Global(begin))))


# who decides


def test_a_changed_consent_holds_from_the_next_ask_on(tmp_path: Path) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    weights = first_weights(study, tmp_path)
    assert "answered" == code(put(site, *ask(study, Global(weights))))
    path = tmp_path / "site-0" / "site.toml"
    text = path.read_text()
    rewrite(path, text.replace("[consent]", '[consent]\nsteps = ["evaluate"]'))
    assert "consent" == code(put(site, *ask(study, Global(weights), round=2)))
    exam = Exam(weights, "test")
    assert "answered" == code(put(site, *ask(study, exam, round=2, step="evaluate", number=EVALUATION + 1)))
    rewrite(path, "name = [")
    assert "settings" == code(put(site, *ask(study, Global(weights), round=3)))
    rewrite(path, text)
    assert "answered" == code(put(site, *ask(study, Global(weights), round=3)))
    next((tmp_path / "site-0" / "approved").glob("*.json")).unlink()
    assert "study" == code(put(site, *ask(study, Global(weights), round=3, resumed=[2])))


def test_data_that_changed_since_they_were_approved_need_another_yes(tmp_path: Path) -> None:
    tables = {
        "name": "own", "rounds": 3, "method": {"name": "fedavg"}, "task": WORDS,
        "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": ["drug", "illness"]},
    }  # fmt: skip
    study = cells(tables)[0].study
    rows = "text,label\n" + "".join(f"note {n} on aspirin,drug\nnote {n} on fever,illness\n" for n in range(15))
    place = tmp_path / "site-0"
    place.mkdir()
    for name in ("train.csv", "test.csv"):
        (place / name).write_text(rows)
    site_folder(tmp_path, "site-0", study, data=('format = "csv"', 'train = "train.csv"', 'test = "test.csv"'))
    site = SiteProcess(place)
    weights = first_weights(study, tmp_path)
    hello = {**ask(study, Global(weights))[0], "hello": True, "rounds": 3}
    most = {"train": 32, "test": 32}  # thirty of each, no closer
    greeting = {"ready": True, "most": most, "left": 9, "version": __version__}  # counts first
    assert greeting == put(site, hello)[0]
    assert "answered" == code(put(site, *ask(study, Global(weights))))
    rewrite(place / "train.csv", rows + "a new note,drug\n")
    assert "changed" == code(put(site, hello))
    assert "changed" == code(put(site, *ask(study, Global(weights), round=2)))
    approve(place, study)
    assert "answered" == code(put(site, hello)).replace("ready", "answered")
    labels = (place / "site.toml").read_text() + '\n[labels]\nfieber = "illness"\n'
    rewrite(place / "site.toml", labels)
    assert "changed" == code(put(site, hello))
    fingerprints = [line["data"] for line in lines(place / "ledger" / "site.jsonl") if "data" in line]
    assert 1 == len(set(fingerprints))


@pytest.mark.parametrize("public", [
    {"fraction": 0.3},
    {"corpus": {"format": "csv", "train": "train.csv"}},
    {"corpus": {"format": "csv", "train": "public/../train.csv"}},
    {"corpus": {"format": "csv", "train": "~/train.csv"}},
    {"corpus": {"format": "csv", "train": "$HOME/train.csv"}},
    {"corpus": {"format": "csv", "train": "public/a.csv"}},
])  # fmt: skip
def test_public_examples_are_never_a_sites_own_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, public: dict[str, Any]
) -> None:
    """FedED's sites send predictions on public examples: a study that names their notes as such would get those."""
    place = tmp_path / "site-0"
    monkeypatch.setenv("HOME", str(place))
    (place / "public").mkdir(parents=True)
    rows = "text,label\n" + "".join(f"note {n} on aspirin,drug\nnote {n} on fever,illness\n" for n in range(15))
    for name in ("train.csv", "test.csv", "public/a.csv"):
        (place / name).write_text(rows)
    tables = {
        "name": "own", "rounds": 3, "method": {"name": "feded"}, "task": WORDS,
        "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": ["drug", "illness"]},
        "public": public,
    }  # fmt: skip
    study = cells(tables, folder=place)[0].study
    files = ('format = "csv"', 'train = "train.csv"', 'test = "test.csv"')
    if "a.csv" in str(public):
        site_folder(tmp_path, "site-0", study, data=files)
        return
    with pytest.raises(ValueError, match=r"public.fraction would make|public.corpus names a file outside"):
        site_folder(tmp_path, "site-0", study, data=files)


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(time.time_ns(), time.time_ns()))


def test_who_is_not_the_coordinator_hears_nothing_and_cannot_fill_the_disk(tmp_path: Path) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    letter = desk_of(site).write("site-0", *ask(study, Global(first_weights(study, tmp_path))))
    forged = {**letter.head, "signature": "00" * 64}
    for head in (forged, {**letter.head, "run": "1" * 16}, {"version": __version__, "hello": True}, {}):
        answer = site.answer(head, letter.data)
        assert ({"fault", "ask"}, "unsigned", b"") == (set(answer[0]), answer[0]["fault"], answer[1])
    for _ in range(1000):
        site.answer(forged, letter.data)
    path = tmp_path / "site-0" / "ledger" / "site.jsonl"
    assert 2 == verify(path)
    assert ["unsigned"] == [line["refused"] for line in lines(path) if "refused" in line]


# every method


@pytest.mark.parametrize("name", sorted(name for name, named in METHODS.items() if not named.kind.pooled))
def test_every_step_says_on_how_many_examples_its_reply_stands(tmp_path: Path, name: str) -> None:
    """With a site's ordinary consent, and with its approval for one run, no honest run is refused anything."""
    kind = METHODS[name].kind
    task = "bags" if kind.rehearsal == "bags" else "features"
    corpora = {
        "bags": {"name": "clinic-bags", "hospitals": 3, "sentences": 120, "test_sentences": 30},
        "features": {"name": "synthetic", "sites": 3, "largest": 400},
    }
    tasks = {"bags": {"name": "bags", "buckets": 256, "embedding": 8, "filters": 12}, "features": {"name": "features"}}
    tables: dict[str, Any] = {
        "name": "m", "rounds": 3, "method": {"name": name}, "task": tasks[task], "corpus": corpora[task],
    }  # fmt: skip
    if kind.public:
        tables["public"] = {"fraction": 0.3}
    study = cells(tables)[0].study
    names = build_names(study, tmp_path)
    journal: list[Any] = []
    consent = ("[consent]", "smallest_count = 0", 'messages = ["any", "Sums"]' if name.startswith("ridge") else "")
    with Exchange(tmp_path / "x", study, names, consent=consent) as exchange:
        submit(study, tmp_path / "run", exchange.over, progress=journal.append)
    assert [{}] * 3 == [line.left_out for line in journal]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["rounds"] == 3


@pytest.mark.parametrize(("smallest", "warned"), [(0, 0), (20, 1)])
def test_figures_that_leave_labels_out_say_so(tmp_path: Path, smallest: int, warned: int) -> None:
    corpus = {"name": "synthetic", "sites": 3, "largest": 400}
    tables = {"name": "m", "rounds": 1, "method": {"name": "fedavg"}, "task": {"name": "features"}, "corpus": corpus}
    study = cells(tables)[0].study
    lines: list[str] = []
    consent = ("[consent]", f"smallest_count = {smallest}", "least_examples = 0")
    with Exchange(tmp_path / "x", study, build_names(study, tmp_path), consent=consent) as exchange:
        submit(study, tmp_path / "run", exchange.over, say=lines.append)
    assert warned == sum("has too few of to tell (consent.smallest_count)" in line for line in lines)


def test_figures_without_a_label_that_no_site_tells_of_say_so_however_many_examples_they_are_of() -> None:
    declared = {"a": {"test": 64}, "b": {"test": 64}}
    assert [] == [*uncounted(declared, 100.0, (60, 40))]
    (words,) = uncounted(declared, 100.0, (60, 40, 0))
    assert words.startswith("of 1 of 3 labels no test example is in these figures: ")
    assert 2 == len([*uncounted(declared, 60.0, (60, 0))])


def test_a_message_that_tells_much_leaves_only_if_consent_names_it(tmp_path: Path) -> None:
    """Ridge's sums are no part of "any"; the refusal says where to look."""
    corpus = {"name": "synthetic", "sites": 3, "largest": 400}
    tables = {"name": "m", "rounds": 1, "method": {"name": "ridge"}, "task": {"name": "features"}, "corpus": corpus}
    study = cells(tables)[0].study
    names = build_names(study, tmp_path)
    refused = pytest.raises(BelowQuorum, match="consent does not allow this; there: ")
    with Exchange(tmp_path / "x", study, names, consent=("[consent]",)) as exchange, refused:
        submit(study, tmp_path / "run", exchange.over)
