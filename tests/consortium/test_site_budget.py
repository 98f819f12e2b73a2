"""A real site's privacy budget: spent in its journal before a reply leaves, once per question, and never overspent."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from loopback import Exchange, ask, first_weights, put, site_folder
from patient_notes import CONSENT, DATA, SITES, budget, fault, looks, spent, study_of, write, write_notes
from wardround.cli.app import app
from wardround.consortium.approval import approve
from wardround.consortium.check import checked
from wardround.consortium.private_site import JOURNAL, SECRET
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import TooFew, submit
from wardround.core.codec import decode
from wardround.core.method import Global
from wardround.core.training import LocalTraining
from wardround.layers.ledger import Chain, lines
from wardround.methods import METHODS
from wardround.methods.fedavg import Update
from wardround.methods.feddyn import Dynamic, Sizes
from wardround.methods.feded import Vote
from wardround.privacy.journal import BudgetJournal
from wardround.runs.files import read_journal
from wardround.runs.wire import WIRE
from wardround.study.settings import StudyError


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write_notes(tmp_path)


def test_a_run_is_written_down_at_each_site_and_a_second_one_is_refused_when_the_budget_is_spent(notes: Path) -> None:
    study = study_of()
    with Exchange(notes, study, SITES, DATA, budget(5.0), exchanges=50) as exchange:
        submit(study, notes / "run", exchange.over, wait=1.0)
        journal = spent(notes / "site-0")
        assert ["size", "train", "train", "test"] == [line["kind"] for line in journal]
        assert {("patient", 4.0, 1e-3)} == {(line["unit"], line["epsilon"], line["delta"]) for line in journal}
        with pytest.raises(TooFew, match="site-0: refused: its privacy budget does not allow this"):
            submit(study, notes / "again", exchange.over, wait=0.1)
    shown = CliRunner().invoke(app, ["site", "budget", str(notes / "site-0")], env={"COLUMNS": "200"}).output
    words = " ".join(shown.split())
    assert "one patient" in words
    cost = re.search(r"spent in all: ε = (3\.\d+) of 5, δ = 0.001 of 0.01; left: ε = (1\.\d+), δ = 0.009", words)
    assert cost, words
    assert 5.0 == pytest.approx(float(cost[1]) + float(cost[2]), abs=2e-3)


def test_numbers_with_noise_are_called_so(notes: Path) -> None:
    study, said = study_of(), list[str]()
    with Exchange(notes, study, SITES, DATA, CONSENT, exchanges=50) as exchange:
        submit(study, notes / "run", exchange.over, wait=1.0, say=said.append)
    assert any(
        re.fullmatch(r"site-0: ready, up to about \d+ patients to train on, counted with noise", one) for one in said
    )
    wire = {row.field: row.reveals for row in WIRE.read(notes / "run") or ()}
    assert "about how many patients the site has to train on, counted with noise" in wire["weight"]
    assert "about how many of the site's examples the model got right" in wire["numbers"]


def test_the_run_goes_on_without_the_site_whose_budget_ends(notes: Path) -> None:
    study = study_of(rounds=3, dp={"epsilon": 4.0, "delta": 1e-3, "unit": "example"})
    with Exchange(notes, study, SITES, DATA, budget(4.5), exchanges=50) as exchange:
        spend_before(notes / "site-1" / JOURNAL)
        submit(study, notes / "run", exchange.over, wait=1.0)
    left = [line.left_out.get("site-1", "") for line in read_journal(notes / "run")]
    assert "" == left[0]
    assert "fit: refused: its privacy budget does not allow this" in left[-1]
    assert all("site-0" not in line.left_out for line in read_journal(notes / "run"))


@pytest.mark.parametrize("unit", ["patient", "document"])
def test_noise_and_masks_go_together_and_a_lost_site_costs_nobody_a_second_look(unit: str, notes: Path) -> None:
    """What was trained once is masked once more among those who remain, and neither trained nor paid for again."""
    sites = (*SITES, "site-2", "site-3")
    for name, first in zip(sites[2:], (2000, 3000), strict=True):
        write(notes / name, "train", first, 60)
        write(notes / name, "test", first + 100, 20)
    study = study_of(dp={"epsilon": 4.0, "delta": 1e-3, "unit": unit}, secure_aggregation=True)
    with Exchange(notes, study, sites, DATA, budget(5.0), exchanges=50) as exchange:
        exchange.twist = lambda name, head, answer: (
            None if name == "site-3" and head.get("exchange", {}).get("step") == "fit" else answer
        )
        submit(study, notes / "run", exchange.over, wait=1.0)
    assert [["site-3"], ["site-3"]] == [list(line.left_out) for line in read_journal(notes / "run")]
    for name in sites[:3]:
        assert ["size", "train", "train", "test"] == [line["kind"] for line in spent(notes / name)]
        steps = [line["step"] for line in lines(notes / name / "ledger" / "site.jsonl") if "sent" in line]
        assert (2, 2) == (steps.count("fit"), steps.count("Masks.again"))


def spend_before(path: Path, run: str = "1") -> None:
    """Another study's line: a single step with much noise, and a number of units that cost ε = 1.4."""
    whose = {"study": "0" * 16, "name": "before", "run": run, "epsilon": 4.0, "delta": 1e-3, "size": 1.4, "key": "x"}
    chain = Chain(path)
    chain.append({**whose, "kind": "train", "noise": 9.0, "rate": 0.5, "steps": 1, "unit": "example"})
    chain.flush()


