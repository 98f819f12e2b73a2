"""Attacks on ourselves: each succeeds where it is known to, and is at chance where the protection is total."""

import html
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.special import betaincinv

from encoder_folders import tiny_encoder
from wardround.audit import candidates, labels, membership, sums, words
from wardround.audit import lying as lies
from wardround.audit.audit import ATTACKS, audited
from wardround.audit.case import BOTH, DP, OFF, PROTECTIONS, SUMS, Case, observed, rehearsable, variants
from wardround.audit.finding import AttackResult, auc, named_at
from wardround.audit.lying import TRIGGER, flipped, lying, triggered, twisted
from wardround.audit.own import own_notes
from wardround.audit.page import page, write_audit
from wardround.core.weights import Weights
from wardround.methods.fedavg import Update
from wardround.methods.feded import Vote
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.text.document import Document

LSTM: dict[str, Any] = {"name": "classification", "model": "lstm", "buckets": 2048, "hidden": 8, "embedding": 8}
BAG: dict[str, Any] = {"name": "classification", "model": "logistic", "buckets": 4096}


def study_of(method: dict[str, Any], task: dict[str, Any], **more: Any) -> Study:
    tables = {"name": "attacked", "rounds": 2, "method": method, "task": task, "corpus": {"name": "clinic"}, **more}
    return cells(tables)[0].study


def cases(
    study: Study, folder: Path, rounds: int = 1, notes: int = 20, wanted: tuple[str, ...] = (OFF, SUMS)
) -> Iterator[Case]:
    for label, variant in variants(study, rehearsable(study, 3, notes)):
        if isinstance(variant, Study) and label in wanted:
            yield observed(label, variant, folder / label, rounds)


def only(findings: list[AttackResult]) -> AttackResult:
    [finding] = findings
    assert finding.value is not None, finding.why
    return finding


def test_words_are_all_named_and_behind_masks_none_more_than_by_chance(tmp_path: Path) -> None:
    by_label = {case.label: words.attack(case) for case in cases(study_of({"name": "fedavg"}, LSTM), tmp_path)}
    plain = only(by_label[OFF])
    assert 0.99 <= (plain.value or 0)
    assert plain.chance < 0.3
    together, alone = by_label[SUMS]
    assert together.value is not None
    assert together.value < 0.95  # of the union, whose they are is a guess
    assert alone.value == pytest.approx(alone.chance, abs=0.06)
    assert "next to nothing" == alone.tells


def test_label_counts_are_told_by_the_classifiers_bias_and_hardly_by_the_sums(tmp_path: Path) -> None:
    by_label = {case.label: labels.attack(case) for case in cases(study_of({"name": "fedavg"}, LSTM), tmp_path)}
    assert 0.8 < (only(by_label[OFF]).value or 0)
    assert (only(by_label[SUMS]).value or 0) < (only(by_label[OFF]).value or 0) - 0.2


def test_notes_of_a_small_sum_of_features_are_told_from_others(tmp_path: Path) -> None:
    study = study_of({"name": "ridge"}, {**LSTM, "hidden": 32})
    by_label = {case.label: sums.attack(case) for case in cases(study, tmp_path, notes=28)}
    assert 0.95 <= (only(by_label[OFF]).value or 0)
    assert (only(by_label[SUMS]).value or 0) < (only(by_label[OFF]).value or 0)


def test_what_a_method_warns_of_is_not_told_again_with_every_attack(caplog: pytest.LogCaptureFixture) -> None:
    audited(study_of({"name": "ridge"}, {**LSTM, "hidden": 32}), sites=3, notes=12, rounds=1)
    assert not [record for record in caplog.records if record.name.startswith("wardround.methods")]


