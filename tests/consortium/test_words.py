"""What a hospital reads before it says yes is true: what leaves and how often, what its labels mean, what is spent."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loopback import DEPARTMENTS, Exchange
from real_sites import free_port
from wardround.cli.app import main
from wardround.consortium.approval import (
    Approval,
    add_approval,
    approve,
    data_fingerprint,
    read_approval,
    write_approval,
)
from wardround.consortium.budget import spent
from wardround.consortium.deployed import study_hash
from wardround.consortium.exchanges import expected_exchanges
from wardround.consortium.labels import SYNONYMS, meaning, odd, proposed
from wardround.consortium.settings import read_site, site_study
from wardround.consortium.submit import submit
from wardround.core.record import reveals_of
from wardround.methods import METHODS
from wardround.runs.build import build
from wardround.runs.protocol import exchanged, toy
from wardround.study.load import Study, cells
from wardround.trained.card import _tells_size

STUDY = DEPARTMENTS
ROWS = "text,label\n" + "".join(f"note {n} on aspirin,DRUG\nnote {n} on fever,DISEASE\n" for n in range(15))


def fingerprint(site: Path, study: Study) -> str:
    settings = read_site(site)
    return data_fingerprint(settings, settings.examples(study))


def ended(code: int, *arguments: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert code == (end.value.code or 0)


# how often a site is asked


def counted(study: Study, folder: Path, rounds: int = 2) -> tuple[Counter[str], int, int]:
    """How often one site was asked for each step in a rehearsal, the examples of all sites, and the sites."""
    built = build(study, folder)
    names = built.sites.names
    seen = Counter(found.step for found in exchanged(built, rounds))
    assert all(times % len(names) == 0 for times in seen.values())
    examples = sum(len(built.sites.open(name).train) for name in names)
    return Counter({step: times // len(names) for step, times in seen.items()}), examples, len(names)


@pytest.mark.parametrize("method", [name for name, known in METHODS.items() if not known.kind.pooled])
def test_a_method_asks_as_often_as_it_says(method: str, tmp_path: Path) -> None:
    study = toy(method)
    seen, examples, _ = counted(study, tmp_path)
    says = Counter({"evaluate": 1})
    says.update(dict.fromkeys(study.method.opening(), 1))
    rounds = 1 if study.method.once else 2
    says.update({step: rounds * times for step, times in study.method.exchanges(examples).items()})
    says = Counter({step: seen[step] if step in study.method.sometimes else times for step, times in says.items()})
    assert says == seen


@pytest.mark.parametrize("settings", [
    {"name": "fedner", "batch": 7, "epochs": 2}, {"name": "fedner", "steps": 5, "steps_per_exchange": 2},
    {"name": "fedner", "batch": 0}, {"name": "fedner", "ask_sizes": False}, {"name": "feddyn", "by_size": True},
    {"name": "fedcmc", "contrast": "none"},
])  # fmt: skip
def test_so_it_does_with_other_settings(settings: dict[str, Any], tmp_path: Path) -> None:
    study = cells({**toy("fedavg").resolved, "method": settings}, folder=tmp_path)[0].study
    seen, examples, _ = counted(study, tmp_path)
    says = Counter({"evaluate": 1})
    says.update(dict.fromkeys(study.method.opening(), 1))
    rounds = 1 if study.method.once else 2
    says.update({step: rounds * times for step, times in study.method.exchanges(examples).items()})
    assert says == seen


def test_what_is_expected_of_a_whole_study(tmp_path: Path) -> None:
    tables = {**toy("fedavg").resolved, "method": {"name": "fedner", "batch": 64}, "rounds": 6}
    evaluation = {"every": 4, "splits": ["test", "train"]}
    study = cells({**tables, "evaluation": evaluation}, folder=tmp_path)[0].study
    found = expected_exchanges(study, 450, 3)  # 1,350 examples in batches of 64
    assert (1, 22, 2) == (found.start, found.per_round, found.evaluation)
    assert 1 + 6 * 22 + 2 * 2 == found.total(study)  # tried after rounds 4 and 6


# labels


@pytest.mark.parametrize(("label", "known", "wanted"), [
    ("Medication", ["DRUG", "DISEASE"], "DRUG"),
    ("药物", ["drug", "disease"], "drug"),
    ("Diseases", ["DISEASE", "DRUG"], "DISEASE"),
    ("body_part", ["Anatomy", "Other"], "Anatomy"),
    ("Allergies", ["allergy"], "allergy"),
    ("ADVERSE-EVENT", ["adverse event", "none"], "adverse event"),
    ("DISEASE", ["problem", "treatment", "test"], None),  # once proposed as "treatment"
    ("DRUG", ["problem", "treatment", "test"], None),
    ("Medicated", ["medication"], None),
    ("diagnosis", ["diagnoses", "disease"], None),
    ("drug", ["Drug", "DRUGS"], None),  # which of the two?
])  # fmt: skip
def test_a_label_is_proposed_by_meaning_or_not_at_all(label: str, known: list[str], wanted: str | None) -> None:
    assert wanted == proposed(label, known)


def test_no_word_stands_for_two_things() -> None:
    words = [word for row in SYNONYMS for word in row]
    assert len(words) == len(set(words))
    assert len(SYNONYMS) == len({meaning(word) for word in words})


def test_odd_maps_are_questioned() -> None:
    known = ["DRUG", "DISEASE"]
    raw = Counter({"Med": 40, "Substance": 5, "DRUG": 5, "Fever": 50})
    words = {"Med": "DRUG", "Substance": "DRUG", "Fever": "DISEASE"}
    doubts = list(odd(known, Counter({"DRUG": 50, "DISEASE": 50}), raw, words))
    twice = '"Med" and "Substance": mapped onto "DRUG", which the data have under that name as well'
    assert ['"Med" and "Substance" all become "DRUG"', twice] == doubts
    doubts = list(odd(known, Counter({"DRUG": 100}), Counter({"Illness": 50, "Med": 50}), {"Illness": "DRUG"}))
    assert 'there is no example of "DISEASE" in training' in doubts
    assert 'with the map, 100% of the training labels are "DRUG"' in doubts
    assert '"Illness" becomes "DRUG", though the study has "DISEASE"' in doubts
    assert [] == list(
        odd(known, Counter({"DRUG": 9, "DISEASE": 9}), Counter({"Med": 9, "DISEASE": 9}), {"Med": "DRUG"})
    )


# at a site


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kit of one site of three."""
    pytest.importorskip("nvflare")
    centre = tmp_path_factory.mktemp("n") / "north"
    ended(0, "consortium", "new", "north", "a", "b", "c", "--address", f"127.0.0.1:{free_port()}", "--out", centre)
    return centre / "kits" / "a.zip"


