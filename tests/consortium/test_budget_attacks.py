"""A coordinator, or a study, that would have more of a site's patients than the site's journal counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from loopback import ask, first_weights, put, site_folder
from patient_notes import CONSENT, DATA, SITES, budget, fault, looks, study_of, write, write_notes
from wardround.consortium.approval import approve
from wardround.consortium.check import checked
from wardround.consortium.private_site import JOURNAL, SECRET
from wardround.consortium.site_process import SiteProcess
from wardround.core.codec import decode
from wardround.core.exchange import EVALUATION, seeded
from wardround.core.method import Exam, Global
from wardround.core.private_steps import Guard
from wardround.core.weights import Weights
from wardround.methods.fedavg import Update
from wardround.privacy import guards
from wardround.privacy.accounting import noise_for
from wardround.privacy.journal import BudgetJournal
from wardround.study.load import Study, cells


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write_notes(tmp_path)


def change(site: SiteProcess, study: Study, weights: Weights, **changes: Any) -> torch.Tensor:
    head, reply = put(site, *ask(study, Global(weights), **changes))
    assert "fault" not in head
    return decode(Update, reply).change.flat


def evaluated(site: SiteProcess, study: Study, weights: Weights, split: str, **changes: Any) -> str | None:
    place = {"step": "evaluate", "number": EVALUATION + 1, **changes}
    return put(site, *ask(study, Exam(weights, split), **place))[0].get("fault")


def likeness(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0))


def test_other_patients_behind_the_same_notes_are_other_data(notes: Path) -> None:
    """Else one question would have two answers under one noise, for one price, and their difference none."""
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    (place / SECRET).write_bytes(bytes(32))  # the same chance whenever this is run
    weights = first_weights(study, notes, SITES)
    first = change(SiteProcess(place), study, weights)
    write(place, "train", 0, 60, patients=15)
    assert "changed" == fault(SiteProcess(place), study)
    approve(place, study)
    second = change(SiteProcess(place), study, weights, run="1" * 16)
    assert 0.6 > likeness(first, second)
    assert 2 == len({line["key"] for line in looks(place)})


def with_vectors(notes: Path) -> tuple[Study, Callable[[float], None]]:
    """A study that reads a file of word vectors at a site, and how to put another in its place."""
    words = ["rash", "causes", "stops", *map(str, range(9))]

    def put_vectors(size: float, folder: Path = notes / "site-0") -> None:
        rows = (f"{word} {size * (at % 5 - 2)} {size * (at % 3)} {size * at}\n" for at, word in enumerate(words))
        (folder / "vectors.txt").write_text("".join(rows), encoding="utf-8")

    for folder in (notes, notes / "site-0"):
        put_vectors(0.1, folder)
    task = {"name": "classification", "tokens": "words", "class_weights": "none", "vectors": "vectors.txt"}
    return cells({**study_of().resolved, "task": task}, folder=notes)[0].study, put_vectors


def test_other_word_vectors_are_another_question(notes: Path) -> None:
    """A study may well ask a hospital for a "corrected" file; a run that began with another is over then."""
    study, put_vectors = with_vectors(notes)
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    (place / SECRET).write_bytes(bytes(32))  # the same chance whenever this is run
    weights = first_weights(study, notes, SITES)
    first = change(SiteProcess(place), study, weights)
    put_vectors(0.12)
    assert "budget" == fault(SiteProcess(place), study, resumed=[0])
    assert 0.9 > likeness(first, change(SiteProcess(place), study, weights, run="1" * 16))


def test_word_vectors_that_change_while_a_site_runs_are_read_for_the_next_run(notes: Path) -> None:
    """Else it would answer from the old ones under the new ones' noise, and after a restart from the new ones."""
    study, put_vectors = with_vectors(notes)
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    weights, site = first_weights(study, notes, SITES), SiteProcess(place)
    change(site, study, weights)
    put_vectors(0.12)
    second = change(site, study, weights, run="1" * 16)
    assert torch.equal(second, change(SiteProcess(place), study, weights, run="1" * 16))


