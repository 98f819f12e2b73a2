"""The relation task: its model, what it sends, and whole runs from a study."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data import DATA, needs_data
from encoder_folders import WIDTH, tiny_encoder
from wardround.core.bench import Bench
from wardround.core.exchange import Exchange
from wardround.core.method import Global
from wardround.core.record import Message
from wardround.core.task import ClassTask
from wardround.core.weights import Weights
from wardround.corpora.gad import GAD
from wardround.federation.sites import Sites, opened
from wardround.runs.build import build
from wardround.runs.loop import run
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.candidates import Candidates, related
from wardround.tasks.relation import Relations, RelationTask, called_unrelated
from wardround.text.document import Document, Entity, Placed
from wardround.text.pairs import pair
from wardround.text.prediction import Prediction
from wardround.text.texts import Texts
from wardround.trained.least_sure import LeastSure

LABELS = ("none", "causes", "stops")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep states out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


def sentences(count: int, seed: int = 0) -> list[Document]:
    """Pairs whose relation is the word between them, in sentences of any length."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        label = LABELS[int(rng.integers(len(LABELS)))]
        before = "the " * int(rng.integers(0, 6))
        text = f"{before}a {'and' if label == 'none' else label} the b{' of c' * int(rng.integers(0, 4))}."
        gene = Entity("", "gene", len(before), len(before) + 1)
        place = text.index("the b") + 4
        made.append(pair(f"note-{number}", text, gene, Entity("", "disease", place, place + 1), label))
    return made