def test_the_same_question_has_the_same_answer_and_is_spent_once_even_after_a_restart(notes: Path) -> None:
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(5.0), data=DATA, exchanges=50)
    head, data = ask(study, Global(first_weights(study, notes, SITES)))
    first = put(SiteProcess(place), head, data)
    again = put(SiteProcess(place), head, data)
    assert first[1] == again[1]
    assert 1 == len(looks(place))
    assert ["new", "again"] == [line["mark"] for line in lines(place / "ledger" / "site.jsonl") if "mark" in line]


def test_the_noise_cannot_be_foretold_from_the_studys_seed(notes: Path) -> None:
    """Two sites that differ in nothing but their secret answer differently; whoever knows all else learns nothing."""
    study = study_of()
    updates = []
    for _ in range(2):
        place = site_folder(notes, "site-0", study, *CONSENT, data=DATA, exchanges=50)
        (place / SECRET).unlink(missing_ok=True)
        for path in (place / "ledger").glob("*"):
            path.unlink()
        for path in (place / "memory").rglob("last.json"):
            path.unlink()
        _, reply = put(SiteProcess(place), *ask(study, Global(first_weights(study, notes, SITES))))
        updates.append(decode(Update, reply))
    assert 0.5 < float((updates[0].change.flat - updates[1].change.flat).norm() / updates[0].change.flat.norm())
    assert 0o600 == (notes / "site-0" / SECRET).stat().st_mode & 0o777


def test_a_journal_that_was_edited_is_refused(notes: Path) -> None:
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(5.0), data=DATA, exchanges=50)
    site = SiteProcess(place)
    assert fault(site, study) is None
    path = place / JOURNAL
    path.write_text(path.read_text().replace('"steps":', '"steps":0'), encoding="utf-8")
    assert "journal" == fault(site, study, run="1" * 16)
    result = CliRunner().invoke(app, ["site", "budget", str(place)])
    assert result.exit_code != 0
    assert "the chain is broken here" in str(result.exception)


def test_commands_leave_the_journal_of_a_running_site_alone(notes: Path) -> None:
    """What is half a line to them, the site is about to have written whole."""
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50)
    assert fault(SiteProcess(place), study) is None
    path = place / JOURNAL
    half = path.read_bytes() + path.read_bytes()[:100]
    path.write_bytes(half)
    assert "left: ε = 4" in CliRunner().invoke(app, ["site", "budget", str(place)]).output
    assert not [one for one in checked(place, study, online=False) if one.what == "budget"]
    assert half == path.read_bytes()


@pytest.mark.parametrize("cut", [lambda text: text[: text[:-1].rfind("\n") + 1], lambda _: ""], ids=["a line", "all"])
def test_a_journal_whose_end_was_cut_off_is_refused(notes: Path, cut: Callable[[str], str]) -> None:
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    site = SiteProcess(place)
    for run in "01":
        assert fault(site, study, run=run * 16) is None
    path = place / JOURNAL
    path.write_text(cut(path.read_text()), encoding="utf-8")
    for again in (site, SiteProcess(place)):
        assert "journal" == fault(again, study, run="2" * 16)
    result = CliRunner().invoke(app, ["site", "budget", str(place)])
    assert "its end was cut off" in str(result.exception)


@pytest.mark.parametrize(
    ("dp", "code"),
    [
        ({}, "budget"),
        ({"epsilon": 6.0, "delta": 1e-3, "unit": "patient"}, "budget"),
        ({"epsilon": 4.0, "delta": 0.05, "unit": "patient"}, "budget"),
        ({"epsilon": 4.0, "delta": 1e-3, "unit": "document"}, "budget"),
    ],
    ids=["no dp", "more ε than allowed", "more δ than allowed", "less than patients"],
)
def test_a_study_that_asks_for_more_than_the_site_allows_is_refused(notes: Path, dp: dict[str, Any], code: str) -> None:
    study = study_of(dp=dp)
    place = site_folder(notes, "site-0", study, *budget(5.0), 'unit = "patient"', data=DATA, exchanges=50)
    assert code == fault(SiteProcess(place), study)
    assert not (place / JOURNAL).exists()
    words = [one.detail for one in checked(place, study, online=False) if one.what == "budget" and not one.good]
    assert words
    assert "budget" in words[0]