@pytest.mark.parametrize("newer", ["code", "counting of ε"])
def test_after_an_upgrade_a_question_has_other_noise_and_a_price(
    newer: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two answers by other code, or with more and less of the same noise, the notes could be worked out."""
    study = study_of(rounds=4)
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    (place / SECRET).write_bytes(bytes(32))  # the same chance whenever this is run
    weights = first_weights(study, notes, SITES)
    first = change(SiteProcess(place), study, weights)
    if newer == "code":
        monkeypatch.setattr(guards, "__version__", "9.9")
    else:
        monkeypatch.setattr(guards, "noise_for", lambda *asked: 1.1 * noise_for(*asked))
    second = change(SiteProcess(place), study, weights, resumed=[0])
    assert 0.9 > likeness(first, second)
    assert 2 == len({line["key"] for line in looks(place)})


def test_dropout_cannot_be_foretold_from_the_studys_seed(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With known masks, one unit more moved those of all that come after it: several times the clip."""
    study, states, descend = study_of(model={"model": "lstm", "dropout": 0.5}), list[bytes](), Guard.descend

    def noting(guard: Guard, *of: Any) -> None:
        states.append(torch.get_rng_state().numpy().tobytes())
        descend(guard, *of)

    monkeypatch.setattr(Guard, "descend", noting)
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    for run in "01":
        (place / SECRET).write_bytes(32 * run.encode())
        change(SiteProcess(place), study, first_weights(study, notes, SITES), run=16 * run)
    assert 2 <= len(set(states))
    assert public_state(seeded(0, 1, "site-0", "fit")) not in states


def public_state(seed: int) -> bytes:
    """What torch's generator is like after a seed."""
    return torch.Generator().manual_seed(seed).get_state().numpy().tobytes()


def test_a_run_does_not_go_on_with_other_notes(notes: Path) -> None:
    """Whoever was trained on would be tested on as well, at the price of one of the two."""
    study = study_of(rounds=4)
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    weights = first_weights(study, notes, SITES)
    change(SiteProcess(place), study, weights)
    train, test = ((place / f"{split}.csv").read_text(encoding="utf-8") for split in ("train", "test"))
    (place / "train.csv").write_text(test, encoding="utf-8")
    (place / "test.csv").write_text(train, encoding="utf-8")
    approve(place, study)
    site = SiteProcess(place)
    assert "budget" == evaluated(site, study, weights, "test")
    assert evaluated(site, study, weights, "test", run="1" * 16) is None
    assert ["train", "test"] == [line["kind"] for line in looks(place)]
    journal = BudgetJournal(place / JOURNAL)
    assert 2 == len(journal.runs)
    assert journal.spent[0] == sum(run.cost for run in journal.runs.values())


def test_texts_that_are_dropped_by_what_others_have_are_refused(notes: Path) -> None:
    study, test = study_of(), notes / "site-0" / "test.csv"
    test.write_text(test.read_text(encoding="utf-8").replace("rash", "cough"), encoding="utf-8")
    place = site_folder(notes, "site-0", study, *CONSENT, data=(*DATA, "dedupe = true"), exchanges=50)
    assert "privacy" == fault(SiteProcess(place), study)
    words = [one.detail for one in checked(place, study, online=False) if one.what == "privacy"]
    assert "a note to test on decides whether another's is trained on" in words[0]


@pytest.mark.parametrize("split", ["train", "valid", "public", "units"])
def test_no_split_is_counted_that_the_study_does_not_have(notes: Path, split: str) -> None:
    study = study_of()
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50)
    assert "message" == evaluated(SiteProcess(place), study, first_weights(study, notes, SITES), split)
    assert not (place / JOURNAL).exists()


def test_another_question_has_noise_of_its_own_and_a_price(notes: Path) -> None:
    """Another run, round or model under the same noise would tell of the notes without any."""
    study = study_of(rounds=4, dp={"epsilon": 4.0, "delta": 1e-3, "unit": "example"})
    place = site_folder(notes, "site-0", study, *budget(50.0), data=DATA, exchanges=50, restarts=9)
    (place / SECRET).write_bytes(bytes(32))  # the same chance whenever this is run
    first = first_weights(study, notes, SITES)
    moved = first + Weights({name: torch.full_like(value, 1e-5) for name, value in first.items()})
    site = SiteProcess(place)
    answers = [
        change(site, study, first),
        change(site, study, first, round=2),
        change(site, study, first, run="1" * 16),
    ]
    answers.append(change(site, study, moved, round=2, resumed=[1]))
    likest = max(likeness(one, other) for at, one in enumerate(answers) for other in answers[:at])
    assert 0.6 > likest
    assert len(answers) == len({line["key"] for line in looks(place)})
    assert torch.equal(answers[1], change(site, study, first, round=2, resumed=[1, 1]))
    assert len(answers) == len(looks(place))