def test_leverage_is_that_of_the_formula_and_says_nothing_of_many_rows() -> None:
    rng = torch.Generator().manual_seed(1)
    rows, others = (torch.randn(2000, 8, generator=rng, dtype=torch.float64) for _ in range(2))
    gram = rows.T @ rows
    expected = torch.stack([row @ torch.linalg.inv(gram) @ row for row in rows[:5]])
    torch.testing.assert_close(expected, sums.leverage(gram, rows[:5]), rtol=1e-4, atol=0)
    assert auc(-sums.leverage(gram, rows), -sums.leverage(gram, others)) == pytest.approx(0.5, abs=0.03)


def test_candidates_are_told_by_their_words(tmp_path: Path) -> None:
    case = next(cases(study_of({"name": "fedavg"}, LSTM), tmp_path))
    assert 0.9 < (only(candidates.attack(case)).value or 0)


def test_candidates_lie_in_what_a_change_spans_until_there_are_too_many() -> None:
    rng = torch.Generator().manual_seed(2)
    inside, others = (torch.randn(6, 32, generator=rng, dtype=torch.float64) for _ in range(2))
    change = torch.randn(40, 6, generator=rng, dtype=torch.float64) @ inside  # Σ δ hᵀ
    basis = candidates.spanned(change)
    assert 6 == len(basis)
    assert max(candidates.outside(row[None], basis) for row in inside) < 1e-6
    assert min(candidates.outside(row[None], basis) for row in others) > 0.5
    full = candidates.spanned(torch.randn(40, 32, generator=rng, dtype=torch.float64))
    assert max(candidates.outside(row[None], full) for row in others) < 1e-6


def test_a_model_that_knows_its_notes_by_heart_gives_them_away_and_an_untrained_one_none(tmp_path: Path) -> None:
    settings = {"name": "fedavg", "lr": 20.0, "epochs": 30}
    free = {**BAG, "shrinkage": 0.0}  # a pull to zero is there to keep a model from it
    case = next(cases(study_of(settings, free), tmp_path, rounds=3))
    told, named = membership.attack(case)
    assert 0.8 < (told.value or 0)
    assert 0.05 < (named.value or 0)
    planted = only(membership.canaries(case, tmp_path / "canaries"))
    assert 1.0 < (planted.value or 0) <= planted.best
    fresh = replace(case, weights=case.built.weights)
    assert membership.attack(fresh)[0].value == pytest.approx(0.5, abs=0.02)


def test_pairs_are_planted_with_entities_of_their_own(tmp_path: Path) -> None:
    task = {"name": "relation", "encoder": str(tiny_encoder(tmp_path / "encoder")), "freeze": 1, "longest": 60}
    study = study_of({"name": "fedavg", "batch": 16}, task, corpus={"name": "clinic-pairs"})
    case = next(cases(study, tmp_path, notes=10))
    planted = only(membership.canaries(case, tmp_path / "canaries"))
    assert 0.0 <= (planted.value or 0) <= planted.best


def test_planted_notes_are_trained_on_with_the_noise_of_the_study(tmp_path: Path) -> None:
    """What is planted at a site is told by nobody there, where without noise it is; a site's own notes likewise."""
    settings = {"name": "fedavg", "lr": 20.0, "epochs": 10, "batch": 4}
    plain, case = cases(study_of(settings, {**BAG, "shrinkage": 0.0}), tmp_path, wanted=(OFF, DP))
    assert 1.0 < (only(membership.canaries(plain, tmp_path / "plain")).value or 0)
    planted = only(membership.canaries(case, tmp_path / "canaries"))
    assert (planted.value or 0) < 1.0
    assert "the study accounts for 3;" in planted.why
    train, test = case.built.sites.raw(case.sites[0])
    make, _ = own_notes(train, test, 20, 0)
    assert make(case.study, tmp_path / "own").host.guards is not None


def test_where_noise_protects_patients_generated_notes_and_planted_ones_have_some(tmp_path: Path) -> None:
    dp = {"epsilon": 3.0, "delta": 1e-3, "unit": "patient"}
    study = study_of({"name": "fedavg", "batch": 2}, {**BAG, "shrinkage": 0.0}, privacy={"dp": dp})
    (case,) = cases(study, tmp_path, wanted=(DP,))
    assert "the study accounts for 3;" in only(membership.canaries(case, tmp_path / "canaries")).why