def test_a_site_looks_by_itself_whether_a_study_would_leak_beside_the_noise(notes: Path) -> None:
    """A coordinator that lies would not have refused it."""
    terms = {"epsilon": 4.0, "delta": 1e-3, "unit": "example", "evaluation": "outside"}
    study = study_of(dp=terms)
    place = site_folder(notes, "site-0", study, *CONSENT, data=DATA, exchanges=50)
    head, data = ask(study, Global(first_weights(study_of(), notes, SITES)))
    assert "privacy" == put(SiteProcess(place), head, data)[0].get("fault")
    words = [one.detail for one in checked(place, study, online=False) if one.what == "privacy"]
    assert ["outside" in word for word in words] == [True]


def test_notes_that_do_not_fit_the_terms_are_refused(notes: Path) -> None:
    study = study_of()
    write(notes / "site-0", "train", 0, 60, patients=5)  # fewer than the batch
    place = site_folder(notes, "site-0", study, *CONSENT, data=DATA, exchanges=50)
    assert "privacy" == fault(SiteProcess(place), study)
    text = (place / "train.csv").read_text()
    (place / "train.csv").write_text(text.replace("train3\n", "\n"), encoding="utf-8")
    words = [one.detail for one in checked(place, study, online=False) if not one.good]
    assert any("train examples of site-0 have no patient" in one for one in words)


def test_what_a_site_says_of_its_size_has_noise(notes: Path) -> None:
    study = study_of()
    place = site_folder(notes, "site-0", study, *CONSENT, data=DATA, exchanges=50)
    head, _ = ask(study, Global(first_weights(study, notes, SITES)))
    reply, _ = put(SiteProcess(place), {**head, "hello": True, "rounds": 2})
    assert {"train"} == set(reply["most"])


LSTM = {"model": "lstm", "embedding": 8, "hidden": 2}  # all methods take it
ALONE = ("local", "public", "centralised")  # nothing that is learnt leaves, or nothing of a site's is
KINDS = {entry.place: name for name, entry in reversed(METHODS.items())}.values()  # of several names, the first
ALLOWED = [name for name in KINDS if not vars(METHODS[name].kind)["beyond_training"] and name not in ALONE]


def unmoved(notes: Path, name: str, **tables: Any) -> float:
    """The share of weights that a round of real sites leaves as they were: of words that no note has, but for noise."""
    method = {"name": name, "optimizer": "sgd", "lr": 0.5, "batch": 10}
    study = study_of(rounds=1, method=method, model=LSTM, **tables)
    before = first_weights(study, notes, SITES)
    with Exchange(notes, study, SITES, DATA, CONSENT, exchanges=50) as exchange:
        submit(study, notes / "run", exchange.over, wait=1.0)
    after = load_file(notes / "run" / "model" / "weights.safetensors")
    assert all(bool(torch.isfinite(value).all()) for value in after.values())
    return float(torch.cat([(before[name] == after[name]).flatten() for name in before]).double().mean())


@pytest.mark.parametrize("name", [name for name in ALLOWED if name != "feded"])
def test_noise_is_on_every_weight_that_leaves_whatever_the_method(name: str, notes: Path) -> None:
    assert 0.05 > unmoved(notes, name)  # notes have 12 words, the model 50
    assert all("train" in {line["kind"] for line in spent(notes / site)} for site in SITES)


def test_without_noise_weights_of_words_that_no_note_has_stand_still(notes: Path) -> None:
    """So the test above can fail."""
    assert 0.5 < unmoved(notes, "fedavg", dp={})


