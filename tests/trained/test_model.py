"""A loaded model says what evaluation counted, at offsets of the very text it was given, and keeps nothing of it."""

import itertools
import json
import math
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trained_models
import wardround
from wardround.clinic import Clinic
from wardround.core.device import Precision
from wardround.metrics.entities import entity_counts, entity_metrics
from wardround.models.crf import CRF
from wardround.runs.build import build
from wardround.study.load import load_study
from wardround.tasks.span_odds import span_odds
from wardround.text.document import Document, Entity
from wardround.text.reading import Problems
from wardround.text.tokens import tokenised
from wardround.trained.model import Model

NOTE = "Patient was given aspirin for chest pain. Troponin showed infarction; continue metoprolol."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for make in (trained_models.tagger, trained_models.relater, trained_models.sorter):
        make(folder / make.__name__)
    return folder


@pytest.fixture(scope="module")
def tagger(runs: Path) -> Model:
    return wardround.load(runs / "tagger" / "model")


@pytest.fixture(scope="module")
def chain(runs: Path) -> Model:
    return wardround.load(runs / "tagger", runs / "relater")


def final(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "metrics.json").read_text())["final"]
    return found


def strict(model: Model, documents: list[Document]) -> dict[str, float]:
    """Strict precision, recall and F1 of predictions, by the tokens that evaluation counts in."""
    types = sorted({kind for about in model.about for kind in about.types})
    number = {kind: at for at, kind in enumerate(types)}
    pairs = []
    for document, told in zip(documents, model.predict([one.text for one in documents]), strict=True):
        actual = tuple(Entity(str(at), one.type, one.start, one.end) for at, one in enumerate(told.entities))
        mine, theirs = (
            [
                (number[kind], one.places[start][0], one.places[end - 1][1])
                for one in tokenised(Document("", document.text, entities=entities), Problems())
                for kind, start, end in one.spans
            ]
            for entities in (document.entities, actual)
        )
        pairs.append((mine, theirs))
    told_ = entity_metrics(entity_counts(pairs, len(types), 0, torch.zeros(())), types)
    return {name: told_[name] for name in ("precision", "recall", "f1")}


def test_a_loaded_tagger_has_the_figures_of_its_run(runs: Path, tagger: Model) -> None:
    clinic = Clinic(hospitals=2, documents=30, test_documents=10)
    documents = [one for name in clinic.names() for one in clinic.stream(name, "test")]
    expected = {name: final(runs / "tagger")[name] for name in ("precision", "recall", "f1")}
    assert expected == pytest.approx(strict(tagger, documents), abs=1e-9)
    assert expected["f1"] > 0.3


def test_a_loaded_relation_model_has_the_accuracy_of_its_run(runs: Path) -> None:
    model = wardround.load(runs / "relater")
    built = build(load_study(runs / "relater" / "study.toml")[0].study, runs / "relater")
    assert built.raw is not None
    documents = [one for name in built.raw.names for one in built.raw.raw(name)[1].documents]  # type: ignore[attr-defined]
    right = 0
    for document, told in zip(documents, model.predict(documents), strict=True):
        right += any((link.head, link.tail, link.type) == ("T1", "T2", document.labels[0]) for link in told.relations)
    assert final(runs / "relater")["accuracy"] == pytest.approx(right / len(documents))


def test_a_loaded_classifier_has_the_accuracy_of_its_run(runs: Path) -> None:
    model = wardround.load(runs / "sorter")
    clinic = Clinic(hospitals=2, documents=30, test_documents=10)
    documents = [one for name in clinic.names() for one in clinic.stream(name, "test")]
    right = sum(
        told.labels[0].name == document.labels[0]
        for document, told in zip(documents, model.predict(documents), strict=True)
    )
    assert final(runs / "sorter")["accuracy"] == pytest.approx(right / len(documents))
    assert model(NOTE).cut > 0


def test_the_confidence_of_a_span_is_the_sum_over_all_ways_to_tag_the_rest() -> None:
    torch.manual_seed(0)
    tags, length = 3, 4
    crf = CRF(tags)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_()
        emissions, lengths = torch.randn(1, length, tags), torch.tensor([length])
        path = crf.decode(emissions, lengths)
        weights = {
            way: math.exp(float(crf(emissions, torch.tensor([way]), lengths)))
            for way in itertools.product(range(tags), repeat=length)
        }
        assert 1 == pytest.approx(sum(weights.values()), abs=1e-5)
        for start, end in itertools.combinations(range(length + 1), 2):
            held = tuple(path[0, start:end].tolist())
            expected = sum(weight for way, weight in weights.items() if way[start:end] == held)
            assert expected == pytest.approx(
                float(span_odds(crf, emissions, lengths, path, [(0, start, end)])), abs=1e-4
            )


ODD = st.sampled_from(
    [
        "\u200b",
        "\u00ad",
        "\r\n",
        "\r",
        "\n\n",
        "\t",
        "\0",
        "\ufeff",
        "\u202e",
        "é",
        "e\u0301",
        "肺炎",
        "。",
        "😀",
        "\ud83d",
        "=1+1",
    ]
)
TEXTS = st.lists(ODD | st.sampled_from(NOTE.split(" ")) | st.text(max_size=5), max_size=40).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(text=TEXTS | TEXTS.map(lambda text: text.replace(" ", "")))
def test_offsets_index_the_text_that_was_given(chain: Model, text: str) -> None:
    prediction = chain(text)
    assert len(text) == len(prediction.text)
    before = 0
    for entity in prediction.entities:
        assert before <= entity.start < entity.end <= len(text)
        assert text[entity.start : entity.end].strip()
        assert entity.confidence is not None
        assert 0 <= entity.confidence <= 1
        before = entity.end
    for link in prediction.relations:
        assert link.head != link.tail
        assert {link.head, link.tail} <= prediction.places.keys()
    json.dumps(prediction.plain())


