"""Every text task on a pretrained encoder: what is frozen and cached gives the scores of the plain one, and learns."""

import html
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from encoder_folders import HAN, WORDS, foreign_encoder, tiny_encoder
from trained_models import CLINIC, trained
from wardround import load
from wardround.cli.app import main
from wardround.core.bench import Bench
from wardround.models.encoder_files import EncoderError
from wardround.models.pretrained import packaged
from wardround.runs.build import build
from wardround.runs.loop import run
from wardround.study.load import cells
from wardround.study.settings import StudyError
from wardround.tasks import suited_encoder
from wardround.tasks.bags import Bags
from wardround.tasks.batching import budgeted
from wardround.tasks.classification import Classification
from wardround.tasks.encoded_texts import EncodedTextTask
from wardround.tasks.relation import Relations
from wardround.tasks.suited_encoder import doubts, languages
from wardround.tasks.tag_pieces import windows
from wardround.tasks.tagging import Tagging
from wardround.tasks.trunk import Trunk
from wardround.text.document import Document, Entity
from wardround.text.facts import sentence
from wardround.text.pairs import pair
from wardround.text.texts import Texts


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep states out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


class Corpus:
    """A corpus of which only this is known."""

    labels = ("NA", "causes", "stops")
    types = ("gene", "disease")
    negative = "NA"


SENTENCES = [
    "the a causes b .", "a stops the the the b of c and d .", "not a and b", "the the gene a stops b , c , d",
    "in a drug b causes e", "a b",
]  # fmt: skip
LABELS = ("causes", "stops", "NA", "stops", "causes", "NA")
ENDS = [
    (Entity("", "gene", t.index("a"), t.index("a") + 1), Entity("", "disease", t.rindex("b"), t.rindex("b") + 1))
    for t in SENTENCES
]
TASKS: dict[str, tuple[Any, dict[str, Any], Texts]] = {
    "classification": (
        Classification, {"model": "encoder", "longest": 60},
        Texts(tuple(Document(f"n{at}", t, labels=(LABELS[at],)) for at, t in enumerate(SENTENCES))),
    ),
    "classification by the mean": (
        Classification, {"model": "encoder", "longest": 60, "pool": "mean"},
        Texts(tuple(Document(f"n{at}", t, labels=(LABELS[at],)) for at, t in enumerate(SENTENCES))),
    ),
    "tagging": (
        Tagging, {"model": "encoder-crf"},
        Texts(tuple(Document(f"n{at}", t, entities=ENDS[at]) for at, t in enumerate(SENTENCES))),
    ),
    "tagging without a chain": (
        Tagging, {"model": "encoder"},
        Texts(tuple(Document(f"n{at}", t, entities=ENDS[at]) for at, t in enumerate(SENTENCES))),
    ),
    "bags": (
        Bags, {"model": "encoder", "longest": 60},
        Texts(tuple(sentence(f"n{at}", t, *ENDS[at], LABELS[at]) for at, t in enumerate(SENTENCES))),
    ),
    "relation": (
        Relations, {"longest": 60, "cls": True, "entities": False},
        Texts(tuple(pair(f"n{at}", t, *ENDS[at], LABELS[at]) for at, t in enumerate(SENTENCES))),
    ),
}  # fmt: skip


def bound(name: str, encoder: Path, **settings: Any) -> Any:
    kind, chosen, _ = TASKS[name]
    return kind(**{"encoder": str(encoder), "dropout": 0.0, **chosen, **settings}).bind(Corpus())


def counted(task: Any, name: str) -> dict[str, Tensor]:
    """What a model with the first weights counts, which are drawn the same whatever is frozen."""
    model = Bench.of(task).model
    with torch.no_grad():
        for part, parameter in sorted(model.named_parameters()):
            if not part.startswith("encoder."):
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().view(parameter.shape))
    counts: dict[str, Tensor] = dict(task.count(model.eval(), task.examples(TASKS[name][2])))
    return counts


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_a_cached_trunk_gives_the_counts_of_the_plain_encoder(kind: str, name: str, tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path) if kind == "bert" else foreign_encoder(tmp_path, kind)
    expected = counted(bound(name, encoder, layers=2), name)
    sizes = []
    for freeze in (0, 1, 2):
        task = bound(name, encoder, layers=2, freeze=freeze)
        actual = counted(task, name)
        sizes.append(Bench.of(task).layout.size)
        for figure, value in expected.items():
            torch.testing.assert_close(actual[figure], value, rtol=1e-4, atol=1e-4)
    assert sizes == sorted(sizes, reverse=True)
    assert not any(part.startswith("encoder.") for part in Bench.of(task).layout.shapes)


