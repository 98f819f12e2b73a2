"""Generated hospitals: the same everywhere, exact in their spans, as different and as noisy as asked."""

import csv
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from wardround.clinic import Clinic, Kind
from wardround.clinic.grammar import CONFUSED
from wardround.clinic.hospital import RELATIONS
from wardround.clinic.notes import candidates
from wardround.clinic.words import DEPARTMENTS, Language, table, words
from wardround.clinic.write import FORMATS, write
from wardround.federation.sites import federate, opened
from wardround.text.document import Document, Entity, Relation
from wardround.text.facts import UNRELATED

KINDS: tuple[tuple[Kind, Language], ...] = (
    ("notes", "en"),
    ("notes", "zh"),
    ("dialogues", "zh"),
    ("distant", "en"),
    ("distant", "zh"),
)
each_kind = pytest.mark.parametrize(("kind", "language"), KINDS)
both_languages = pytest.mark.parametrize("language", ["en", "zh"])


# The same everywhere


@pytest.mark.parametrize(
    ("kind", "language", "expected"),
    [
        ("notes", "en", "6baef5b67569eafb"),
        ("notes", "zh", "ef9cd061a100e89b"),
        ("dialogues", "zh", "85be71aea720a5ce"),
        ("distant", "en", "4a8a2c6ded5bdc63"),
        ("distant", "zh", "60f5d61cf6f1bf1e"),
    ],
)
def test_a_seed_gives_these_very_documents_on_every_platform(kind: Kind, language: Language, expected: str) -> None:
    clinic = Clinic(kind=kind, language=language, documents=30, seed=7)
    whole = hashlib.sha256()
    for name in clinic.names():
        for document in clinic.stream(name, "train"):
            plain = document.plain()
            assert "" == plain.pop("patient")  # which none of them has
            whole.update(json.dumps(plain, ensure_ascii=False).encode())
    assert expected == whole.hexdigest()[:16]


@each_kind
def test_what_was_streamed_before_makes_no_difference(kind: Kind, language: Language) -> None:
    clinic = Clinic(kind=kind, language=language, documents=20)
    expected = {name: list(clinic.stream(name, "train")) for name in clinic.names()}
    streams = {name: clinic.stream(name, "train") for name in reversed(clinic.names())}
    actual: dict[str, list[Document]] = {name: [] for name in clinic.names()}
    for _ in range(20):
        for name, stream in streams.items():
            actual[name].append(next(stream))
    assert expected == actual


@each_kind
def test_neither_more_documents_nor_more_hospitals_change_those_there_are(kind: Kind, language: Language) -> None:
    small = Clinic(kind=kind, language=language, hospitals=3, documents=15)
    large = Clinic(kind=kind, language=language, hospitals=7, documents=40)
    expected = list(small.stream("hospital-2", "train"))
    assert expected == list(islice(large.stream("hospital-2", "train"), 15))


@each_kind
def test_hospitals_splits_and_seeds_have_documents_of_their_own(kind: Kind, language: Language) -> None:
    clinic = Clinic(kind=kind, language=language, documents=40, test_documents=40)
    other = Clinic(kind=kind, language=language, documents=40, seed=1)
    streams = [
        clinic.stream("hospital-0", "train"),
        clinic.stream("hospital-0", "test"),
        clinic.stream("hospital-1", "train"),
        other.stream("hospital-0", "train"),
    ]
    texts = [tuple(document.text for document in stream) for stream in streams]
    assert len(set(texts)) == 4


def test_a_billion_documents_can_be_asked_for() -> None:
    clinic = Clinic(documents=10**9)
    assert len(list(islice(clinic.stream("hospital-4", "train"), 3))) == 3


# Spans and relations


def known_surfaces(language: Language) -> set[str]:
    forms = {form for concept in words(language).concepts.values() for form in (*concept.names, *concept.short)}
    if language == "zh":
        sections = table("dialogues-zh")
        forms |= {line for title, lines in sections.items() if title.startswith("implicit") for line in lines}
    space = " " if language == "en" else ""
    modified = {modifier + space + form for modifier in table(f"notes-{language}")["modifier"] for form in forms}
    return {form.lower() for form in forms | modified}


def without_slips(text: str, language: Language) -> Any:
    """What a slip of the pen leaves: a word's first and last letter, or the characters that are not confused."""
    if language == "en":
        return tuple(word[0] + word[-1] for word in re.findall(r"[a-z0-9]+", text))
    return "".join(CONFUSED.get(letter, letter) for letter in text)