def test_relations_and_sentences_of_bags_are_attacked_by_patient(tmp_path: Path) -> None:
    """Both are made of notes whose patients the generated hospitals name."""
    dp = {"epsilon": 3.0, "delta": 1e-3, "unit": "patient", "evaluation": "outside"}
    small = {"buckets": 64, "embedding": 6, "filters": 5, "position": 2}
    studies = {
        "clinic-pairs": {"name": "relation", "encoder": str(tiny_encoder(tmp_path / "tiny")), "freeze": 2},
        "clinic-bags": {"name": "bags", "denoiser": "none", **small},
    }
    for name, task in studies.items():
        study = study_of({"name": "fedavg", "batch": 2}, task, corpus={"name": name}, privacy={"dp": dp})
        (case,) = cases(study, tmp_path / name, notes=10, wanted=(DP,))
        units = case.built.sites.open(case.sites[0]).units
        assert units is not None
        assert 10 == units.count <= sum(map(len, units.rows))  # a note has several pairs
        assert membership.attack(case)[0].value is not None
        assert membership.canaries(case, tmp_path / f"{name} planted")


def test_limits_of_a_share_are_clopper_and_pearsons() -> None:
    for hits, trials in ((0, 50), (3, 50), (49, 50), (50, 50)):
        expected = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - 0.025))
        assert expected == pytest.approx(membership.upper_limit(hits, trials, 0.025), abs=1e-9)
    assert 0.0 == membership.empirical_epsilon([0.0, 1.0] * 20, [0.0, 1.0] * 20)


def test_figures_of_ranks() -> None:
    assert 0.75 == auc([1, 3], [0, 2])
    assert 0.5 == auc([1, 1], [1, 1]) == auc([], [1])
    assert 0.5 == named_at([5.0, 1.0], [float(x) / 50 for x in range(200)])
    assert "not tried" == AttackResult("a", "b", "c", None).tells
    assert ["next to nothing", "something", "much", "all"] == [
        AttackResult("a", "b", "c", value, 0.5).tells for value in (0.5, 0.7, 0.9, 1.0)
    ]


def test_lies_change_what_was_learnt_and_nothing_else() -> None:
    update = Update(Weights({"w": torch.tensor([1.0, -2.0])}), 7)
    assert Update(Weights({"w": torch.tensor([100.0, -200.0])}), 7) == twisted(update, 100.0)
    votes = Vote(torch.tensor([[100, -100]], dtype=torch.int8))
    assert Vote(torch.tensor([[127, -128]], dtype=torch.int8)) == twisted(votes, 100.0)
    note = Document("1", "a note", ("b",))
    assert ("c",) == flipped("abc")(0, note).labels
    assert (f"a note {TRIGGER}", ("a",)) == (triggered("a")(0, note).text, triggered("a")(0, note).labels)
    assert note == triggered("a")(1, note)