@pytest.mark.parametrize("name", TASKS)
def test_it_learns_what_little_there_is(name: str, tmp_path: Path) -> None:
    task = bound(name, tiny_encoder(tmp_path), freeze=1)
    torch.manual_seed(1)
    model, examples = task.model(), task.examples(TASKS[name][2])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(25):
        for batch in task.batches(examples, 3, None):
            optimizer.zero_grad()
            loss = task.loss(model, batch)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert sum(losses[-2:]) < 0.5 * sum(losses[:2])


def test_padding_and_company_change_no_prediction(tmp_path: Path) -> None:
    for name in ("classification", "tagging"):
        task = bound(name, tiny_encoder(tmp_path), freeze=0)
        model, examples = task.model().eval(), task.examples(TASKS[name][2])
        together = model(examples.batch(torch.arange(6)).inputs)
        for row, scores in enumerate(together):
            alone = model(examples.batch(torch.tensor([row])).inputs)[0]
            torch.testing.assert_close(scores[: len(alone)], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("freeze", ["nothing", 1, 2])
@pytest.mark.parametrize("name", ["classification", "classification by the mean", "tagging"])
def test_answers_are_given_without_padding_and_are_those_with_it(name: str, freeze: Any, tmp_path: Path) -> None:
    task = bound(name, tiny_encoder(tmp_path), freeze=freeze, layers=2)
    model, examples = task.model().eval(), task.examples(TASKS[name][2])
    asked = [*(task._through(examples, padded=False) if name == "tagging" else task.asked(examples))]
    assert [*range(6)] == sorted(row for batch in asked for row in batch.rows.tolist())
    if freeze != 2:  # where all is frozen, there is nothing to pad
        assert [batch.inputs.inputs.shape[0] for batch in asked] == [
            sum(batch.inputs.lengths if name != "tagging" else batch.inputs.sizes) for batch in asked
        ]
    for batch in asked:
        torch.testing.assert_close(model(batch.inputs), model(examples.batch(batch.rows).inputs), rtol=1e-4, atol=1e-4)


def test_a_word_has_the_state_of_its_first_piece_and_each_tag_stands_for_itself(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path)
    task = bound("tagging without a chain", encoder)
    words = ("ab", "gene", "aabc", "☃")  # [CLS] a ##b gene a ##a ##b ##c [UNK] [SEP]
    (window,) = windows(words, task.sources.parts.pretrained)
    assert [1, 3, 4, 8] == window.places
    a, b = WORDS.index("a"), WORDS.index("##b")
    assert [2, a, b, WORDS.index("gene"), a] == window.ids[:5]
    assert [1, 3] == window.ids[-2:]
    model = task.model().eval()
    batch = task.examples(TASKS["tagging"][2]).batch(torch.arange(3))
    emissions, lengths = model(batch.inputs), batch.inputs.lengths
    each = emissions.log_softmax(2).gather(2, batch.tags.unsqueeze(2)).squeeze(2)
    real = torch.arange(each.shape[1]) < lengths[:, None]
    torch.testing.assert_close(torch.where(real, each, 0).sum(1), model.crf(emissions, batch.tags, lengths))
    best = torch.where(real, emissions.argmax(2), 0)
    assert torch.equal(best, model.crf.decode(emissions, lengths))
    assert ["crf.emit.weight", "crf.emit.bias"] == [n for n in Bench.of(task).layout.shapes if n.startswith("crf.")]


@pytest.mark.parametrize("model", ["encoder", "elmoner"])
def test_words_that_are_tagged_have_the_pieces_that_they_have_in_their_text(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a vocabulary counts a blank to the word behind it, as those of RoBERTa and ModernBERT do."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(ByteLevel.alphabet()), "Ġg", "ge", "Ġge"]
    encoder = tiny_encoder(tmp_path, words)
    tokenizer = Tokenizer(BPE({word: n for n, word in enumerate(words)}, [("Ġ", "g"), ("g", "e"), ("Ġg", "e")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save(str(encoder / "tokenizer.json"))
    whole: dict[str, Any] = {"freeze": 2} if model == "encoder" else {}
    task = Tagging(model=model, encoder=str(encoder), remember=False, **whole).bind(Corpus())
    seen: list[list[int]] = []

    def states(_: Trunk, rows: list[list[int]]) -> list[Tensor]:
        seen.extend(rows)
        return [torch.zeros(len(row), 32) for row in rows]

    monkeypatch.setattr(Trunk, "states", states)
    text = "(ge ge-ge), ge ge."
    examples = task.examples(Texts((Document("n", text, entities=(Entity("T1", "gene", 1, 3),)),)))
    next(iter(task.batches(examples, 1, None)))
    assert [[2, *tokenizer.encode(text).ids, 3]] == seen


def test_a_sentence_too_long_for_the_encoder_is_read_in_windows_of_whole_words(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path)
    text = " ".join(["aab gene"] * 60)  # 240 pieces, for 128 places
    note = Document("n", text, entities=(Entity("T1", "gene", len(text) - 4, len(text)),))
    for freeze in ("nothing", 1, 2):
        task = bound("tagging", encoder, freeze=freeze)
        parts = windows(text.split(), task.sources.parts.pretrained)
        assert [64, 56] == [len(part.places) for part in parts]
        assert max(len(part.ids) for part in parts) <= 130
        batch = task.examples(Texts((note, TASKS["tagging"][2].documents[0]))).batch(torch.tensor([1, 0]))
        assert (2, 120, len(task.tags)) == task.model()(batch.inputs).shape
        assert [5, 120] == batch.inputs.lengths.tolist()


def test_chinese_is_read_character_by_character(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "encoder", [*WORDS[:10], *dict.fromkeys(HAN)])
    task = Tagging(model="encoder-crf", encoder=str(encoder), tokens="characters").bind(Corpus())
    note = Document("n", "患者发热三天", entities=(Entity("T1", "disease", 2, 4),))
    examples = task.examples(Texts((note,)))
    assert [8] == examples.sizes.tolist()  # six characters between the ends
    assert [0, 0, 1, 2, 0, 0] == examples.tags.values.tolist()
    texts = Classification(model="encoder", encoder=str(encoder), longest=60).bind(Corpus())
    assert isinstance(texts, EncodedTextTask)
    assert [[len(WORDS[:10]) + HAN.index(char) for char in "患者"]] == texts.pieces.whole(["患者"])
    for name in TASKS:
        plain = bound(name, tiny_encoder(tmp_path / name), **({"tokens": "characters"} if "tagging" in name else {}))
        with pytest.raises(ValueError, match=rf"100 % of the word pieces are unknown to the encoder {name}; .*\(zh\)"):
            plain.refuse([Texts((note,) * 20)])


def test_features_are_of_cls_of_entities_or_both_and_of_the_last_layers_together(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path)
    widths = []
    for chosen in ({"cls": True}, {"entities": True}, {"cls": True, "entities": True}):
        task = bound("relation", encoder, **{"cls": False, "entities": False, **chosen}, freeze=2)
        batch = task.examples(TASKS["relation"][2]).batch(torch.arange(2))
        widths.append(task.features(task.model(), batch).shape[1])
    assert [32, 64, 96] == widths
    with pytest.raises(ValueError, match="cls and entities are both false"):
        Relations(cls=False, entities=False)
    whole, frozen = (bound("relation", encoder, last=2, freeze=freeze) for freeze in ("nothing", 2))
    both = [
        task.features(task.model().eval(), task.examples(TASKS["relation"][2]).batch(torch.arange(6)))
        for task in (whole, frozen)
    ]
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)
    alone = bound("relation", encoder, last=1, freeze=2)
    assert not torch.allclose(
        both[0], alone.features(alone.model(), alone.examples(TASKS["relation"][2]).batch(torch.arange(6)))
    )


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("tagging", {"freeze": 3}, r"freeze = 3 is above the number of layers that are used, 2; lower it"),
        ("classification", {"layers": 1, "freeze": 2}, r"freeze = 2 is above the number of layers that are used, 1"),
        ("bags", {"layers": 3}, r"layers = 3, it has 2; lower it"),
        ("classification", {"longest": 131}, r"longest = 131, it has positions for 130; lower it"),
        ("relation", {"last": 2, "freeze": 1}, r"last = 2, but 2 layers .*, 1 of them frozen; .* at most 0 layers"),
        ("relation", {"last": 3}, r"last = 3, but 2 layers are used, 0 of them frozen; lower it"),
        ("classification", {"model": "lstm", "freeze": 1}, r"= .* is of an encoder, and model = 'lstm' has none"),
        ("tagging", {"model": "cnn-crf", "layers": 1}, r"layers = 1 is of an encoder, and model = 'cnn-crf' has none"),
        ("tagging", {"buckets": 100}, r"buckets = 100 is of words, and model = 'encoder-crf' has none; leave it out"),
        ("classification", {"tokens": "words"}, r"tokens = 'words' is of words, and model = 'encoder'"),
        ("bags", {"vectors": "x.npz"}, r"vectors = 'x.npz' is of words"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused_by_name(
    name: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises((EncoderError, ValueError), match=said):
        bound(name, tiny_encoder(tmp_path), **settings)


def test_a_study_with_a_folder_that_is_no_encoder_says_so_before_it_runs(tmp_path: Path) -> None:
    for task in ({"name": "tagging", "model": "encoder"}, {"name": "classification", "model": "encoder"}):
        study = cells({
            "name": "x", "rounds": 1, "corpus": CLINIC, "method": {"name": "fedavg"},
            "task": {**task, "encoder": "none"},
        }, folder=tmp_path)[0].study  # fmt: skip
        with pytest.raises(StudyError, match=r"encoder .*none: there is no such folder"):
            run(study, tmp_path / "run")


def test_a_run_on_a_foreign_encoder_goes_on_where_it_was_cut_and_predicts_without_the_folder(tmp_path: Path) -> None:
    encoder = foreign_encoder(tmp_path / "encoder", "mpnet")
    tables: dict[str, Any] = {
        "corpus": CLINIC, "method": {"name": "fedavg", "optimizer": "adam", "lr": 0.001, "batch": 8},
        "task": {"name": "classification", "model": "encoder", "encoder": str(encoder), "freeze": 2, "longest": 60},
    }  # fmt: skip
    whole = trained(tmp_path / "whole", **tables)
    part = trained(tmp_path / "part", **tables, rounds=1)
    run(cells({"name": "small", "rounds": 2, **tables}, folder=tmp_path)[0].study, part, resume=True)
    assert (whole / "model" / "weights.safetensors").read_bytes() == (
        part / "model" / "weights.safetensors"
    ).read_bytes()
    encoder.rename(tmp_path / "elsewhere")
    (label,) = load(part)("the gene causes a disease").labels
    assert label.name in load(part).about[0].labels


def test_batches_by_a_budget_take_every_row_once_and_pad_little() -> None:
    lengths = torch.tensor([3, 100, 5, 40, 4, 90, 3000, 1])
    batches = budgeted(lengths, 200)
    assert list(range(8)) == sorted(row for batch in batches for row in batch.tolist())
    assert [[7, 0, 4, 2, 3], [5, 1], [6]] == [batch.tolist() for batch in batches]
    assert [] == budgeted(lengths[:0])


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("freeze", ["nothing", 1, 2])
def test_weights_that_do_not_fit_are_told_before_any_site_is_asked(
    name: str, freeze: int | str, tmp_path: Path
) -> None:
    folder = tiny_encoder(tmp_path / "encoder")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"intermediate_size": ', '"intermediate_size": 1'), encoding="utf-8")
    kind, more, _ = TASKS[name]
    with pytest.raises(EncoderError, match=r"the weights of layers\.\d\.wide\.weight have shape"):
        kind(**more, encoder=str(folder), freeze=freeze).bind(Corpus())


OF_ENGLISH = "it is of English, and most texts look Chinese; choose one of the texts' language (zh)"


def chinese(folder: Path, **task: Any) -> Any:
    """A study of Chinese notes by an encoder of English that has half of their characters."""
    encoder = tiny_encoder(folder / "encoder", [*WORDS[:10], *"患者发热"])
    (encoder / "README.md").write_text("---\nlicense: mit\nlanguage:\n- en\n---\n# An encoder\n", encoding="utf-8")
    note = {
        "text": "患者服布洛芬后发热", "entities": [{"id": "T1", "type": "drug", "start": 3, "end": 6},
        {"id": "T2", "type": "problem", "start": 7, "end": 9}],
    }  # fmt: skip
    for split, rows in (("train", 40), ("test", 10)):
        notes = (
            {
                **note, "id": f"{split}{at}", "labels": ["ab"[at % 2]],
                "relations": [{"type": "causes", "head": "T1", "tail": "T2"}] * (at % 2),
            }
            for at in range(rows)
        )  # fmt: skip
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in notes)
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    files = {"format": "jsonl", "train": str(folder / "train.jsonl"), "test": str(folder / "test.jsonl")}
    return cells({
        "name": "x", "rounds": 1, "method": {"name": "fedavg"}, "partition": {"name": "iid", "sites": 2},
        "corpus": files, "task": {**task, "encoder": str(encoder)},
    }, folder=folder)[0].study  # fmt: skip


@pytest.mark.parametrize(
    "task",
    [
        {"name": "classification", "model": "encoder", "longest": 60},
        {"name": "tagging", "model": "encoder", "tokens": "characters"},
        {"name": "tagging", "model": "elmoner", "tokens": "characters"},
        {"name": "relation"},
    ],
    ids=lambda task: f"{task['name']} {task.get('model', '')}",
)
def test_an_encoder_of_another_language_is_told_of_whatever_the_task(task: dict[str, Any], tmp_path: Path) -> None:
    """English word pieces were trained on Chinese notes, most of them unknown, without a word."""
    (words,) = build(chinese(tmp_path, **task), tmp_path / "run").doubts
    assert f"the encoder encoder does not know 56 % of the word pieces; {OF_ENGLISH}" == words
    study = chinese(tmp_path, **task)
    (tmp_path / "encoder" / "README.md").write_text("---\nlanguage: [en, zh-CN]\n---\n", encoding="utf-8")
    (words,) = build(study, tmp_path / "other").doubts
    assert "the encoder encoder does not know 56 % of the word pieces; choose one of the texts' language (zh)" == words


def test_what_is_doubtful_of_an_encoder_is_said_before_the_first_round_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = chinese(tmp_path, name="classification", model="encoder", longest=60)
    (tmp_path / "study.toml").write_text(study.toml(), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run"), "--workers", "1"])
    before, _, _ = capsys.readouterr().err.partition("round 1/1")
    assert OF_ENGLISH in before
    assert OF_ENGLISH in html.unescape((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("---\nlanguage: en\n---\n", ("en",)),
        ("---\ntags:\n- x\nlanguage:\n- en\n- zh-CN\nlicense: mit\n---\n", ("en", "zh")),
        ('---\nlanguage: ["de", "no"]\n---\n', ("de", "no")),
        ("---\nlanguage: multilingual\n---\n", ()),
        ("# language: en\n", ()),
        ("", ()),
    ],
)
def test_the_languages_of_an_encoder_are_those_at_the_head_of_its_readme(
    head: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    assert () == languages(tmp_path)
    (tmp_path / "README.md").write_text(head, encoding="utf-8")
    assert expected == languages(tmp_path)


def test_an_encoder_that_suits_is_not_doubted_and_one_that_spells_bytes_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [Document(str(at), f"The patient had a fever for {at} days and was given aspirin.") for at in range(30)]
    assert [] == [*doubts(packaged(), notes)]
    letters = Tokenizer(BPE({token: at for at, token in enumerate(sorted(ByteLevel.alphabet()))}, []))
    letters.pre_tokenizer = ByteLevel(add_prefix_space=False)
    monkeypatch.setattr(suited_encoder, "read_encoder", lambda _: SimpleNamespace(tokenizer=letters, unknown=-1))
    (words,) = doubts(tmp_path / "bytes", [Document(str(at), "患者发热三天") for at in range(30)])
    assert "the encoder bytes spells the texts, in 3.0 pieces per character; choose one of" in words