LANGUAGES: tuple[Language, ...] = ("en", "zh")
SURFACES = {language: known_surfaces(language) for language in LANGUAGES}
BLURRED = {language: {without_slips(surface, language) for surface in SURFACES[language]} for language in LANGUAGES}


@settings(max_examples=40, deadline=None)
@given(
    kind_and_language=st.sampled_from(KINDS),
    heterogeneity=st.floats(0, 1),
    noise=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 2**40),
    hospital=st.integers(0, 11),
)
@example(kind_and_language=("notes", "en"), heterogeneity=5e-324, noise=0.0, seed=0, hospital=0)
def test_every_span_is_a_known_name_and_every_relation_joins_two_of_them(
    kind_and_language: tuple[Kind, Language], heterogeneity: float, noise: float, seed: int, hospital: int
) -> None:
    kind, language = kind_and_language
    clinic = Clinic(
        hospitals=12,
        documents=12,
        kind=kind,
        language=language,
        heterogeneity=heterogeneity,
        noise=noise,
        seed=seed,
    )
    name = clinic.names()[hospital]
    for document in (*clinic.stream(name, "train"), *clinic.gold(name, "train")):
        entities = sorted(document.entities, key=lambda entity: entity.start)
        for entity in entities:
            assert 0 <= entity.start < entity.end <= len(document.text)
            surface = re.sub(r"\d(?=趟|天没)", "{n}", document.text[entity.start : entity.end].lower())
            if noise:
                assert without_slips(surface, language) in BLURRED[language]
            else:
                assert surface in SURFACES[language]
        assert all(first.end <= second.start for first, second in pairwise(entities))
        ids = [entity.id for entity in entities]
        assert len(set(ids)) == len(ids)
        assert all(relation.head in ids and relation.tail in ids for relation in document.relations)


@both_languages
def test_all_relations_and_none_occur_between_the_right_types(language: Language) -> None:
    clinic = Clinic(language=language, documents=80)
    types: dict[str, set[tuple[str, str]]] = {}
    for name in clinic.names():
        for document in clinic.stream(name, "train"):
            kinds = {entity.id: entity.type for entity in document.entities}
            for pair in candidates(document):
                types.setdefault(pair.type, set()).add((kinds[pair.head], kinds[pair.tail]))
    treatment, test, problem = ("treatment", "problem"), ("test", "problem"), ("problem", "problem")
    assert types == {
        **{relation: {treatment} for relation in ("TrIP", "TrWP", "TrCP", "TrAP", "TrNAP")},
        **{relation: {test} for relation in ("TeRP", "TeCP")},
        "PIP": {problem},
        "none": {treatment, test, problem},
    }
    assert set(types) == set(RELATIONS)


@both_languages
def test_candidates_hold_every_relation_once_and_stay_within_a_line(language: Language) -> None:
    clinic = Clinic(language=language, documents=60)
    for document in clinic.stream("hospital-1", "train"):
        pairs = list(candidates(document))
        related = [pair for pair in pairs if pair.type != "none"]
        assert Counter(document.relations) == Counter(related)
        places = {entity.id: document.text[: entity.start].count("\n") for entity in document.entities}
        assert all(places[pair.head] == places[pair.tail] for pair in pairs)


# Labels, habits and mistakes


def skew(clinic: Clinic) -> float:
    """How far, on average, a hospital's classes are from those of all (total variation)."""
    counts = [Counter(d.labels[0] for d in clinic.gold(name, "train")) for name in clinic.names()]
    everywhere: Counter[str] = sum(counts, Counter())
    return sum(
        abs(count[label] / count.total() - everywhere[label] / everywhere.total()) / 2
        for count in counts
        for label in everywhere
    ) / len(counts)


@pytest.mark.parametrize(("kind", "language", "documents"), [("notes", "en", 80), ("dialogues", "zh", 500)])
def test_classes_are_more_skewed_the_more_the_hospitals_differ(kind: Kind, language: Language, documents: int) -> None:
    alike, between, different = (
        skew(Clinic(kind=kind, language=language, hospitals=8, documents=documents, heterogeneity=h))
        for h in (0, 0.5, 1)
    )
    assert alike < 0.15
    assert alike < between < different