def test_a_note_of_half_a_megabyte_is_read_to_its_end(tagger: Model) -> None:
    """One of 2 MB is in `serve/test_page`."""
    note = (NOTE + "\r\n") * (500_000 // len(NOTE))
    prediction, once = tagger(note), tagger(NOTE).entities
    step = len(NOTE) + 2
    assert len(once) > 0
    expected = [(one.start + n * step, one.end + n * step) for n in range(len(note) // step) for one in once]
    assert expected == [(one.start, one.end) for one in prediction.entities]


def test_a_note_without_a_full_stop_does_not_relate_everything_with_everything(chain: Model) -> None:
    words = NOTE.replace(". ", " ").rstrip(".") + " "
    told = chain(words * 20)
    start = {one.id: one.start for one in told.entities}
    distance = [abs(start[link.head] - start[link.tail]) for link in told.relations]
    assert 500 < max(distance) <= 1000


def test_entities_longer_than_the_model_reads_are_left_alone(runs: Path) -> None:
    text = "b " * 100 + "c"
    document = Document("", text, entities=(Entity("1", "treatment", 0, 199), Entity("2", "problem", 200, 201)))
    assert () == wardround.load(runs / "relater")(document).relations


def test_two_models_relate_what_the_first_has_found(chain: Model) -> None:
    prediction = chain(NOTE)
    assert {about.study for about in chain.about} == {"small"}
    assert len(prediction.relations) > 0
    kind = {one.id: one.type for one in prediction.entities}
    types = {(kind[link.head], kind[link.tail]) for link in prediction.relations}
    assert types <= {("treatment", "problem"), ("test", "problem"), ("problem", "problem")}


def test_entities_that_come_with_a_document_are_related_without_a_tagger(runs: Path) -> None:
    at = NOTE.index("aspirin"), NOTE.index("chest")
    entities = (Entity("a", "DRUG", at[0], at[0] + 7), Entity("b", "problem", at[1], at[1] + 10))
    model = wardround.load(runs / "relater", rename={"DRUG": "treatment"})
    told = model(Document("7", NOTE, entities=entities))
    assert ["DRUG", "problem"] == [one.type for one in told.entities]
    assert [("T1", "T2")] == [(link.head, link.tail) for link in told.relations]


def test_in_bf16_a_model_answers_the_same_to_two_digits(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    at = NOTE.index("aspirin"), NOTE.index("chest")
    document = Document(
        "7",
        NOTE,
        entities=(Entity("a", "treatment", at[0], at[0] + 7), Entity("b", "problem", at[1], at[1] + 10)),
    )
    plain, narrow = (wardround.load(runs / "relater", precision=one).using("given") for one in get_args(Precision))
    expected, actual = (model(document).relations for model in (plain, narrow))
    assert [one.type for one in expected] == [one.type for one in actual]
    assert [one.confidence for one in expected] == pytest.approx([one.confidence for one in actual], abs=0.02)
    assert expected != actual


def test_a_stream_is_answered_in_order_and_like_single_texts(tagger: Model) -> None:
    texts = [f"{NOTE} {'Then a CT. ' * (n % 7)}{n}" for n in range(200)]
    told = list(tagger.predict(iter(texts)))
    assert texts == [one.text for one in told]
    for text, one in list(zip(texts, told, strict=True))[::40]:
        alone = tagger(text).entities
        assert [(e.type, e.start, e.end) for e in alone] == [(e.type, e.start, e.end) for e in one.entities]
        assert [e.confidence for e in alone] == pytest.approx([e.confidence for e in one.entities], abs=1e-4)


def test_one_text_for_many_many_for_one_and_entities_outside_of_a_text_are_refused(tagger: Model) -> None:
    with pytest.raises(TypeError, match="predict takes many texts, and this is one; give"):
        next(tagger.predict("Zanzibarine"))
    with pytest.raises(TypeError, match="called with one text; for many there is"):
        tagger(["Zanzibarine"])  # type: ignore[arg-type]
    for start, end in ((0, 12), (-1, 3), (4, 4)):
        with pytest.raises(
            ValueError, match=rf"entities\[0\] is at {start}-{end}, the text has 11 characters; offsets"
        ):
            tagger(Document("", "Zanzibarine", entities=(Entity("T1", "test", start, end),)))


def test_no_more_texts_are_read_than_go_through_the_model_together(tagger: Model) -> None:
    taken = itertools.count()
    told = tagger.predict(f"{NOTE} {next(taken)}" for _ in itertools.count())
    assert f"{NOTE} 0" == next(told).text
    assert next(taken) <= 64


def test_a_model_of_distant_supervision_relates_what_a_document_brings(tmp_path: Path) -> None:
    corpus = {"name": "clinic-bags", "hospitals": 2}
    run = trained_models.trained(
        tmp_path / "run", corpus=corpus, task={"name": "bags"}, method={"name": "fedavg"}, rounds=1
    )
    model = wardround.load(run)
    head, tail = (model.about[0].pairs or ())[0]
    document = Document("1", "Aspirin gave her a rash.", entities=(Entity("a", head, 0, 7), Entity("b", tail, 19, 23)))
    told = model(document)
    assert set(model.about[0].labels) >= {link.type for link in told.relations}
    assert 2 == len(told.entities)


def test_nothing_of_a_text_is_written_anywhere(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("WARDROUND_CACHE", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for model in (wardround.load(runs / "tagger", runs / "relater", runs / "sorter"),):
        model("Zanzibarine gave Mr Quux a rash.")
    assert [] == list(tmp_path.rglob("*"))
    assert "Zanzibarine" not in caplog.text