@pytest.fixture
def site(kit: Path, tmp_path: Path) -> Path:
    """A site of three with notes, a study, and a kit."""
    ended(0, "site", "init", kit, tmp_path / "a")
    for split in ("train", "test"):
        (tmp_path / "a" / f"{split}.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path / "a"


def test_fedners_many_exchanges_are_told_and_approved(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.parent / "study.toml"
    path.write_text(STUDY.replace('"fedavg"', '"fedner"\nbatch = 4\n[evaluation]\nevery = 2'), encoding="utf-8")
    ended(0, "site", "approve", site, path)
    printed = capsys.readouterr().out
    assert "before the first round: 2 exchanges, " in printed  # in how many texts words stand, and sizes
    assert "per round: 23 exchanges, " in printed  # 30 examples at each of 3 sites in batches of 4
    assert "in 2 rounds in all: 49 exchanges, " in printed
    assert "This is an estimate: fedner asks more often the more examples all sites have together; " in printed
    assert "for 30 training examples here, and as many at each of the 3 sites of the consortium" in printed
    assert "the sum; its machine each" in printed
    assert "each reply reaches the coordinator's machine" in printed
    study = site_study(site, path.read_text(), "study")
    approval = read_approval(site, study_hash(study))
    assert approval is not None
    granted = (approval.rounds, approval.exchanges, approval.restarts)
    assert (2, 2 * 49 + 23 + 1, 1) == granted  # twice the estimate, and a round


def test_a_second_approval_adds_only_if_asked_to(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.parent / "study.toml"
    mark = study_hash(site_study(site, STUDY, "study"))
    ended(0, "site", "approve", site, path)
    first = read_approval(site, mark)
    assert first is not None
    assert (2, 1 + 4 + 2, 1) == (first.rounds, first.exchanges, first.restarts)  # document counts, and a round more
    ended(0, "site", "approve", site, path)
    assert first == read_approval(site, mark)
    assert "approved before" in (said := capsys.readouterr().out)
    assert "for 2 rounds, 7 exchanges and 1 restart in all; spent so far, in 0 runs: 0 rounds, 0 exchanges" in said
    assert "it was named" not in said
    path.write_text(STUDY.replace('"departments"', '"others"'), encoding="utf-8")
    ended(0, "site", "approve", site, path)
    assert "it was named departments then" in capsys.readouterr().out
    ended(2, "site", "approve", site, path, "--restarts", 1)
    assert "say --again" in capsys.readouterr().err
    ended(0, "site", "approve", site, path, "--again", "--restarts", 1, "--exchanges", 10)
    more = read_approval(site, mark)
    assert more is not None
    assert (2, 17, 2) == (more.rounds, more.exchanges, more.restarts)


def test_data_that_changed_need_another_yes_and_get_no_budget(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.parent / "study.toml"
    study = site_study(site, STUDY, "study")
    ended(0, "site", "approve", site, path)
    first = read_approval(site, study_hash(study))
    assert first is not None
    assert first.data == fingerprint(site, study) == fingerprint(site, study)
    (site / "train.csv").write_text(ROWS.replace("note 3 on fever", "note 3 on a fever"), encoding="utf-8")
    changed = fingerprint(site, study)
    assert first.data != changed
    ended(0, "site", "approve", site, path)
    assert "the data or the label map have changed since" in capsys.readouterr().out
    now = read_approval(site, study_hash(study))
    assert now is not None
    assert (changed, first.rounds, first.exchanges) == (now.data, now.rounds, now.exchanges)
    told = (site / "site.toml").read_text()
    (site / "site.toml").write_text(told.replace("# Medication", "Unseen"), encoding="utf-8")
    assert changed != fingerprint(site, study), "the label map counts, too"


def test_a_questioned_map_is_approved_only_with_a_yes(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.parent / "study.toml"
    for split in ("train", "test"):
        (site / f"{split}.csv").write_text(ROWS.replace(",DISEASE", ",Disease"), encoding="utf-8")
    ended(2, "site", "check", site, "--study", path, "--offline")
    assert 'label "Disease" is not in the study; map it under [labels] in site.toml: Disease = "DISEASE"' in (
        capsys.readouterr().out
    )
    told = (site / "site.toml").read_text()
    (site / "site.toml").write_text(told.replace("# Medication", "Disease"), encoding="utf-8")  # = "DRUG"
    ended(0, "site", "check", site, "--study", path, "--offline")
    said = capsys.readouterr().out
    assert '??  labels: there is no example of "DISEASE" in training; is that so?' in said
    assert '??  labels: "Disease" becomes "DRUG", though the study has "DISEASE"; is that so?' in said
    ended(2, "site", "approve", site, path)
    assert "there are questions (??) above; if all of it is meant, say --yes" in capsys.readouterr().err
    assert not (site / "approved").exists()
    ended(0, "site", "approve", site, path, "--yes")
    assert 1 == len(list((site / "approved").glob("*.json")))


def test_a_label_without_a_meaning_in_the_study_is_left_to_the_hospital(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ROWS.replace(",DRUG", ",Treatmnt").replace(
        "note 0 on fever,DISEASE", '"secret, Mrs Miller",a long story of her'
    )
    (site / "train.csv").write_text(rows, encoding="utf-8")
    ended(2, "site", "check", site, "--study", site.parent / "study.toml", "--offline")
    printed = capsys.readouterr().out
    assert "Treatmnt = …; choose one of DRUG, DISEASE" in printed
    assert "Mrs Miller" not in printed
    assert "label (a value of 19 characters) is not in the study" in printed


def test_too_few_examples_are_told_before_the_run(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "test.csv").write_text("text,label\nnote on aspirin,DRUG\nnote on fever,DISEASE\n", encoding="utf-8")
    ended(2, "site", "check", site, "--study", site.parent / "study.toml", "--offline")
    assert "BAD data: 2 test examples, and consent.least_examples = 5: no answer would leave" in capsys.readouterr().out


# approvals as files


def test_an_approval_is_read_as_it_was_written(tmp_path: Path) -> None:
    mark = "a" * 64
    assert None is read_approval(tmp_path, mark)
    given = write_approval(tmp_path, mark, Approval(data="f", rounds=3, exchanges=7))
    assert None is read_approval(tmp_path, mark), "without the study there is no approval"
    (tmp_path / "approved" / f"{mark}.toml").touch()
    assert given == read_approval(tmp_path, mark)
    assert {"data", "rounds", "exchanges", "restarts", "time"} == json.loads(
        (tmp_path / "approved" / f"{mark}.json").read_text()
    ).keys()
    more = add_approval(tmp_path, mark, Approval(data="g", rounds=1, exchanges=2, restarts=1))
    assert ("g", 3, 9, 1) == (more.data, more.rounds, more.exchanges, more.restarts)
    for broken in ("[]", "{", '{"rounds": 1}', '{"data":"","rounds":-1,"exchanges":1,"restarts":0,"time":""}'):
        (tmp_path / "approved" / f"{mark}.json").write_text(broken)
        with pytest.raises(ValueError, match="; delete it, and approve the study again"):
            read_approval(tmp_path, mark)


def test_what_was_spent_is_what_left(tmp_path: Path) -> None:
    tables = {
        "name": "x", "rounds": 2, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 2, "largest": 40},
    }  # fmt: skip
    study = cells(tables, folder=tmp_path)[0].study
    names = build(study, tmp_path / "names").sites.names
    with Exchange(tmp_path / "x", study, names) as exchange:
        submit(study, tmp_path / "run", exchange.over, wait=1.0)
    used = spent(tmp_path / "x" / names[0], study_hash(study))
    assert (1, 2, 4) == (len(used.runs), used.rounds, used.exchanges)
    assert used.exchanges == expected_exchanges(study, 40, 2).total(study)
    given = read_approval(tmp_path / "x" / names[0], approve(tmp_path / "x" / names[0], study))
    assert given is not None
    assert used.exchanges + 2 == given.exchanges


# the card


@pytest.mark.parametrize("method", [name for name, known in METHODS.items() if not known.kind.pooled])
def test_a_field_that_tells_a_sites_size_says_so(method: str, tmp_path: Path) -> None:
    built = build(toy(method), tmp_path)
    sizes = {len(built.sites.open(name).train) for name in built.sites.names}
    for exchange in exchanged(built):
        for field in dataclasses.fields(exchange.reply):
            value = getattr(exchange.reply, field.name)
            if isinstance(value, int) and value in sizes and value > len(built.sites.names):
                assert _tells_size(reveals_of(type(exchange.reply))[field.name].what), (method, field.name)


def test_a_card_of_real_sites_tells_what_the_coordinator_was_told(tmp_path: Path) -> None:
    study = toy("fedavg")
    names = build(study, tmp_path / "names").sites.names
    with Exchange(tmp_path / "x", study, names) as exchange:
        submit(study, tmp_path / "run", exchange.over, wait=1.0)
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "does not know" not in card
    assert "- Update.weight: how many training examples the site has" in card.partition("## How it did")[0]
