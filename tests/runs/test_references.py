"""What any model should beat: figures of constant answers and of TF-IDF, and what is said of a run below them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from wardround.cli.app import main
from wardround.cli.progress import headline
from wardround.metrics.classes import class_counts, class_metrics
from wardround.metrics.constant import class_constant, label_constant
from wardround.metrics.labels import label_counts, label_metrics
from wardround.runs.files import REFERENCES
from wardround.runs.loop import run
from wardround.runs.references import beside, missed
from wardround.study.load import cells
from wardround.study.settings import StudyError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is remembered out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


def tables(folder: Path, **changes: Any) -> dict[str, Any]:
    """Twelve texts of three classes, one of them the commonest, learnt in one tiny step."""
    words = {"a": "fever", "b": "rash", "c": "pain"}
    rows = "".join(f"the patient has {words[label]} for {i} days,{label}\n" for i, label in enumerate("aaaaaabbbccc"))
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text(f"text,label\n{rows}")
    return {
        "name": "small",
        "rounds": 1,
        "corpus": {"format": "csv", "train": str(folder / "train.csv"), "test": str(folder / "test.csv")},
        "partition": {"name": "iid", "sites": 2},
        "task": {"name": "classification"},
        "method": {"name": "fedavg", "lr": 1e-6},
        **changes,
    }


def test_a_constant_answer_counts_what_the_commonest_class_would() -> None:
    labels = torch.tensor([0, 1, 1, 2, 1])
    always = torch.full((5, 3), -30.0)
    always[:, 1] = 30.0
    counted = class_counts(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), labels, torch.tensor(9.0))
    expected = class_metrics(class_counts(always, labels, torch.tensor(0.0)))
    actual = class_metrics(class_constant(counted))
    for name in ("accuracy", "macro_f1", "examples"):
        assert expected[name] == actual[name]
    shares = torch.tensor([1.0, 3.0, 1.0]) / 5
    assert float(-(shares * shares.log()).sum()) == pytest.approx(actual["loss"])


def test_a_constant_answer_of_several_labels_names_those_of_more_than_half_of_the_texts() -> None:
    truth = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    always = torch.tensor([[30.0, -30.0]]).expand(4, 2)
    counted = label_counts(torch.zeros(4, 2) - 1, truth, torch.tensor(1.0))
    expected, actual = (
        label_metrics(label_counts(always, truth, torch.tensor(0.0))),
        label_metrics(label_constant(counted)),
    )
    assert {name: expected[name] for name in ("micro_f1", "macro_f1")} == {
        name: actual[name] for name in ("micro_f1", "macro_f1")
    }
    assert "exact" not in actual
    best = torch.nn.functional.binary_cross_entropy(truth.mean(0).expand(4, 2), truth)
    assert float(best) == pytest.approx(actual["loss"])


def test_a_run_that_does_not_beat_the_commonest_class_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    unweighed = {"name": "classification", "class_weights": "none"}  # so that one tiny step learns what is common
    told = cells(tables(tmp_path, references=["majority"], task=unweighed))[0].study
    study.write_text(told.toml())
    with pytest.raises(SystemExit):
        main(["run", str(study), "--out", str(tmp_path / "run"), "--quiet", "--workers", "1"])
    said = capsys.readouterr().out
    assert "fedavg: it does not beat the reference majority (always the commonest class): accuracy 0.5000" in said
    assert "for reference, accuracy of majority 0.5000" in said.splitlines()
    assert 0.5 == (REFERENCES.read(tmp_path / "run") or {})["majority"]["accuracy"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "always the commonest class" in page
    assert "does not beat" in page


def test_references_are_told_beside_a_result_that_beats_them() -> None:
    final = {"valid_f1": 0.1, "loss": 1.0, "f1": 0.9, "f1[x]": 0.2}
    assert "for reference, f1 of dictionary 0.3300, chance 0.1000" == beside(
        final, {"dictionary": {"f1": 0.33}, "chance": {"f1": 0.1, "loss": 2.0}, "local": {"accuracy": 0.4}}
    )
    assert "" == beside(final, {})


def test_references_can_be_turned_off_and_decide_nothing_of_a_run(tmp_path: Path) -> None:
    without = cells(tables(tmp_path, references=[]))[0].study
    default = cells(tables(tmp_path))[0].study
    assert without.fingerprint == default.fingerprint
    run(without, tmp_path / "run")
    assert {} == (REFERENCES.read(tmp_path / "run") or {})


def test_a_reference_that_cannot_be_had_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.runs.fitting.find_spec", lambda _: None)
    with pytest.raises(StudyError, match=r'needs scikit-learn; pip install "wardround\[baselines\]"'):
        run(cells(tables(tmp_path, references=["tfidf"]))[0].study, tmp_path / "run")


def test_tfidf_is_fitted_once_for_the_same_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason='scikit-learn is not installed: pip install "wardround[baselines]"')
    study = cells(tables(tmp_path, references=["tfidf"]))[0].study
    run(study, tmp_path / "one")
    actual = REFERENCES.read(tmp_path / "one") or {}
    assert 1.0 == actual["tfidf"]["accuracy"]
    monkeypatch.setattr("wardround.runs.references._tfidf", lambda *_: pytest.fail("fitted again"))
    run(study, tmp_path / "two")
    assert actual == (REFERENCES.read(tmp_path / "two") or {})


def test_tfidf_of_several_labels_has_the_task_s_figures(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason='scikit-learn is not installed: pip install "wardround[baselines]"')
    chosen = tables(tmp_path, references=["tfidf"])
    chosen["task"]["several"] = True
    run(cells(chosen)[0].study, tmp_path / "run")
    found = (REFERENCES.read(tmp_path / "run") or {})["tfidf"]
    assert {"micro_f1", "macro_f1", "exact", "loss"} == set(found)
    assert 1.0 == found["macro_f1"]


def test_only_the_first_figure_decides_whether_a_reference_is_beaten() -> None:
    final = {"accuracy": 0.8, "macro_f1": 0.1, "loss": 9.0}
    beside = {"majority": {"accuracy": 0.7, "macro_f1": 0.3}, "tfidf": {"accuracy": 0.9}}
    assert ["tfidf"] == [line.split()[6] for line in missed(final, beside)]
    before = {"train_accuracy": 1.0, "valid_accuracy": 1.0, **final}  # in the order of the study's splits
    assert ["tfidf"] == [line.split()[6] for line in missed(before, beside)]
    assert ("accuracy 0.8000", "") == (headline(before), headline({}))


def test_a_tagger_is_measured_against_a_dictionary_and_says_when_it_is_no_better(tmp_path: Path) -> None:
    rows = ["Aspirin\tB-Drug", "gave\tO", "a\tO", "rash\tB-Effect", "."]
    sentence = "\n".join(row if "\t" in row else f"{row}\tO" for row in rows)
    for split in ("train", "test"):
        (tmp_path / f"{split}.conll").write_text(f"{sentence}\n\n" * 6)
    small = {"model": "cnn-crf", "buckets": 64, "embedding": 4, "filters": 4}
    corpus = {"format": "conll", "train": str(tmp_path / "train.conll"), "test": str(tmp_path / "test.conll")}
    chosen = tables(tmp_path, corpus=corpus, task={"name": "tagging", **small})
    final = run(cells(chosen)[0].study, tmp_path / "run").metrics
    actual = (REFERENCES.read(tmp_path / "run") or {})["dictionary"]
    assert (1.0, 1.0, 1.0) == (actual["f1"], actual["recall[Drug]"], actual["precision[Effect]"])
    assert "loss" not in actual
    assert ["dictionary"] == [line.split()[6] for line in missed(final, {"dictionary": actual})]
