"""Texts to classes: representation, models, figures, and whole runs on files."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from data import DATA, VECTORS, needs_data, needs_vectors
from wardround.core.bench import Bench
from wardround.core.task import SiteData
from wardround.corpora.register import CORPORA
from wardround.corpora.views import LabelledTexts
from wardround.federation.sites import opened
from wardround.models.recurrent import LSTMClassifier
from wardround.runs.build import bound, build
from wardround.runs.loop import run
from wardround.study import defaults
from wardround.study.load import cells
from wardround.study.settings import StudyError
from wardround.tasks.classification import Classification, ClassificationTask
from wardround.text.document import Document
from wardround.text.texts import Texts

EXAMPLES = [("fever and cough", "a"), ("pain in the chest", "b"), ("cough, cough", "a"), ("chest film", "b")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the segmentation cache out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


def texts(*pairs: tuple[str, str]) -> Texts:
    return Texts(tuple(Document(str(i), text, labels=(label,)) for i, (text, label) in enumerate(pairs)))


@pytest.mark.parametrize(
    ("settings", "fits"),
    [({"model": "lstm"}, True), ({"model": "lstm", "several": True}, False), ({"model": "logistic"}, False)],
    ids=str,
)
def test_methods_that_look_into_a_classifier_are_refused_where_there_is_none(
    settings: dict[str, Any], fits: bool, tmp_path: Path
) -> None:
    """Before anything is trained: several labels at once have no softmax, a bag of words no features."""
    tables = {
        "name": "skewed",
        "rounds": 1,
        "method": {"name": "fedlc"},
        "task": {"name": "classification", **settings},
        "corpus": {"name": "clinic", "hospitals": 2, "documents": 4, "test_documents": 2},
    }
    study = cells(tables)[0].study
    if fits:
        run(study, tmp_path / "run")
    else:
        with pytest.raises(StudyError, match=r"method 'fedlc' looks into the linear classifier .* choose another"):
            run(study, tmp_path / "run")


def vectors_file(folder: Path) -> Path:
    path = folder / "vectors.txt"
    path.write_text("fever 1 0\ncough 0 1\nchest 2 2\n")
    return path


def test_a_mean_vector_leaves_out_words_that_the_file_does_not_have(tmp_path: Path) -> None:
    task = ClassificationTask(Classification(vectors=str(vectors_file(tmp_path))), ("a", "b"))
    means = task.examples(texts(*EXAMPLES)).means
    assert means is not None
    assert [[0.5, 0.5], [2.0, 2.0], [0.0, 1.0], [2.0, 2.0]] == means.tolist()


def test_a_bag_of_words_does_not_depend_on_order_or_padding() -> None:
    task = ClassificationTask(Classification(buckets=64), ("a", "b"))
    model = task.model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    straight = task.examples(texts(("fever cough chest", "a"))).batch(torch.tensor([0]))
    mixed = task.examples(texts(("chest fever cough", "a"), ("one two three four five six", "a")))
    torch.testing.assert_close(model(straight.inputs)[0], model(mixed.batch(torch.tensor([0, 1])).inputs)[0])


def test_frozen_word_vectors_are_no_weights_and_never_travel(tmp_path: Path) -> None:
    path = str(vectors_file(tmp_path))
    frozen = ClassificationTask(Classification(model="lstm", vectors=path), ("a", "b"))
    trained = ClassificationTask(Classification(model="lstm", vectors=path, train_vectors=True), ("a", "b"))
    assert not any("embedding" in name for name in Bench.of(frozen).layout.shapes)
    assert any("embedding" in name for name in Bench.of(trained).layout.shapes)


def test_a_study_says_what_an_lstm_makes_of_a_text() -> None:
    """The mean of its states unless it says otherwise; a bag of words has no states."""
    kinds = {summary: Classification(model="lstm", buckets=64, summary=summary) for summary in (None, "mean", "last")}
    networks = {summary: ClassificationTask(kind, ("a", "b")).model() for summary, kind in kinds.items()}
    assert ["mean", "mean", "last"] == [cast("LSTMClassifier", model).summary for model in networks.values()]
    with pytest.raises(ValueError, match="summary = 'last' goes with model = \"lstm\", not 'logistic'; leave it out"):
        Classification(summary="last")


@pytest.mark.parametrize("model", ["logistic", "lstm"])
def test_counts_add_over_any_cut_of_the_texts(model: str) -> None:
    task = ClassificationTask(Classification(model=model, buckets=64), ("a", "b"))  # type: ignore[arg-type]
    network = task.model().eval()
    whole = task.count(network, task.examples(texts(*EXAMPLES)))
    parts = [task.count(network, task.examples(texts(*EXAMPLES[i : i + 1]))) for i in range(len(EXAMPLES))]
    for name, tensor in whole.items():
        torch.testing.assert_close(tensor, sum(part[name] for part in parts), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("several", [False, True])
def test_a_site_without_texts_counts_nothing(*, several: bool) -> None:
    task = ClassificationTask(Classification(buckets=64, several=several), ("a", "b"))
    counts = task.count(task.model().eval(), task.examples(texts()))
    assert 0 == sum(float(tensor.sum()) for tensor in counts.values())


def test_texts_with_several_labels_become_a_row_of_flags() -> None:
    task = ClassificationTask(Classification(several=True), ("a", "b", "c"))
    documents = (Document("1", "x", labels=("a", "c")), Document("2", "y"))
    assert [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]] == task.examples(Texts(documents)).labels.tolist()


def test_one_label_per_text_is_asked_for_by_name_of_the_setting() -> None:
    task = ClassificationTask(Classification(), ("a", "b"))
    with pytest.raises(ValueError, match="document 7 has 2 labels; set several = true"):
        task.examples(Texts((Document("7", "secret text", labels=("a", "b")),)))


def test_of_an_unknown_label_the_length_is_given_and_of_the_text_nothing() -> None:
    task = ClassificationTask(Classification(), ("a", "b"))
    with pytest.raises(ValueError, match=r"label \(a value of 1 characters\) is not among") as error:
        task.examples(texts(("secret text", "z")))
    assert "secret" not in str(error.value)


def test_a_single_label_is_refused() -> None:
    with pytest.raises(
        ValueError, match="2 labels, and the corpus has 1; give its texts labels, or choose another task"
    ):
        ClassificationTask(Classification(), ("a",))


def test_long_texts_are_cut_and_counted() -> None:
    examples = ClassificationTask(Classification(longest=3), ("a", "b")).examples(texts(("one two three four", "a")))
    assert (1, [3]) == (examples.shortened, examples.tokens.lengths.tolist())


def written(folder: Path, count: int = 60) -> Path:
    """A study beside two CSV files whose classes differ by a word."""
    for split in ("train", "test"):
        rows = [
            f'"{"fever" if i % 2 else "rash"} for {i} days",{"hot" if i % 2 else "skin"},ward {i % 3}'
            for i in range(count)
        ]
        (folder / f"{split}.csv").write_text("\n".join(["text,label,ward", *rows]) + "\n")
    study = {
        "name": "own",
        "rounds": 4,
        "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv", "source": "ward"},
        "task": {"name": "classification", "buckets": 256},
        "method": {"name": "fedavg", "lr": 1.0, "epochs": 5},
    }
    path = folder / "study.json"
    path.write_text(json.dumps(study))
    return path


def test_a_users_own_csv_files_train_a_model_with_each_source_as_a_site(tmp_path: Path) -> None:
    tables = json.loads(written(tmp_path).read_text())
    study = cells(tables, folder=tmp_path)[0].study
    assert ("ward 0", "ward 1", "ward 2") == build(study, tmp_path / "x").sites.names
    assert run(study, tmp_path / "run").metrics["accuracy"] > 0.95


def test_rows_without_text_are_counted_where_the_user_sees_them(tmp_path: Path) -> None:
    tables = json.loads(written(tmp_path).read_text())
    with (tmp_path / "train.csv").open("a") as file:
        file.write(",hot,ward 1\n")
    run(cells(tables | {"rounds": 1}, folder=tmp_path)[0].study, tmp_path / "run")
    told = json.loads((tmp_path / "run" / "data.json").read_text())["problems"]
    assert "row without text, skipped: 1 (train.csv:62)" in told


@pytest.mark.parametrize("partition", [{"name": "iid", "sites": 4}, {"name": "dirichlet", "sites": 4, "alpha": 0.5}])
def test_a_partition_gives_every_text_to_one_site(tmp_path: Path, partition: dict[str, object]) -> None:
    tables = json.loads(written(tmp_path).read_text()) | {"partition": partition}
    built = build(cells(tables, folder=tmp_path)[0].study, tmp_path / "x")
    sites: list[SiteData] = [built.sites.open(name) for name in built.sites.names]
    assert (4, 60, 60) == (len(sites), sum(len(s.train) for s in sites), sum(len(s.test) for s in sites))


def test_impossible_partitions_are_explained(tmp_path: Path) -> None:
    tables = json.loads(written(tmp_path).read_text())
    tables["partition"] = {"name": "dirichlet", "sites": 10, "alpha": 0.05, "min_per_site": 50}
    with pytest.raises(StudyError, match="min_per_site"):
        build(cells(tables, folder=tmp_path)[0].study, tmp_path / "x")


def test_labels_come_from_the_training_file_if_nobody_says(tmp_path: Path) -> None:
    written(tmp_path)
    corpus = opened(
        LabelledTexts(format="csv", train="train.csv", test="test.csv", source="ward", folder=str(tmp_path))
    )
    assert ("hot", "skin") == corpus.labels


@needs_data
@needs_vectors
def test_cmdd_learns_symptoms_over_dialogues_grouped_into_sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARDROUND_DATA", str(DATA))
    tables = {
        "name": "cmdd",
        "rounds": 1,
        "corpus": {"name": "cmdd"},
        "partition": {"name": "source", "sites": 30},
        "task": {"name": "classification", "tokens": "jieba", "vectors": str(VECTORS / "zh-word2vec-100d.npz")},
        "method": {"name": "fedavgs", "batch": 32, "lr": 0.01},
    }
    result = run(cells(tables)[0].study, tmp_path / "run")
    assert result.metrics["examples"] == 17_002
    assert result.metrics["accuracy"] > 0.8  # always "no symptom" would be right for 76 %


def test_vectors_and_hashing_are_the_only_vocabularies() -> None:
    task = ClassificationTask(Classification(buckets=32), ("a", "b"))
    ids = task.examples(texts(*EXAMPLES)).tokens.values
    assert 0 < int(ids.min()) <= int(ids.max()) < 32
    assert np.issubdtype(ids.numpy().dtype, np.integer)


ENGLISH = [(f"the patient has {word} for {i} days", word) for word in ("fever", "rash") for i in range(9)]
CHINESE = [(f"患者发热咳嗽{i}天，无胸痛", "a") for i in range(12)] + [(f"皮肤红疹伴瘙痒{i}周", "b") for i in range(12)]


def foreign(folder: Path, pairs: list[tuple[str, str]], **corpus: Any) -> dict[str, Any]:
    """A study of these texts as somebody's CSV files, with no setting that could be left out."""
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text("text,label\n" + "".join(f"{t},{c}\n" for t, c in pairs), encoding="utf-8")
    return {
        "name": "foreign",
        "rounds": 5,
        "corpus": {"format": "csv", "train": str(folder / "train.csv"), "test": str(folder / "test.csv"), **corpus},
        "task": {"name": "classification"},
        "method": {"name": "fedavg"},
    }