@both_languages
def test_without_noise_annotators_give_every_label_and_relation_as_it_is(language: Language) -> None:
    clinic = Clinic(language=language, documents=60, noise=0, heterogeneity=1)
    for seen, true in zip(clinic.stream("hospital-3", "train"), clinic.gold("hospital-3", "train"), strict=True):
        assert (true.text, true.labels, set(true.relations)) == (seen.text, seen.labels, set(seen.relations))


@both_languages
def test_hospitals_that_are_alike_and_err_nowhere_give_the_gold(language: Language) -> None:
    clinic = Clinic(language=language, documents=60, noise=0, heterogeneity=0)
    for seen, true in zip(clinic.stream("hospital-3", "train"), clinic.gold("hospital-3", "train"), strict=True):
        assert true.entities == seen.entities


@pytest.mark.parametrize(("kind", "language"), [("notes", "en"), ("dialogues", "zh")])
def test_annotators_get_the_asked_for_share_of_labels_wrong(kind: Kind, language: Language) -> None:
    clinic = Clinic(kind=kind, language=language, documents=900, noise=0.2)
    pairs = zip(clinic.stream("hospital-0", "train"), clinic.gold("hospital-0", "train"), strict=True)
    wrong = sum(seen.labels != true.labels for seen, true in pairs)
    assert wrong / 900 == pytest.approx(0.2, abs=0.05)


def test_conventions_differ_between_hospitals_and_are_no_mistakes() -> None:
    clinic = Clinic(hospitals=12, documents=40, noise=0, heterogeneity=1)
    longer, fewer = [], []
    for name in clinic.names():
        pairs = list(zip(clinic.stream(name, "train"), clinic.gold(name, "train"), strict=True))
        marked = [{(entity.id, entity.start) for entity in true.entities} for _, true in pairs]
        moved = [
            (entity.id, entity.start) not in expected
            for (seen, _), expected in zip(pairs, marked, strict=True)
            for entity in seen.entities
        ]
        longer.append(sum(moved))
        fewer.append(sum(len(true.entities) - len(seen.entities) for seen, true in pairs))
    assert max(longer) > 2 * min(longer)
    assert max(fewer) > 2 * min(fewer)


def test_dialogues_are_a_quarter_symptoms_and_keep_their_sentences_together() -> None:
    clinic = Clinic(kind="dialogues", language="zh", documents=400)
    seen = [document for name in clinic.names() for document in clinic.stream(name, "train")]
    true = [document for name in clinic.names() for document in clinic.gold(name, "train")]
    positive = sum(document.labels == ("1",) for document in seen) / len(seen)
    assert positive == pytest.approx(0.25, abs=0.07)
    assert all((document.labels == ("1",)) == bool(document.entities) for document in true)
    runs = [source for source, after in pairwise([*(d.source for d in seen), ""]) if source != after]
    assert len(runs) == len(set(runs))
    assert 6 <= len(seen) / len(runs) <= 18


# Distant supervision


@pytest.mark.parametrize("expression", [0.0, 0.3, 0.8, 1.0])
def test_the_asked_for_share_of_sentences_expresses_its_fact(expression: float) -> None:
    clinic = Clinic(documents=1500, expression=expression)
    stated = [s.expressed for s in clinic.stream_distant("hospital-1", "train") if s.fact.relation != UNRELATED]
    assert sum(stated) / len(stated) == pytest.approx(expression, abs=0.05)


@pytest.mark.parametrize("bag_size", [1.0, 4.0])
def test_bags_have_the_asked_for_size(bag_size: float) -> None:
    clinic = Clinic(documents=800, bag_size=bag_size, language="zh")
    bags = Counter(s.fact for s in clinic.stream_distant("hospital-1", "train") if s.fact.relation != UNRELATED)
    assert bags.total() / len(bags) == pytest.approx(bag_size, rel=0.15)


@both_languages
def test_a_reader_sees_what_the_knowledge_base_claims_and_gold_what_the_sentence_says(language: Language) -> None:
    clinic = Clinic(kind="distant", documents=200, language=language)
    facts = set(clinic.facts())
    sentences = list(clinic.stream_distant("hospital-0", "train"))
    gold = list(clinic.gold("hospital-0", "train"))
    assert [sentence.document for sentence in sentences] == list(clinic.stream("hospital-0", "train"))
    for sentence, true in zip(sentences, gold, strict=True):
        fact, document = sentence.fact, sentence.document
        claims = [(relation.head, relation.type, relation.tail) for relation in document.relations]
        assert {fact.head, fact.tail} == {entity.id for entity in document.entities}
        assert claims == ([(fact.head, fact.relation, fact.tail)] if fact in facts else [])
        assert true.relations == (document.relations if sentence.expressed else ())
    assert {sentence.fact.relation for sentence in sentences} == {fact.relation for fact in facts} | {UNRELATED}


