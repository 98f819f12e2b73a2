"""What is written comes back: every format with all that it can hold, and with a count of what it cannot."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from string import ascii_letters, digits
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bioc import biocjson, biocxml, pubtator
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wardround.formats.check import check
from wardround.formats.convert import convert
from wardround.formats.details import IDS, VOCABULARIES
from wardround.formats.doccano import NO_ENTITY, NO_RELATION
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.formats.register import FORMATS, TARGETS
from wardround.text.document import YES, Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import Problems

OPTIONS = Options(separator="|")
FILES = {"brat": "notes", "bioc": "a.xml", "bioc-json": "a.json", "conll": "a.conll", "label-studio": "a.json"}
WHOLE = ("bioc", "bioc-json", "doccano", "jsonl", "label-studio")
"""The formats that have a place for everything."""

# A byte order mark at the start of a text is taken for one, and half a character cannot be written.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"), min_size=1, max_size=60)
plain = st.text(st.sampled_from("aB é,.;\"'|<&中文😀\r\n\t "), min_size=1, max_size=60)
words = st.text(ascii_letters + digits + "_中", min_size=1, max_size=8)
names = words.filter(lambda name: name.casefold() not in (*IDS, *VOCABULARIES))
attributes = st.lists(st.builds(Attribute, names, words | st.just(YES)), max_size=3, unique=True).map(
    lambda said: tuple(sorted(said))
)
concepts = st.lists(words | words.map("UMLS:{}".format), max_size=2, unique=True).map(tuple)


@st.composite
def entities_of(draw: st.DrawFn, text: str) -> tuple[Entity, ...]:
    """Entities anywhere in a text, some with gaps, concepts and attributes."""
    made = []
    for number in range(1, draw(st.integers(0, 4)) + 1):
        edges = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=4)))
        parts = tuple(zip(edges[::2], edges[1::2], strict=False))
        made.append(
            Entity(
                f"T{number}",
                draw(words),
                parts[0][0],
                parts[-1][1],
                concepts=draw(concepts),
                attributes=draw(attributes),
                parts=parts if len(parts) > 1 else (),
            )
        )
    return tuple(made)


@st.composite
def documents(draw: st.DrawFn, text: st.SearchStrategy[str] = plain) -> Document:
    body = draw(text.filter(lambda text: bool(text.strip())))
    entities = draw(entities_of(body))
    ids = st.sampled_from([entity.id for entity in entities] or ["-"])
    links = st.builds(Relation, words, ids, ids, attributes=attributes)
    relations = draw(st.lists(links, max_size=3)) if entities else []
    return Document(
        draw(words),
        body,
        tuple(draw(st.lists(words, max_size=2, unique=True))),
        entities,
        tuple(relations),
        draw(st.just("") | words),
        draw(st.sampled_from(["", "en", "zh"])),
        draw(st.just("") | words),
    )


several = st.lists(documents(), min_size=1, max_size=4, unique_by=lambda document: document.id.casefold())


@contextmanager
def written(form: str, documents: list[Document]) -> Iterator[tuple[Path, Problems]]:
    """These documents in a file of this format, and what had no place in it."""
    with TemporaryDirectory() as folder:
        path, losses = Path(folder) / FILES.get(form, f"a.{form}"), Problems()
        write = TARGETS[form].write
        assert write is not None
        with write(path, losses, OPTIONS) as sink:
            for number, document in enumerate(documents, 1):
                sink(Placed(document, Path("from.jsonl"), number))
        yield path, losses


def read(form: str, path: Path) -> tuple[list[Document], Problems]:
    problems = Problems()
    return [placed.document for placed in FORMATS[form].read(path, problems, OPTIONS)], problems


def numbered(document: Document) -> Document:
    """The same with entities called 1, 2, …: their names are not what annotators said."""
    ids = {entity.id: str(number) for number, entity in enumerate(document.entities, 1)}
    return replace(
        document,
        entities=tuple(replace(entity, id=ids[entity.id]) for entity in document.entities),
        relations=tuple(replace(one, head=ids[one.head], tail=ids[one.tail]) for one in document.relations),
    )


@given(documents=several)
def test_formats_with_a_place_for_everything_give_it_back(documents: list[Document]) -> None:
    for form in WHOLE:
        with written(form, documents) as (path, losses):
            back, problems = read(form, path)
        assert (form, {}) == (form, losses.counts)
        assert [numbered(document) for document in documents] == [numbered(document) for document in back], form
        assert set(problems.counts) <= {NO_ENTITY, NO_RELATION}, form


@given(notes=st.lists(documents(texts), min_size=1, max_size=3))
def test_any_character_comes_back_from_json(notes: list[Document]) -> None:
    for form in ("bioc-json", "jsonl", "label-studio"):
        with written(form, notes) as (path, losses):
            back, _ = read(form, path)
        assert (notes, {}) == (back, losses.counts)


@pytest.mark.parametrize("form", WHOLE)
def test_of_twins_each_gets_its_own_details_back(form: str) -> None:
    entity, said = Entity("T1", "drug", 0, 1), (Attribute("negated"),)
    twins = (Relation("causes", "T1", "T1"), Relation("causes", "T1", "T1", attributes=said))
    document = Document("1", "a", entities=(entity,), relations=twins)
    with written(form, [document]) as (path, _):
        (back,), _ = read(form, path)
    assert [one.attributes for one in twins] == [one.attributes for one in back.relations]


@given(document=documents(texts))
def test_bioc_counts_the_characters_that_xml_cannot_hold(document: Document) -> None:
    with written("bioc", [document]) as (path, losses):
        (back,), _ = read("bioc", path)
    same = all(other in (one, "\ufffd") for one, other in zip(document.text, back.text, strict=True))
    assert same
    assert (document.text != back.text) == ("control character, written as U+FFFD" in losses.counts)
    assert document.entities == back.entities


@pytest.mark.parametrize(("text", "count"), [("\ufeffAspirin", 1), ("Asp\ufeffirin", 0)])
def test_a_text_that_begins_with_a_byte_order_mark_is_counted_by_brat(text: str, count: int) -> None:
    with written("brat", [Document("1", text)]) as (path, losses):
        (back,), _ = read("brat", path)
    assert count == losses.counts["byte order mark at the beginning of a text"]
    assert (back.text == text) == (count == 0)


@settings(max_examples=25)
@given(documents=several)
def test_brat_gives_back_texts_entities_and_relations_and_counts_the_rest(documents: list[Document]) -> None:
    with written("brat", documents) as (path, losses):
        back, problems = read("brat", path)
    kept = [
        replace(one, labels=(), source="", language="", patient="") for one in sorted(documents, key=lambda one: one.id)
    ]
    assert kept == sorted(back, key=lambda one: one.id)
    assert {} == problems.counts
    assert sum(len(one.labels) for one in documents) == losses.counts["labels"]
    assert sum(bool(one.language) for one in documents) == losses.counts["language"]


@given(documents=several)
def test_tables_give_back_texts_and_labels_and_count_the_rest(documents: list[Document]) -> None:
    for form in ("csv", "tsv"):
        labelled = [replace(one, labels=one.labels or ("x",)) for one in documents]
        with written(form, labelled) as (path, losses):
            back, problems = read(form, path)
        flat = [one.text if form == "csv" else one.text.translate(dict.fromkeys(b"\t\r\n", " ")) for one in documents]
        assert flat == [one.text for one in back]
        kept = [(one.id, one.labels, one.source, one.language) for one in labelled]
        assert kept == [(one.id, one.labels, one.source, one.language) for one in back]
        for name in ("entities", "relations"):
            assert sum(len(getattr(one, name)) for one in documents) == losses.counts[name]
        assert set(problems.counts) <= {"repeated text"}
        changed = sum(one != other.text for one, other in zip(flat, documents, strict=True))
        assert changed == losses.counts["line breaks and tabs, written as blanks"]


@given(documents=several)
def test_pubtator_gives_back_all_but_line_breaks_and_labels(documents: list[Document]) -> None:
    with written("pubtator", documents) as (path, losses):
        back, problems = read("pubtator", path)
        theirs = list(pubtator.iterparse_s(iter(path.read_text(encoding="utf-8").split("\n"))))
    for one, other in zip(documents, back, strict=True):
        assert one.text.translate(dict.fromkeys(b"\t\r\n", " ")) == other.text
        named = numbered(one), numbered(other)
        kept = [replace(entity, attributes=(), parts=()) for entity in named[0].entities]
        assert (one.id, kept) == (other.id, list(named[1].entities))
        moved = losses.counts["which mentions of two concepts are related"]
        links = [[replace(link, attributes=()) for link in both.relations] for both in named]
        assert links[0] == links[1] or (moved and [link.type for link in links[0]] == [link.type for link in links[1]])
    assert set(problems.counts) <= {"relation between concepts, taken to hold for each pair of their mentions"}
    entities = [entity for one in documents for entity in one.entities]
    assert sum(len(entity.attributes) for entity in entities) == losses.counts["attributes of entities"]
    linked = sum(len(link.attributes) for one in documents for link in one.relations)
    assert linked == losses.counts["attributes of relations"]
    assert sum(len(one.labels) for one in documents) == losses.counts["labels"]
    if any(mark in one.text for one in documents for mark in ("|t|", "|a|")):
        return  # the bioc package takes these for a title or an abstract wherever they stand
    spans = [[(ann.start, ann.end, ann.type) for ann in one.annotations] for one in theirs if one.annotations]
    assert [[(e.start, e.end, e.type) for e in one.entities] for one in documents if one.entities] == spans


@given(
    tokens=st.lists(st.from_regex(r"[A-Za-z]{1,5}|[0-9]{1,3}|[.,中]", fullmatch=True), min_size=1, max_size=12),
    data=st.data(),
)
def test_conll_gives_back_what_is_made_of_tokens(tokens: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(tokens)), max_size=6)))
    starts = [sum(len(token) + 1 for token in tokens[:at]) for at in range(len(tokens) + 1)]
    entities = tuple(
        Entity(f"T{number}", data.draw(words), starts[first], starts[last] - 1)
        for number, (first, last) in enumerate(zip(cuts[::2], cuts[1::2], strict=False), 1)
    )
    document = Document("17", " ".join(tokens), entities=entities)
    with written("conll", [document]) as (path, losses):
        (back,), problems = read("conll", path)
    assert (document.text, document.entities) == (back.text, back.entities)
    assert ({}, {}, "17") == (losses.counts, problems.counts, back.id)


@given(documents=several)
def test_conll_counts_what_it_loses_and_loses_it_once(documents: list[Document]) -> None:
    with written("conll", documents) as (path, losses):
        first, _ = read("conll", path)
        told = [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    bare = "".join(one.text for one in documents)
    assert "".join(bare.split()) == "".join("".join(word for word in told if word != "-DOCSTART-").split())
    left_out = sum(losses.counts[kind] for kind in ("entity without a token", "entity that overlaps a longer one"))
    assert sum(len(one.entities) for one in documents) == left_out + sum(len(one.entities) for one in first)
    with written("conll", first) as (path, again):
        second, _ = read("conll", path)
    assert [(one.text, one.entities) for one in first] == [(one.text, one.entities) for one in second]
    assert set(again.counts) <= {"source"}
    with_tokens = [one for one in documents if any(not char.isspace() for char in one.text)]
    assert [one.id for one in with_tokens] == [one.id for one in first]
    for kind, count in {
        "attributes of entities": sum(len(entity.attributes) for one in documents for entity in one.entities),
        "concept ids": sum(len(entity.concepts) for one in documents for entity in one.entities),
        "gaps of discontinuous entities, written from first to last character": sum(
            bool(entity.parts) for one in documents for entity in one.entities
        ),
    }.items():
        assert count == losses.counts[kind]


@given(notes=several)
def test_the_bioc_package_reads_what_we_write_and_we_what_it_writes(notes: list[Document]) -> None:
    theirs = {
        "bioc": (lambda path: biocxml.load(io.BytesIO(path.read_bytes())), biocxml.dumps),
        "bioc-json": (lambda path: biocjson.loads(path.read_text(encoding="utf-8")), biocjson.dumps),
    }
    for form, (load, dumps) in theirs.items():
        _the_package_agrees(form, notes, load, dumps)


def _the_package_agrees(form: str, notes: list[Document], load: Any, dumps: Any) -> None:
    with written(form, notes) as (path, _):
        collection = load(path)
        words = [
            [
                (ann.total_span.offset, ann.total_span.end, ann.infons["type"])
                for ann in document.passages[0].annotations
            ]
            for document in collection.documents
        ]
        path.write_text(dumps(collection), encoding="utf-8")
        back, _ = read(form, path)
    assert [[(e.start, e.end, e.type) for e in one.entities] for one in notes] == words
    assert [one.entities for one in notes] == [one.entities for one in back]


@settings(max_examples=15)
@given(documents=several)
def test_each_format_is_recognised(documents: list[Document]) -> None:
    assume(any(one.entities for one in documents))
    assume(any(len(line) > 1 for one in documents for line in one.text.split()))
    for form in TARGETS:
        with written(form, documents) as (path, _):
            assert [(path, form)] == [(file, found.name) for file, found in recognised(path)]


@settings(max_examples=15)
@given(documents=several, target=st.sampled_from(WHOLE), over=st.sampled_from(WHOLE))
def test_conversions_between_whole_formats_lose_nothing(documents: list[Document], target: str, over: str) -> None:
    documents = [replace(one, entities=one.entities or (Entity("T1", "x", 0, 1),)) for one in documents]
    with written(over, documents) as (path, _):
        out = path.with_name("out")
        done = convert(path, out, target, OPTIONS, form=over)
        again, _ = read(target, out)
        survey = check(out, OPTIONS, form=target)
    assert (True, {}) == (done.written, done.losses.counts)
    assert [numbered(one) for one in documents] == [numbered(one) for one in again]
    assert sum(len(one.entities) for one in documents) == survey.entities.total()