@pytest.mark.parametrize(
    ("pairs", "tokens", "ngrams"),
    [(CHINESE, "characters", 3), (ENGLISH, "words", 2)],
    ids=["Chinese", "English"],
)
def test_tokens_follow_the_language_of_the_texts_and_the_run_says_which(
    pairs: list[tuple[str, str]], tokens: str, ngrams: int, tmp_path: Path
) -> None:
    study = cells(foreign(tmp_path, pairs))[0].study
    assert (tokens, ngrams) == (study.resolved["task"]["tokens"], study.resolved["task"]["ngrams"])
    assert 1.0 == run(study, tmp_path / "run").metrics["accuracy"]
    assert f'tokens = "{tokens}"' in (tmp_path / "run" / "study.toml").read_text()


@pytest.mark.parametrize(("declared", "tokens"), [("zh", "characters"), ("ja", "characters"), ("de", "words")])
def test_a_declared_language_decides_without_a_look_at_the_texts(declared: str, tokens: str, tmp_path: Path) -> None:
    tables = foreign(tmp_path, CHINESE, language=declared)
    (tmp_path / "train.csv").unlink()
    assert tokens == cells(tables)[0].study.resolved["task"]["tokens"]


def test_the_texts_of_a_grid_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = [], defaults.language_of
    monkeypatch.setattr(defaults, "language_of", lambda corpus, **how: looks.append(corpus) or look(corpus, **how))
    grid = {"rounds": [1, 2, 3], "method.lr": [0.1, 1.0]}
    assert 6 == len(cells({**foreign(tmp_path, CHINESE), "grid": grid}))
    assert 1 == len(looks)