def write_pairs(path: Path, documents: list[Document]) -> Path:
    """Our JSONL."""
    rows = [
        {
            "text": d.text,
            "entities": [{"id": e.id, "type": e.type, "start": e.start, "end": e.end} for e in d.entities],
            "relations": [{"type": d.labels[0], "head": "e1", "tail": "e2"}] if d.labels[0] != "none" else [],
            "source": f"ward-{number % 2}",
        }
        for number, d in enumerate(documents)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def task_of(folder: Path, **settings: Any) -> RelationTask:
    class Corpus:
        labels = LABELS
        negative = "none"

    encoder = str(tiny_encoder(folder / "encoder"))
    return Relations(**{"encoder": encoder, "dropout": 0.0, **settings}).bind(Corpus())


def texts(count: int = 12) -> Texts:
    return Texts(tuple(sentences(count)))


def test_it_is_a_task_with_a_classifier_to_look_into(tmp_path: Path) -> None:
    task: ClassTask = task_of(tmp_path)
    examples = task.examples(texts())  # type: ignore[attr-defined]
    model = task.model().eval()
    assert LABELS == task.labels
    assert (3, 3 * WIDTH) == dict(model.named_parameters())[task.classifier].shape
    batch = next(iter(task.batches(examples, 5, None)))
    features = task.features(model, batch)
    assert (5, 3 * WIDTH) == features.shape
    scores = task.scores(model, features)
    torch.testing.assert_close(
        task.loss(model, batch), torch.nn.functional.cross_entropy(scores, task.targets(batch)), rtol=0, atol=0
    )
    assert {label: texts().classes.count(label) for label in LABELS} == dict(
        zip(LABELS, task.tally(examples).tolist(), strict=True)
    )
    assert {"classes": 3} == task.sizes()


def test_building_its_model_does_not_import_the_compiler_of_torch(tmp_path: Path) -> None:
    lines = (
        "import sys; sys.path.insert(0, sys.argv[1])",
        "from pathlib import Path; from test_relation import task_of",
        "task_of(Path(sys.argv[2]), freeze=1).model()",
        "print(sorted(name for name in sys.modules if name == 'torch._dynamo'))",
    )
    command = [sys.executable, "-c", "\n".join(lines), str(Path(__file__).parent), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ("[]\n", 0) == (ended.stdout, ended.returncode), ended.stderr


@pytest.mark.parametrize(("cls", "parts"), [(True, 3), (False, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_settings_of_feded_and_fedcmc(*, cls: bool, parts: int, bias: bool, tmp_path: Path) -> None:
    names = Bench.of(task_of(tmp_path, cls=cls, bias=bias)).layout.shapes
    assert (3, parts * WIDTH) == names["classifier.weight"]
    assert bias == ("classifier.bias" in names)


def test_features_are_the_states_of_cls_and_the_sums_over_each_entity(tmp_path: Path) -> None:
    task = task_of(tmp_path, blind=False, markers=False, normalise=False)
    made = pair("x", "the a b c stops d.", Entity("", "gene", 4, 9), Entity("", "disease", 16, 17), "stops")
    batch = task.examples(Texts((made, *sentences(3)))).batch(torch.tensor([0, 1]))
    model = task.model().eval()
    with torch.no_grad():
        states = model.encoder(batch.inputs, batch.real)[0]
        features = task.features(model, batch)[0]
    # [CLS] the a b c stops d . [SEP]
    expected = torch.cat([states[0], states[2] + states[3] + states[4], states[6]])
    torch.testing.assert_close(expected, features)
    evened = task_of(tmp_path, blind=False, markers=False, normalise=True)
    with torch.no_grad():
        features = evened.features(evened.model().eval(), batch)[0]
    each = features.view(3, WIDTH)
    torch.testing.assert_close(each.mean(1), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(each.var(1, correction=0), torch.ones(3), rtol=1e-3, atol=1e-3)


def test_a_projection_feeds_the_classifier(tmp_path: Path) -> None:
    task = task_of(tmp_path, projection=8)
    batch = next(iter(task.batches(task.examples(texts()), 4, None)))
    assert (4, 8) == task.features(task.model(), batch).shape
    assert (3, 8) == Bench.of(task).layout.shapes["classifier.weight"]


@pytest.mark.parametrize("freeze", [0, 1, 2])
def test_a_cached_trunk_gives_the_scores_of_the_plain_encoder(freeze: int, tmp_path: Path) -> None:
    plain, frozen = task_of(tmp_path), task_of(tmp_path, freeze=freeze)
    torch.manual_seed(0)
    whole = plain.model().eval()
    torch.manual_seed(0)
    rest = frozen.model().eval()
    with torch.no_grad():
        for one, other in zip(
            plain.batches(plain.examples(texts()), 5, None),
            frozen.batches(frozen.examples(texts()), 5, None),
            strict=True,
        ):
            expected = plain.scores(whole, plain.features(whole, one))
            torch.testing.assert_close(expected, frozen.scores(rest, frozen.features(rest, other)), rtol=0, atol=1e-5)


def test_what_is_frozen_is_no_weight(tmp_path: Path) -> None:
    def trained(**settings: Any) -> set[str]:
        names = Bench.of(task_of(tmp_path, **settings)).layout.shapes
        return {".".join(name.split(".")[1:3]) for name in names if name.startswith("encoder.")}

    embeddings = {f"embeddings.{part}" for part in ("tokens", "positions", "types", "norm")}
    assert embeddings | {"layers.0", "layers.1"} == trained()
    assert embeddings | {"layers.0"} == trained(layers=1)
    assert {"layers.0", "layers.1"} == trained(freeze=0)
    assert {"layers.1"} == trained(freeze=1)
    assert set() == trained(freeze=2)
    assert set() == trained(layers=1, freeze=1)


def test_padding_and_company_change_no_score(tmp_path: Path) -> None:
    task = task_of(tmp_path, freeze=1)
    model, examples = task.model().eval(), task.examples(texts())
    with torch.no_grad():
        together = task.scores(model, task.features(model, examples.batch(torch.arange(12))))
        alone = [task.scores(model, task.features(model, examples.batch(torch.tensor([row])))) for row in range(12)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)


def test_counts_add_over_any_cut_and_an_empty_split_counts_nothing(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    model = task.model().eval()
    whole = task.count(model, task.examples(texts()))
    parts = [task.count(model, task.examples(Texts(texts().documents[cut]))) for cut in (slice(0, 5), slice(5, 12))]
    for name, tensor in whole.items():
        torch.testing.assert_close(tensor, parts[0][name] + parts[1][name], rtol=1e-6, atol=1e-6)
    empty = task.count(model, task.examples(Texts(())))
    assert 0 == sum(float(tensor.sum()) for tensor in empty.values())
    assert {} == task.metrics(empty)


def test_batches_are_of_similar_length_and_complete(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    examples = task.examples(texts(40))
    shuffled = list(task.batches(examples, 8, torch.Generator().manual_seed(1)))
    assert [8] * 5 == [len(batch) for batch in shuffled]
    real = [int(batch.real.sum()) for batch in shuffled]
    assert int(examples.tokens.lengths.sum()) == sum(real)
    rows = torch.cat([task.rows(batch) for batch in shuffled])
    assert list(range(40)) == sorted(rows.tolist())
    assert torch.equal(examples.labels[rows], torch.cat([task.targets(batch) for batch in shuffled]))
    assert 1 == len(list(task.batches(examples, 0, None)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": 3}, r"layers = 3, it has 2; lower it"),
        ({"layers": 1, "freeze": 2}, r"freeze = 2 is above the number of layers that are used, 1; lower it"),
        ({"longest": 131}, r"longest = 131, it has positions for 130; lower it"),
        ({"negative": "nothing"}, r"negative = 'nothing' is not among the labels \['none', 'causes', 'stops'\]"),
    ],
)
def test_settings_that_do_not_fit_the_encoder_are_refused(settings: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        task_of(tmp_path, **settings)


def test_pairs_of_one_label_are_refused(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    with pytest.raises(ValueError, match="has 1; mark how its entities are related, or choose another task"):
        replace(task, labels=("none",))


# whole runs


def study(folder: Path, **tables: Any) -> Study:
    tiny_encoder(folder / "encoder")
    write_pairs(folder / "train.jsonl", sentences(60))
    write_pairs(folder / "test.jsonl", sentences(30, seed=1))
    base = {
        "name": "pairs",
        "rounds": 2,
        "corpus": {"format": "jsonl", "train": "train.jsonl", "test": "test.jsonl", "labels": list(LABELS)},
        "task": {"name": "relation", "encoder": "encoder", "freeze": 1},
        "partition": {"name": "iid", "sites": 2},
        "method": {"name": "fedavg", "optimizer": "adam", "lr": 0.01, "batch": 8},
    }
    for key, value in tables.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) and "name" not in value else value  # type: ignore[dict-item]
    return cells(base, folder=folder)[0].study


ADAM = {"optimizer": "adam", "lr": 0.003}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": ADAM,
    "fedprox": {**ADAM, "mu": 0.01},
    "fedatt": ADAM,
    "scaffold": {"lr": 0.05},
    "moon": ADAM,
    "fedrs": ADAM,
    "fedlc": ADAM,
    "fedcmc": ADAM,
    "feded": {**ADAM, "passes": 6},
    "local": ADAM,
    "centralised": ADAM,
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_it(method: str, tmp_path: Path) -> None:
    settings = {"name": method, "batch": 4, "epochs": 6, **METHODS[method]}
    public = {"public": {"corpus": {"format": "jsonl", "train": "train.jsonl"}}} if method == "feded" else {}
    made = study(tmp_path, method=settings, rounds=3, evaluation={"splits": ["test", "train"]}, **public)
    result = run(made, tmp_path / "run")
    assert result.metrics["train_accuracy"] > 0.6  # 0.4 by always saying the same
    assert "micro_f1_without_negative" == next(iter(result.metrics))
    assert {"f1[none]", "f1[causes]", "f1[stops]"} < result.metrics.keys()


def test_a_site_answers_the_same_whoever_came_before_it_and_whatever_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pool of workers relies on: dropout included, nothing depends on the process."""

    def answer(*order: str) -> bytes:
        built = build(study(tmp_path, task={"dropout": 0.1}), tmp_path / "x")
        exchange = Exchange("fit", 1, 1, 0, 7)
        for name in order:
            reply = built.host.answer(name, exchange, Global(built.weights))
        assert isinstance(reply, Message)
        return reply.encode()

    alone = answer("site-1")
    assert alone == answer("site-0", "site-1")  # finds every state on disk
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "another"))
    assert alone == answer("site-0", "site-1")
    assert alone != answer("site-0")


def test_everything_trains_if_nothing_is_frozen(tmp_path: Path) -> None:
    made = study(tmp_path, task={"freeze": "nothing"}, rounds=1)
    before = build(made, tmp_path / "x").weights
    run(made, tmp_path / "run")
    from safetensors.torch import load_file  # noqa: PLC0415 -- only here

    after = Weights(load_file(tmp_path / "run" / "model" / "weights.safetensors"))
    unmoved = {name for name in before if torch.equal(before[name], after[name])}
    assert {"encoder.layers.0.key.bias", "encoder.layers.1.key.bias"} >= unmoved  # softmax does not see these
    assert list(before) != []


def test_windows_are_counted_with_the_run(tmp_path: Path) -> None:
    run(study(tmp_path, task={"longest": 14}, rounds=1), tmp_path / "run")
    told = json.loads((tmp_path / "run" / "data.json").read_text())["problems"]
    (line,) = [line for line in told if "window" in line]
    assert line.startswith("longer than 14 tokens, a window around the pair: ")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"task": {"encoder": "nowhere"}}, "there is no such folder"),
        ({"task": {"freeze": 3}}, "freeze = 3 is above the number of layers that are used, 2"),
        ({"task": {"freeze": "some"}}, "task.freeze"),
        ({"task": {"negative": "no"}}, "negative = 'no' is not among the labels"),
        ({"corpus": {"name": "clinic", "hospitals": 2, "documents": 3}}, "the task 'relation' takes pairs"),
        ({"corpus": {"name": "clinic", "kind": "distant", "hospitals": 2}}, "the task 'relation' takes pairs"),
    ],
)
def test_a_study_that_cannot_work_says_why_before_it_starts(tables: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=said):
        run(study(tmp_path, **tables), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_label_outside_the_set_is_refused_with_its_document(tmp_path: Path) -> None:
    odd = pair("note-3", "a stops b", Entity("", "gene", 0, 1), Entity("", "gene", 8, 9), "heals")
    with pytest.raises(
        ValueError, match=r"document note-3: \(a value of 5 characters\), wanted: one of \['none', 'causes', 'stops'\]"
    ):
        task_of(tmp_path).examples(Texts((odd,)))


@needs_data
def test_minilm_learns_from_a_few_rows_of_gad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_DATA", str(DATA))
    corpus: Any = opened(GAD())
    some = Texts(corpus.pool()[0].documents[:24])
    monkeypatch.setattr(Sites, "pool", lambda _: (some,))
    task = Relations(freeze=4, dropout=0.0).bind(corpus)
    assert ("0", ("0", "1")) == (task.negative, task.labels)
    examples = task.examples(some)
    bench = Bench.of(task)
    assert {"encoder.layers.4", "encoder.layers.5"} == {
        name[:16] for name in bench.layout.shapes if name.startswith("encoder")
    }
    optimizer = torch.optim.Adam(bench.model.parameters(), lr=5e-4)
    before = task.metrics(task.count(bench.model, examples))
    for _ in range(8):
        for batch in task.batches(examples, 8, torch.Generator().manual_seed(0)):
            optimizer.zero_grad()
            task.loss(bench.model, batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    after = task.metrics(task.count(bench.model, examples))
    assert after["positive_f1"] > max(before["positive_f1"], 0.9)


@pytest.mark.parametrize("settings", [{}, {"freeze": 1}, {"freeze": 2}, {"projection": 6}, {"last": 2}], ids="".join)
@torch.no_grad()
def test_pairs_of_all_lengths_are_answered_without_padding_as_they_are_with_it(settings: Any, tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path)
    task = Relations(encoder=str(encoder), longest=40, remember=False, **settings).on(("a", "b"), "")
    torch.manual_seed(3)
    model = task.model().eval()
    lines = ["the gene causes a disease and not b .", "gene b", "a gene and not a disease"]
    notes = [Prediction(line, entities=(_word(line, "gene"), _word(line, line.split()[-1]))) for line in lines]
    pairs = [pair for number, note in enumerate(notes) for pair in task.candidates.within(number, note)]
    examples, _ = task.unlabelled([pair.document for pair in pairs])
    padded = task.scored(model, examples.batch(torch.arange(len(pairs)))).softmax(1).max(1).values
    found = [one.confidence for note in task.predict(model, notes) for one in note.relations]
    assert 6 == len(pairs)
    assert pytest.approx(padded.tolist(), abs=1e-5) == found


def _word(line: str, word: str) -> Entity:
    return Entity(word, "gene", line.index(word), line.index(word) + len(word))


@pytest.mark.parametrize("settings", [{}, {"markers": False, "blind": False, "freeze": 2}], ids=["marked", "shared"])
def test_what_reads_the_same_is_read_once_and_answered_as_if_it_were_alone(settings: Any, tmp_path: Path) -> None:
    """A line that stands in several notes, the pairs of a sentence without markers: the same relations and odds."""
    encoder = tiny_encoder(tmp_path)
    task = Relations(encoder=str(encoder), longest=40, remember=False, **settings).on(("a", "b"), "")
    torch.manual_seed(3)
    model = task.model().eval()
    text = "the gene causes a disease and not b ."
    spans = (("gene", (4, 8)), ("disease", (18, 25)), ("gene", (34, 35)))
    note = Prediction(text, entities=tuple(Entity(f"T{n}", kind, *at) for n, (kind, at) in enumerate(spans, 1)))
    other = Prediction(f"{text}\nb causes a disease .\n{text}", entities=note.entities)
    rows: list[int] = []
    scores = task.scores

    def counted(_: RelationTask, network: Any, features: torch.Tensor) -> torch.Tensor:
        rows.append(len(features))
        return scores(network, features)

    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        alone = [task.predict(model, [one])[0] for one in (note, other)]
        patch.setattr(RelationTask, "scores", counted)
        together = task.predict(model, [note, other, note])
    assert 6 == sum(rows)
    for expected, actual in zip([*alone, alone[0]], together, strict=True):
        assert [(one.type, one.head, one.tail) for one in expected.relations] == [
            (one.type, one.head, one.tail) for one in actual.relations
        ]
        confidence = [one.confidence for one in expected.relations]
        assert pytest.approx(confidence, abs=1e-6) == [one.confidence for one in actual.relations]
    assert together[0].relations


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("NA", "effect"), "NA"),
        (("causes", "No Relation"), "No Relation"),
        (("False", "True"), "False"),
        (("无关系", "治疗"), "无关系"),
        (("causes", "stops"), ""),
        (("NA", "none", "causes"), ""),
        (("positive", "negative"), "negative"),
        (("positive", "negative", "neutral"), ""),
        (("true", "false", "causes"), ""),
    ],
)
def test_a_label_that_is_called_so_stands_for_no_relation(labels: tuple[str, ...], expected: str) -> None:
    assert expected == called_unrelated(labels)


def test_a_pair_that_is_nearly_related_makes_its_text_unsure() -> None:
    near, sure, bare = (Prediction(f"{word} b .", entities=(_word("a b", "a"), _word("a b", "b"))) for word in "xyz")
    odds = torch.tensor([[0.52, 0.48], [0.99, 0.01], [0.1, 0.9], [0.9, 0.1]])
    notes = [near, sure, replace(bare, entities=())]
    predictions = related(Candidates(), notes, ("none", "causes"), "none", lambda pairs: (pairs, odds.log()))
    assert [0, 1, 0] == [len(note.relations) for note in predictions]
    assert pytest.approx([0.04, 0.8, 1.0], abs=1e-5) == [note.margin for note in predictions]
    least_sure = LeastSure(2)
    for note in reversed(predictions):
        least_sure.take(Placed(Document("", note.text), Path("notes"), 1), note)
    assert predictions[:2] == [note for _, note in least_sure.texts()]