def test_votes_have_noise(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites that differ in nothing but their secret do not all vote alike; two may by chance, of so few votes."""
    for place in (notes, notes / "site-0"):
        (place / "public").mkdir()
        (place / "public" / "all.csv").write_text("text,label\nfever sleep,causes\nknee,stops\n", encoding="utf-8")
    monkeypatch.chdir(notes)
    public = {"corpus": {"format": "csv", "train": "public/all.csv", "labels": ["causes", "stops"]}}
    study = study_of(
        rounds=1, method={"name": "feded", "optimizer": "sgd", "lr": 0.5, "batch": 10}, model=LSTM, public=public
    )
    place = site_folder(notes, "site-0", study, *CONSENT, data=DATA, exchanges=50)
    question = ask(study, Global(first_weights(study, notes, SITES)), step="teach")
    votes = []
    for _ in range(8):
        (place / SECRET).unlink(missing_ok=True)
        shutil.rmtree(place / "ledger", ignore_errors=True)
        shutil.rmtree(place / "memory", ignore_errors=True)
        votes.append(decode(Vote, put(SiteProcess(place), *question)[1]).votes)
    assert any(not torch.equal(votes[0], other) for other in votes[1:])


def test_a_method_says_what_its_replies_are_made_of_and_what_is_allowed_trains_by_the_one_loop() -> None:
    assert all(issubclass(METHODS[name].kind, LocalTraining) for name in ALLOWED)
    refused = {name for name, entry in METHODS.items() if vars(entry.kind)["beyond_training"]}
    assert {"fedrs", "fedlc", "fedner", "lazy-mil", "fedproto", "ridge", "ridge-sgd"} == refused


@pytest.mark.parametrize("clip", [1e-39, 1e-20, 1e30])
def test_a_clip_that_single_precision_cannot_hold_is_refused(clip: float) -> None:
    """1e-39 would leave gradients as they are under next to no noise: its reciprocal is not a number."""
    with pytest.raises(StudyError, match=r"privacy\.dp\.clip"):
        study_of(dp={"epsilon": 4.0, "delta": 1e-3, "clip": clip})


def test_two_studies_under_one_runs_name_have_noise_of_their_own(notes: Path) -> None:
    """Else both replies together would have none: the coordinator names the runs, and knows how large each noise is."""
    replies: list[torch.Tensor] = []
    for clip in (1e-3, 2e-3):  # so small that all gradients are cut to it: what the notes say grows as the noise does
        study = study_of(dp={"epsilon": 4.0, "delta": 1e-3, "unit": "example", "clip": clip})
        place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50)
        _, data = put(SiteProcess(place), *ask(study, Global(first_weights(study, notes, SITES))))
        replies.append(decode(Update, data).change.flat)
    assert 0.9 > float(torch.nn.functional.cosine_similarity(replies[0], replies[1], dim=0))
    assert 2 == len({line["key"] for line in looks(notes / "site-0")})


def test_the_number_of_patients_that_is_told_before_a_run_is_paid_for_once_in_a_study(notes: Path) -> None:
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(5.0), data=DATA, exchanges=50)
    site, head = SiteProcess(place), ask(study, Global(first_weights(study, notes, SITES)))[0]
    for run in "0012":
        assert put(site, {**head, "run": run * 16, "hello": True, "rounds": 2})[0].get("ready")
    assert ["size"] == [line["kind"] for line in spent(place)]
    assert (0.2, 0.0) == BudgetJournal(place / JOURNAL).spent
    (place / JOURNAL).unlink()
    assert "journal" == put(site, {**head, "hello": True, "rounds": 2})[0]["fault"]


def test_the_number_of_patients_is_paid_for_by_whoever_asks_without_a_greeting(notes: Path) -> None:
    """Each approved study would give it away once more otherwise, under other noise, at a site that has spent all."""
    method = {"name": "feddyn", "by_size": True, "lr": 0.5, "batch": 10}
    sizes = {}
    for seed, code in ((0, None), (1, "budget")):
        study = study_of(rounds=1, seed=seed, method=method)
        place = site_folder(notes, "site-0", study, *budget(4.1), data=DATA, exchanges=50)
        message = Dynamic(first_weights(study, notes, SITES), 0.0)
        head, reply = put(SiteProcess(place), *ask(study, message, step="measure", round=0, seed=seed))
        assert code == head.get("fault")
        sizes[seed] = decode(Sizes, reply).examples if code is None else 0
    assert sizes[0] > 0
    assert ["size"] == [line["kind"] for line in spent(place)]


def test_a_site_whose_budget_is_spent_says_so_before_a_run_begins(notes: Path) -> None:
    study = study_of(dp={"epsilon": 4.0, "delta": 1e-3, "unit": "example"})
    place = site_folder(notes, "site-0", study, *budget(4.5), data=DATA, exchanges=50)
    (place / SECRET).write_bytes(bytes([2]) * 32)  # the noisy number of units, and so a cost, depends on it
    assert not [one for one in checked(place, study, online=False) if one.what == "budget"]
    hello = {**ask(study, Global(first_weights(study, notes, SITES)))[0], "hello": True, "rounds": 2}
    spend_before(place / JOURNAL)
    assert put(SiteProcess(place), hello)[0].get("ready")  # a round or two can be had
    words = [one.detail for one in checked(place, study, online=False) if one.asks and one.what == "budget"]
    assert "costs up to ε = 4 and δ = 0.001, and ε = 2." in words[0]
    write(notes / "site-0", "train", 0, 59)  # another number of patients
    approve(place, study)
    spend_before(place / JOURNAL, run="2")
    assert "budget" == put(SiteProcess(place), {**hello, "run": "1" * 16})[0]["fault"]
    assert 3 == len(spent(place))