@pytest.mark.parametrize("corpus", [corpus for corpus in CORPORA.values() if corpus.views != ("rows",)])
def test_a_corpus_says_its_language_so_that_no_study_of_it_has_to_look(corpus: type[Any]) -> None:
    assert corpus.language in ("en", "zh")


def test_a_missing_file_is_told_as_such_and_not_as_a_language_that_nobody_knows(tmp_path: Path) -> None:
    tables = foreign(tmp_path, CHINESE)
    tables["corpus"]["train"] = str(tmp_path / "trian.csv")
    with pytest.raises(StudyError, match=r"trian.csv: no such file — did you mean \S*/train.csv\?"):
        run(cells(tables)[0].study, tmp_path / "run")


def test_real_sites_are_told_in_one_message_what_the_study_must_say(tmp_path: Path) -> None:
    tables = foreign(tmp_path, CHINESE, labels=["a", "b"])
    tables["corpus"] |= {"train": "elsewhere.csv", "test": "elsewhere.csv"}
    with pytest.raises(StudyError, match=r'task.tokens is missing.*language = "en".*or tokens = "words"'):
        bound(cells(tables)[0].study)
    tables["corpus"]["language"] = "zh"
    assert "characters" == bound(cells(tables)[0].study).settings.tokens  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pairs", "tokens", "message"),
    [
        (CHINESE, "words", r"without spaces \(zh\).*set tokens = \"characters\" or \"jieba\""),
        ([(f"AB{i:05d}", "ab"[i % 2]) for i in range(40)], "words", r"leaves 1.0 tokens per text.*\"characters\""),
    ],
    ids=["Chinese as words", "one token per text"],
)
def test_tokens_that_nothing_can_be_learnt_from_are_refused_before_the_run(
    pairs: list[tuple[str, str]], tokens: str, message: str, tmp_path: Path
) -> None:
    tables = foreign(tmp_path, pairs)
    tables["task"]["tokens"] = tokens
    with pytest.raises(StudyError, match=message) as error:
        run(cells(tables)[0].study, tmp_path / "run")
    assert not any(text in str(error.value) for text, _ in pairs)