def test_hospitals_share_facts_and_splits_do_not() -> None:
    clinic = Clinic(documents=400, test_documents=400)
    train, elsewhere, test = (
        {(sentence.fact.head, sentence.fact.tail) for sentence in clinic.stream_distant(name, split)}
        for name, split in (("hospital-0", "train"), ("hospital-1", "train"), ("hospital-0", "test"))
    )
    assert train & elsewhere
    assert not train & test


def test_the_knowledge_base_is_the_same_in_both_languages() -> None:
    assert list(Clinic(language="en").facts()) == list(Clinic(language="zh", seed=3).facts())
    assert set(words("en").concepts) == set(words("zh").concepts)


# Hard enough that methods differ


Table = tuple[torch.Tensor, torch.Tensor]


def bags(documents: Sequence[Document]) -> Table:
    """Which of 2,048 hashed words, or pairs of characters, each text has; and its class."""
    rows, columns = [], []
    for row, document in enumerate(documents):
        text = document.text.lower()
        pairs = [text[at : at + 2] for at in range(len(text))]
        tokens = re.findall(r"[a-z]+", text) if document.language == "en" else pairs
        rows += [row] * len(tokens)
        columns += [zlib.crc32(token.encode()) % 2048 for token in tokens]
    found = torch.zeros(len(documents), 2048)
    found[rows, columns] = 1
    return found, torch.tensor([DEPARTMENTS.index(document.labels[0]) for document in documents])


def joined(tables: Sequence[Table]) -> Table:
    return torch.cat([inputs for inputs, _ in tables]), torch.cat([labels for _, labels in tables])


def accuracy(train: Table, test: Table) -> float:
    """Of ridge regression on the classes, in its dual form."""
    inputs, labels = train
    targets = functional.one_hot(labels, len(DEPARTMENTS)).float()
    dual = torch.linalg.solve(inputs @ inputs.T + 10 * torch.eye(len(inputs)), targets)  # (examples, classes)
    scores = test[0] @ inputs.T @ dual
    return float((scores.argmax(1) == test[1]).float().mean())


@cache
def pooled_and_local(clinic: Clinic) -> tuple[float, float]:
    """Accuracy over all hospitals' tests: trained on all hospitals, and on one alone (their mean)."""
    sites = [tuple(bags(texts.documents) for texts in clinic.open(name)) for name in clinic.names()]
    test = joined([test for _, test in sites])
    local = [accuracy(train, test) for train, _ in sites]
    return accuracy(joined([train for train, _ in sites]), test), sum(local) / len(local)


@both_languages
def test_together_hospitals_do_much_better_than_alone_and_still_not_perfectly(language: Language) -> None:
    pooled, local = pooled_and_local(Clinic(language=language))
    assert 0.74 < pooled < 0.93
    assert pooled - local > 0.1


def test_the_less_hospitals_differ_the_better_each_does_alone_and_without_noise_all_do() -> None:
    usual = pooled_and_local(Clinic(language="zh"))
    alike = pooled_and_local(Clinic(language="zh", heterogeneity=0))
    exact = pooled_and_local(Clinic(language="zh", noise=0))
    assert alike[0] - alike[1] < usual[0] - usual[1] - 0.04
    assert exact[0] > usual[0] + 0.04


def test_a_clinic_is_a_federation_as_it_stands() -> None:
    clinic = Clinic(hospitals=11, documents=5, test_documents=3)
    sites = federate(opened(clinic), None, seed=0)
    assert sites.names == tuple(f"hospital-{index:02}" for index in range(11))
    train, test = sites.raw("hospital-07")
    assert (5, 3) == (len(train), len(test))
    assert {*train.classes, *test.classes} <= set(clinic.labels)


# Files


def written(tmp_path: Path, kind: Kind, language: Language) -> tuple[Clinic, Path]:
    clinic = Clinic(
        kind=kind, language=language, hospitals=2, documents=12, valid_documents=2, test_documents=3, noise=0.3
    )
    told: list[tuple[int, int]] = []
    summary = write(clinic, tmp_path / "out", FORMATS[kind], lambda done, total: told.append((done, total)))
    assert told == [(done, 34) for done in range(1, 35)]
    assert summary.documents == {name: {"train": 12, "valid": 2, "test": 3} for name in clinic.names()}
    assert not list(tmp_path.rglob("*.part"))
    return clinic, tmp_path / "out"