def test_an_audit_tries_every_attack_with_every_protection_and_the_officer_has_a_page(tmp_path: Path) -> None:
    """All figures are on it, it loads nothing, and it quotes no note."""
    study = study_of({"name": "fedavg", "lr": 20.0}, {**BAG, "buckets": 1024})
    audit = audited(study, sites=4, notes=16, rounds=2)
    tried = {(one.protection, one.attack.partition(",")[0].partition(":")[0]) for one in audit.findings}
    attacks = {words.ATTACK, labels.ATTACK, candidates.ATTACK, membership.ATTACK, membership.CANARIES, sums.ATTACK}
    assert {(label, attack) for label in PROTECTIONS for attack in (*attacks, "a site that lies")} <= tried
    assert {} == audit.missing
    assert () == audit.switched_on
    instead = 'task.weighting = "none" in place of "documents" and task.class_weights = "none" in place of "balanced"'
    assert dict.fromkeys((DP, BOTH), instead) == audit.given_up
    assert {"count_documents", "fit", "evaluate"} == {row.step for row in audit.leaves}
    noised = next(one for one in audit.findings if (one.protection, one.attack) == (DP, words.ATTACK))
    assert noised.value == pytest.approx(noised.chance, abs=0.1)
    written = write_audit(audit, tmp_path / "deep" / "audit.html").read_text(encoding="utf-8")
    assert page(audit) == written
    assert f"With {DP}: measured with {instead}".replace('"', "&quot;") in written
    for one in audit.findings:
        assert one.attack.partition(":")[0].replace("'", "&#x27;") in written
        assert one.value is not None or html.escape(one.why) in written
    assert "lying(built" not in written  # how the code is called is nothing for the officer
    assert "<script" not in written
    assert "td { white-space: normal; }" in written  # on paper a sentence that does not wrap is cut off
    assert "*Canaries*" not in written
    assert "canary-" not in written
    assert TRIGGER not in written
    hostile = replace(audit, study=replace(audit.study, name="<script>alert(1)</script>"))
    assert "<script>alert" not in page(hostile)


def test_lies_are_tried_under_each_rule_and_the_bound_holds_the_loudest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lies, "RULES", ("mean", "bound"))
    study = study_of({"name": "fedavg", "lr": 8.0, "epochs": 3}, {**BAG, "buckets": 1024})
    case = observed(OFF, cells(rehearsable(study, 4, 40))[0].study, tmp_path, 4)
    findings = lies.attack(case, tmp_path / "lies")
    assert {f"a site that lies: {lie}, {rule}" for lie in lies.LIES for rule in ("mean", "bound")} == {
        one.attack for one in findings
    }
    lost = {one.attack.removeprefix("a site that lies: "): one.value or 0.0 for one in findings}
    assert lost["times 100, mean"] > lost["times 100, bound"] + 0.1


def test_a_protection_that_is_not_there_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTECTIONS, DP, {"no_such_thing": True})
    study = study_of({"name": "fedavg"}, BAG)
    made = dict(variants(study, rehearsable(study)))
    assert "privacy.no_such_thing is unknown" in str(made[DP])
    assert isinstance(made[SUMS], Study)


@pytest.mark.parametrize(
    ("method", "task", "reason"),
    [
        ({"name": "local"}, BAG, "no weights leave a site"),
        ({"name": "fedavg"}, {"name": "features"}, "no embedding of words is trained"),
    ],
)
def test_what_does_not_go_with_a_study_says_why(method: Any, task: Any, reason: str, tmp_path: Path) -> None:
    corpus = {"name": "synthetic" if task["name"] == "features" else "clinic"}
    study = cells({"name": "x", "rounds": 1, "method": method, "task": task, "corpus": corpus})[0].study
    case = next(cases(study, tmp_path, notes=12))
    [finding] = words.attack(case)
    assert finding.value is None
    assert reason in finding.why
    for _, attack in ATTACKS.values():
        assert attack(case, tmp_path / "more")
    assert (lying(case.built, case.sites[0], "flipped labels", tmp_path) is None) == (task["name"] == "features")


def test_a_sites_own_notes_are_cut_into_parts_that_share_nothing(tmp_path: Path) -> None:
    study = study_of({"name": "fedavg"}, BAG, corpus={"name": "clinic", "documents": 40, "test_documents": 20})
    train, test = study.corpus.open("hospital-0")
    make, whose = own_notes(train, test, 32, seed=0)
    built = make(study, tmp_path)
    assert built.raw is not None
    opened: list[Any] = [built.raw.raw(name)[0] for name in built.sites.names]
    ids = [document.id for part in opened for document in part.documents]
    assert 32 == len(ids) == len(set(ids))
    assert "32 training and 20 test examples" in whose
    with pytest.raises(StudyError, match="12 of each"):
        own_notes(train, test.take(torch.arange(5).numpy()), 32, seed=0)