def test_texts_with_several_labels_are_refused_by_file_and_line_before_a_folder_is_taken(tmp_path: Path) -> None:
    """The length of an id was all that was said, and the folder held a run from then on."""
    rows = [{"id": f"Mrs Smith {n}", "text": f"Note {n} about a cough.", "labels": ["ab"[n % 2]]} for n in range(40)]
    for n in (17, 20):
        rows[n]["labels"] = ["a", "b"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tables = foreign(tmp_path, CHINESE)
    tables["corpus"] = {"format": "jsonl", "train": str(tmp_path / "a.jsonl"), "test": str(tmp_path / "a.jsonl")}
    with pytest.raises(
        StudyError, match=r'a\.jsonl:18, column "label": text with several labels \(4 in all\); set several'
    ):
        run(cells(tables)[0].study, tmp_path / "run")
    assert not (tmp_path / "run" / "study.toml").exists()


def test_vectors_of_another_language_are_refused(tmp_path: Path) -> None:
    tables = foreign(tmp_path, CHINESE)
    tables["task"] |= {"vectors": str(vectors_file(tmp_path)), "tokens": "characters"}
    with pytest.raises(StudyError, match=r"100 % of the tokens are not in the vectors .* \(zh\)"):
        run(cells(tables)[0].study, tmp_path / "run")


def test_runs_of_words_tell_apart_what_single_words_cannot() -> None:
    pairs = [("fever no rash", "a"), ("rash no fever", "b")]
    for ngrams, alike in ((1, True), (2, False)):
        task = ClassificationTask(Classification(tokens="words", ngrams=ngrams, buckets=4096), ("a", "b"))
        first, second = task.examples(texts(*pairs)).batch(torch.tensor([0, 1])).inputs
        assert alike is torch.equal(first.sort().values, second.sort().values)


def test_a_cut_text_keeps_the_runs_of_its_first_tokens_and_counts_the_tokens_beyond() -> None:
    task = ClassificationTask(Classification(tokens="words", ngrams=3, longest=4), ("a", "b"))
    whole, (beyond,) = task.unlabelled(["one two three four five six"])
    exact, _ = task.unlabelled(["one two three four"])
    assert (2, exact.tokens.values.tolist()) == (beyond, whole.tokens.values.tolist())


@pytest.mark.parametrize(("chosen", "ratio"), [("none", 1.0), ("root", 3.0), ("balanced", 9.0)])
def test_rare_classes_count_more_by_a_site_s_own_counts(chosen: Any, ratio: float) -> None:
    """In a fresh model all classes are equally likely, so the bias moves by the weights alone."""
    task = ClassificationTask(Classification(tokens="words", class_weights=chosen), ("a", "b"))
    examples = task.examples(texts(*[("x", "a")] * 9, ("x", "b")))
    moved = []
    for row in (0, 9):
        model = task.model()
        task.loss(model, examples.batch(torch.tensor([row]))).backward()  # type: ignore[no-untyped-call]
        gradient = dict(model.named_parameters())["bias"].grad
        assert gradient is not None
        moved.append(float(gradient.abs().sum()))
    assert ratio == pytest.approx(moved[1] / moved[0])


def test_of_several_labels_presence_and_absence_weigh_the_same_however_rare_a_label_is() -> None:
    """As scikit-learn balances each label: n / 2p and n / 2(n − p) for texts with it and without."""
    task = ClassificationTask(Classification(tokens="words", class_weights="balanced", several=True), ("a", "b"))
    documents = tuple(Document(str(n), "x", labels=("a",) if n < 2 else ("b",) if n < 8 else ()) for n in range(10))
    model, examples = task.model(), task.examples(Texts(documents))
    loss = task.loss(model, examples.batch(torch.arange(10)))
    assert 2 * np.log(2) == pytest.approx(float(loss.detach()))
    loss.backward()  # type: ignore[no-untyped-call]
    gradient = dict(model.named_parameters())["bias"].grad
    assert gradient is not None
    assert [0.0, 0.0] == pytest.approx(gradient.tolist(), abs=1e-6)


@pytest.mark.parametrize(("language", "tokens", "ngrams"), [("en", "words", 2), ("zh", "characters", 3)])
def test_a_bag_is_weighed_by_document_counts_and_balanced_in_every_language(
    language: str, tokens: str, ngrams: int
) -> None:
    for several in (False, True):
        chosen = Classification(several=several).suited(language)
        assert {"tokens": tokens, "ngrams": ngrams, "weighting": "documents", "class_weights": "balanced"} == {
            key: chosen[key] for key in ("tokens", "ngrams", "weighting", "class_weights")
        }