def document_of(row: dict[str, Any]) -> Document:
    entities = tuple(Entity(**entity) for entity in row.pop("entities"))
    relations = tuple(Relation(**relation) for relation in row.pop("relations"))
    return Document(**row | {"labels": tuple(row["labels"]), "entities": entities, "relations": relations})


@each_kind
def test_written_documents_come_back_from_json_lines_with_their_gold_beside(
    tmp_path: Path, kind: Kind, language: Language
) -> None:
    clinic, folder = written(tmp_path, kind, language)
    for place, stream in ((folder, clinic.stream), (folder / "gold", clinic.gold)):
        for name in clinic.names():
            lines = (place / name / "train" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
            assert list(stream(name, "train")) == [document_of(json.loads(line)) for line in lines]
    assert asdict(clinic) == json.loads((folder / "clinic.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("kind", "language"), [("notes", "en"), ("dialogues", "zh")])
def test_written_texts_and_labels_come_back_from_csv(tmp_path: Path, kind: Kind, language: Language) -> None:
    clinic, folder = written(tmp_path, kind, language)
    with (folder / "hospital-1" / "train" / "documents.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["text", "label"]
    assert rows == [[document.text, document.labels[0]] for document in clinic.stream("hospital-1", "train")]


@each_kind
def test_written_spans_and_relations_come_back_from_brat(tmp_path: Path, kind: Kind, language: Language) -> None:
    clinic, folder = written(tmp_path, kind, language)
    for document in clinic.stream("hospital-0", "train"):
        path = folder / "hospital-0" / "train" / "brat" / f"{document.id}.txt"
        text = path.read_bytes().decode()
        entities, relations, references = {}, [], {}
        for line in path.with_suffix(".ann").read_text(encoding="utf-8").splitlines():
            name, what, *surface = line.split("\t")
            if name.startswith("T"):
                type_, start, end = what.split()
                entities[name] = (type_, int(start), int(end))
                assert surface == [text[int(start) : int(end)]]
            elif name.startswith("N"):
                references[what.split()[1]] = what.split(":")[1]
            else:
                type_, head, tail = re.fullmatch(r"(\S+) Arg1:(\S+) Arg2:(\S+)", what).groups()  # type: ignore[union-attr]
                relations.append((type_, references.get(head, head), references.get(tail, tail)))
        assert text == document.text
        assert {references.get(name, name): entity for name, entity in entities.items()} == {
            entity.id: (entity.type, entity.start, entity.end) for entity in document.entities
        }
        assert relations == [(relation.type, relation.head, relation.tail) for relation in document.relations]


CONCEPT = r'c="(.+?)" (\d+):(\d+) (\d+):(\d+)'


@both_languages
def test_written_concepts_and_relations_come_back_from_i2b2(tmp_path: Path, language: Language) -> None:
    clinic, folder = written(tmp_path, "notes", language)
    space = " " if language == "en" else ""
    found_relations = 0
    for document in clinic.stream("hospital-0", "train"):
        place = folder / "hospital-0" / "train" / "i2b2"
        lines = (place / "txt" / f"{document.id}.txt").read_text(encoding="utf-8").splitlines()
        assert [re.sub(r"\s", "", line) for line in document.text.split("\n")] == [
            line.replace(" ", "") for line in lines
        ]
        surfaces = {entity.id: document.text[entity.start : entity.end].lower() for entity in document.entities}

        def squeezed(text: str) -> str:
            return re.sub(r"\s", "", text)

        concepts = (place / "concept" / f"{document.id}.con").read_text(encoding="utf-8").splitlines()
        for entity, line in zip(document.entities, concepts, strict=True):
            surface, first, start, last, end, type_ = re.fullmatch(rf'{CONCEPT}\|\|t="(\w+)"', line).groups()  # type: ignore[union-attr]
            tokens = lines[int(first) - 1].split(" ")[int(start) : int(end) + 1]
            assert (entity.type, first) == (type_, last)
            assert " ".join(tokens).lower() == surface
            assert squeezed(surfaces[entity.id]) == squeezed(surface.replace(" ", space))

        relations = (place / "rel" / f"{document.id}.rel").read_text(encoding="utf-8").splitlines()
        for relation, line in zip(document.relations, relations, strict=True):
            match = re.fullmatch(rf'{CONCEPT}\|\|r="(\w+)"\|\|{CONCEPT}', line)
            assert match is not None
            assert relation.type == match[6]
            assert squeezed(surfaces[relation.head]) == squeezed(match[1])
            assert squeezed(surfaces[relation.tail]) == squeezed(match[7])
            found_relations += 1
    assert found_relations > 20


@pytest.mark.parametrize(("kind", "language"), [("notes", "en"), ("notes", "zh"), ("dialogues", "zh")])
def test_written_spans_come_back_from_conll_columns(tmp_path: Path, kind: Kind, language: Language) -> None:
    clinic, folder = written(tmp_path, kind, language)
    text = (folder / "hospital-0" / "train" / "documents.conll").read_text(encoding="utf-8")
    parts = text.split("-DOCSTART-\tO\n\n")[1:]
    for document, part in zip(clinic.stream("hospital-0", "train"), parts, strict=True):
        results: list[tuple[str, str]] = []
        for token, tag in (line.split("\t") for line in part.splitlines() if line):
            if tag.startswith("B-"):
                results.append((tag[2:], token))
            elif tag.startswith("I-"):
                assert results[-1][0] == tag[2:]
                results[-1] = (tag[2:], results[-1][1] + token)
        assert results == [(e.type, re.sub(r"\s", "", document.text[e.start : e.end])) for e in document.entities]


@both_languages
def test_written_mentions_and_facts_come_back_from_pubtator(tmp_path: Path, language: Language) -> None:
    clinic, folder = written(tmp_path, "distant", language)
    header, *rows = (folder / "facts.tsv").read_text(encoding="utf-8").splitlines()
    facts = {tuple(row.split("\t")[:3]) for row in rows}
    assert header.split("\t")[:3] == ["head", "relation", "tail"]
    assert {(fact.head, fact.relation, fact.tail) for fact in clinic.facts()} == facts
    blocks = (folder / "hospital-1" / "train" / "documents.pubtator").read_text(encoding="utf-8").strip().split("\n\n")
    for document, block in zip(clinic.stream("hospital-1", "train"), blocks, strict=True):
        title, abstract, *lines = block.split("\n")
        cells = [line.split("\t") for line in lines]
        assert re.fullmatch(r"\d+", document.id)
        assert [title, abstract] == [f"{document.id}|t|{document.text}", f"{document.id}|a|"]
        assert [row[1:] for row in cells if len(row) == 6] == [
            [str(e.start), str(e.end), document.text[e.start : e.end], e.type, e.id] for e in document.entities
        ]
        claimed = [(head, relation, tail) for _, relation, head, tail in (row for row in cells if len(row) == 4)]
        assert claimed == [(relation.head, relation.type, relation.tail) for relation in document.relations]
        assert set(claimed) <= facts


def test_a_file_that_cannot_be_completed_leaves_nothing_behind(tmp_path: Path) -> None:
    def full(done: int, total: int) -> None:
        raise OSError(f"disk full at {done} of {total}")

    with pytest.raises(OSError, match="disk full at 1"):
        write(Clinic(documents=3), tmp_path / "out", ["jsonl"], full)
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="name a new one"):
        write(Clinic(documents=3), tmp_path, ["jsonl"])
    assert [tmp_path / "mine.txt"] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "formats"), [("notes", ["pubtator"]), ("dialogues", ["i2b2"]), ("notes", [])])
def test_a_format_that_cannot_hold_the_documents_is_refused_with_those_that_can(
    tmp_path: Path, kind: Kind, formats: list[str]
) -> None:
    with pytest.raises(ValueError, match="choose from jsonl, csv, brat"):
        write(Clinic(kind=kind, language="zh"), tmp_path, formats)


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"hospitals = 0; at least 1; noise = 1.5; from 0 to 1; .*set language = 'zh'"):
        Clinic(hospitals=0, noise=1.5, kind="dialogues")


@pytest.mark.parametrize(("name", "split"), [("hospital-9", "train"), ("hospital-0", "dev")])
def test_an_unknown_hospital_or_split_is_refused_at_once_with_those_there_are(name: str, split: str) -> None:
    with pytest.raises(ValueError, match=r"hospital-0 to hospital-4|train, valid, test"):
        Clinic().stream(name, split)
