"""BioC in XML: collections of documents, passages, annotations and relations, as PubMed Central and many tools give.

    <document><id>17</id><passage><offset>0</offset><text>Aspirin gave her a rash.</text>
      <annotation id="T1"><infon key="type">drug</infon><location offset="0" length="7"/><text>Aspirin</text>…
      <relation id="R1"><infon key="type">causes</infon><node refid="T1" role="head"/><node refid="T2" role="tail"/>…

Comeau et al., Database 2013. Passages stand in the text at their offsets, with a line feed between; offsets of
annotations count from the start of the document. A relation has two nodes, of which a role `tail` or `Arg2` names the
second; or it names two concepts in its infons, as in BC5CDR, BioRED and PubTator 3 (`Chemical` D003000, `entity1`
D003000, `role1` Chemical|MESH:D003000), and goes to their mentions that stand nearest to each other; others are left
out and counted. Infons of annotations and relations are attributes (one key may stand twice), `identifier` and those
called like a vocabulary (`MESH`) concept ids; several locations are the parts of one entity. The infons `labels` (a
JSON list), `source`, `patient` and `language` of a document are ours; its others, those of passages, and roles that say
more than which node is first, have no place, which is counted.

The `bioc` package writes. We read with the XML parser that it stands on, because its own reader keeps the whole
file in memory and knows no lines. Nothing outside the file is ever loaded.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bioc import BioCAnnotation, BioCCollection, BioCDocument, BioCLocation, BioCNode, BioCPassage, BioCRelation
from bioc.biocxml.encoder import BioCXMLDocumentWriter
from lxml import etree

from wardround.core.files import fresh
from wardround.formats.details import (
    OF_SEVERAL,
    VARIANT,
    attribute_values,
    attributes_of,
    details,
    joined_concepts,
    lost_confidence,
)
from wardround.formats.offsets import Annotation, Offsets, nearest_mentions
from wardround.formats.options import Options
from wardround.formats.writing import Sink, lost
from wardround.text.bounded import BoundedBytes
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import LONGEST_LINE, DataError, Problems, open_bytes
from wardround.text.shown import line_of, quoted

FIRST, SECOND = ("", "head", "arg1", "subject", "source"), ("tail", "arg2", "object", "target")
OURS = frozenset({"labels", "source", "patient", "language"})
MEANT = frozenset({"type", "relation"})
KEPT = "attribute:"
"""Stands before the name of an attribute that would else mean something to us."""
MOST = 32 * 2**20  # bytes of a document, of which a parser's memory is twenty times as much
LONGEST_TEXT = 10_000_000  # bytes of an XML element
NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_bioc(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of a collection."""
    with open_bytes(path) as raw:
        stream = BoundedBytes(raw, path, MOST)
        # No entities, no DTD, no network: what a file refers to stays where it is.
        elements = etree.iterparse(
            stream,
            tag="document",
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        before = 1
        try:
            for number, (_, element) in enumerate(elements, 1):
                at, stream.held = element.sourceline, 0
                line, before = line_of(at, "document", element.findtext("id") or "", number, before), at
                if any(True for _ in element.iterancestors("document")):
                    raise DataError(path, line, "a document within a document", "close each before the next")
                with problems.refusing():
                    yield Placed(_document(element, number, path, line, problems, options), path, line)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
            if elements.root is None or elements.root.tag != "collection":
                raise DataError(path, 1, "no BioC collection", "the outermost element must be <collection>")
        except etree.XMLSyntaxError as error:
            what = f"not XML: error {error.code} at column {error.position[1]}"
            raise DataError(path, error.lineno, what, "copy or export the file again") from None


def _document(element: Any, number: int, path: Path, line: int, problems: Problems, options: Options) -> Document:
    for reference in element.iter(etree.Entity):
        raise DataError(path, _line(reference, line), "a reference to an XML entity", "write out what it stands for")
    infons = _infons(element)
    for _ in infons.keys() - OURS:
        problems.note("infon of a document, ignored", path, line)
    for passage in (*element.iter("passage"), *element.iter("sentence")):
        for _ in _infons(passage):
            problems.note("infon of a passage, ignored", path, _line(passage, line))
        texts = passage.findall("text")
        if len(texts) > 1 or any(map(len, texts)) or passage.find(".//passage") is not None:
            what = "a passage with two texts, markup in its text, or a passage within it"
            raise DataError(path, _line(passage, line), what, "a passage has one plain text")
    text = _text(element, path, line)
    mentions: dict[str, Annotation] = {}
    for count, item in enumerate(element.iter("annotation"), 1):
        with problems.refusing():
            one = _mention(item, f"T{count}", path, _line(item, line))
            if one.id in mentions:
                what = f"{quoted(one.id)} is already in line {mentions[one.id].line}"
                raise DataError(path, one.line, what, "ids must differ within a document")
            mentions[one.id] = one
    offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
    entities = {entity.id: entity for entity in offsets.entities(list(mentions.values()))}
    relations: list[Relation] = []
    concepts = _concepts(mentions.values())
    for item in element.iter("relation"):
        with problems.refusing():
            relations += _relation(item, mentions, entities, concepts, path, _line(item, line), problems)
    return Document(
        element.findtext("id") or f"{path.name}:{number}",
        text,
        _labels(infons, path, line),
        tuple(entities.values()),
        tuple(relations),
        infons.get("source", ""),
        infons.get("language", "") or options.language,
        infons.get("patient", ""),
    )


def _line(element: Any, line: int) -> int:
    """That of an element; of one in the document's first line as the document's."""
    return line if element.sourceline == line else int(element.sourceline)


def _pairs(element: Any) -> list[tuple[str, str]]:
    """Keys and values, in their order: a key may stand several times."""
    return [(child.get("key", ""), child.text or "") for child in element.findall("infon")]


def _infons(element: Any) -> dict[str, str]:
    return dict(_pairs(element))


def _taken(pairs: list[tuple[str, str]], key: str) -> str:
    """The first value of a key, taken out."""
    place = next((at for at, (name, _) in enumerate(pairs) if name == key), None)
    return "" if place is None else pairs.pop(place)[1]


def _attributes(infons: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Names and values of attributes; a JSON list of strings has several values."""
    for key, text in infons:
        listed: Any = None
        if text.startswith("["):
            with suppress(ValueError, RecursionError):
                listed = json.loads(text)
        several = isinstance(listed, list) and listed and all(isinstance(one, str) for one in listed)
        for value in listed if several else [text]:
            yield key.removeprefix(KEPT), value


def _labels(infons: dict[str, str], path: Path, line: int) -> tuple[str, ...]:
    try:
        labels = json.loads(infons.get("labels", "[]"))
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise DataError(path, line, 'infon "labels" is not a JSON list of strings', 'write ["a", "b"]')
    return tuple(labels)


def _number(value: str | None, name: str, path: Path, line: int) -> int:
    if value is None or not re.fullmatch(r"\s*-?\d{1,12}\s*", value):
        raise DataError(path, line, f"{name} is not a whole number", "BioC offsets count characters of the document")
    return int(value)


def _text(element: Any, path: Path, line: int) -> str:
    """Passages, or their sentences, at their offsets."""
    text = ""
    for passage in element.findall("passage"):
        pieces = [passage] if passage.find("text") is not None else passage.findall("sentence")
        for piece in pieces:
            start = _number(piece.findtext("offset"), "offset", path, _line(piece, line))
            if not len(text) <= start <= LONGEST_LINE:
                what = f"a passage at {start}, but {len(text)} characters stand before it"
                raise DataError(path, _line(piece, line), what, "do its offsets count bytes? Export it again")
            text += "\n".ljust(start - len(text)) if start > len(text) else ""
            text += piece.findtext("text") or ""
    return text


def _mention(item: Any, unnamed: str, path: Path, line: int) -> Annotation:
    name, infons = item.get("id") or unnamed, _pairs(item)
    kind = _taken(infons, "type")
    if not kind.strip():
        raise DataError(
            path, line, f"{quoted(name)} has no type", 'write <annotation id="T1"><infon key="type">…</infon>'
        )
    parts = []
    for place in item.findall("location"):
        start, length = (_number(place.get(key), key, path, line) for key in ("offset", "length"))
        parts.append((start, start + length))
    if not parts:
        raise DataError(path, line, f"{quoted(name)} has no location", "is it an annotation of the whole document?")
    return Annotation(name, kind, tuple(parts), item.findtext("text"), line, *details(_attributes(infons)))


def _relation(
    item: Any,
    mentions: Mapping[str, Annotation],
    entities: Mapping[str, Entity],
    concepts: Mapping[str, Sequence[str]],
    path: Path,
    line: int,
    problems: Problems,
) -> Iterator[Relation]:
    """The relation of an element, unless one of its ends was left out."""
    nodes, infons = item.findall("node"), _pairs(item)
    kind = _taken(infons, "type") or _taken(infons, "relation")
    named = [(key, text) for key, text in infons if _concept(text) in concepts]
    ends = [node.get("refid", "") for node in nodes]
    by_nodes = len(nodes) == 2 and (len(named) != 2 or _agree(ends, [text for _, text in named], mentions))
    if not by_nodes and len(named) != 2:
        raise DataError(
            path, line, f"a relation of {len(nodes)} nodes, left out", "a relation has two, or two concepts"
        )
    if not kind.strip():
        raise DataError(path, line, "a relation without a type", 'add <infon key="type">…</infon>')
    if not by_nodes:
        head, tail = (_concept(text) for _, text in named)
        if both := nearest_mentions(Relation(kind, head, tail), concepts, entities, path, line, problems):
            rest = attributes_of(_attributes(one for one in infons if one not in named))
            several = [
                Attribute(key, concept)
                for key, end, concept in zip(OF_SEVERAL, both, (head, tail), strict=True)
                if len(entities[end].concepts) > 1
            ]
            yield Relation(kind, *both, attributes=tuple(sorted({*rest, *several})))
        return
    if unknown := [end for end in ends if end not in mentions]:
        what = f"a relation names {quoted(unknown[0])}, which is not in this document"
        raise DataError(path, line, what, "add the annotation or remove the relation")
    roles = [(node.get("role") or "").casefold() for node in nodes]
    for role in roles:
        if role not in (*FIRST, *SECOND):
            problems.note("role of a relation's node, ignored", path, line)
    if roles[0] in SECOND:
        ends.reverse()
    if entities.keys() >= {*ends}:
        yield Relation(kind, ends[0], ends[1], attributes=attributes_of(_attributes(infons)))
    else:
        problems.note("relation of an entity that is left out, left out", path, line)


def _concept(text: str) -> str:
    """The id alone of `Chemical|MESH:D003000`, `MESH:D003000`, `D003000` or `tmVar:p|SUB|V|158|M`."""
    if variant := VARIANT.search(text):
        return variant[0].rpartition(":")[2]
    return text.rpartition("|")[2].rpartition(":")[2].strip()


def _concepts(mentions: Iterable[Annotation]) -> dict[str, list[str]]:
    """The mentions of each concept: those of it alone, or else those of several."""
    alone: dict[str, list[str]] = {}
    among: dict[str, list[str]] = {}
    for mention in mentions:
        for concept in mention.concepts:
            (among if mention.concepts[1:] else alone).setdefault(_concept(concept), []).append(mention.id)
    return among | alone


def _agree(ends: list[str], named: list[str], mentions: Mapping[str, Annotation]) -> bool:
    """Whether the nodes' mentions have the concepts that the relation names: PubTator 3 numbers nodes by themselves."""
    ids = [{_concept(one) for one in mentions[end].concepts} if end in mentions else set() for end in ends]
    return any(
        _concept(one) in first and _concept(other) in second
        for one, other in (named, named[::-1])
        for first, second in [ids]
    )


@contextmanager
def write_bioc(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A collection with one passage per document."""
    with fresh(path) as file:
        writer = BioCXMLDocumentWriter(file, encoding="utf-8")
        collection = BioCCollection()
        collection.source, collection.date, collection.key = "wardround", "", "wardround.key"
        writer.write_collection_info(collection)

        def sink(placed: Placed) -> None:
            writer.write_document(_encoded(placed, losses))

        yield sink
        writer.close()


def _encoded(placed: Placed, losses: Problems) -> Any:
    def fit(text: str) -> str:
        clean, count = NOT_XML.subn("\ufffd", text)
        lost(placed, losses, "control character, written as U+FFFD", count)
        return clean

    document = placed.document
    lost_confidence(placed, losses, "labels", "entities", "relations")
    made, passage = BioCDocument(), BioCPassage()
    made.id = fit(document.id)
    made.infons = {key: fit(value) for key in ("source", "patient", "language") if (value := getattr(document, key))}
    if document.labels:
        made.infons["labels"] = fit(json.dumps(document.labels, ensure_ascii=False))
    passage.offset, passage.text = 0, fit(document.text)
    if len(passage.text.encode()) > LONGEST_TEXT:
        what = f"a text longer than {LONGEST_TEXT:,} bytes, which no XML parser takes"
        raise DataError(placed.path, placed.line or 1, what, "write it as jsonl")
    for entity in document.entities:
        annotation = BioCAnnotation()
        annotation.id, annotation.text = fit(entity.id), fit(entity.words(document.text))
        annotation.infons = {fit(key): fit(value) for key, value in _named(entity).items()}
        for start, end in entity.parts or [(entity.start, entity.end)]:
            annotation.add_location(BioCLocation(start, end - start))
        passage.add_annotation(annotation)
    for number, relation in enumerate(document.relations, 1):
        link = BioCRelation()
        link.id = f"R{number}"
        link.infons = {fit(key): fit(value) for key, value in _named(relation).items()}
        link.add_node(BioCNode(fit(relation.head), "head"))
        link.add_node(BioCNode(fit(relation.tail), "tail"))
        passage.add_relation(link)
    made.add_passage(passage)
    return made


def _named(one: Entity | Relation) -> dict[str, str]:
    """The infons of an entity or a relation."""
    infons = {"type": one.type}
    if isinstance(one, Entity) and one.concepts:
        infons["identifier"] = joined_concepts(one.concepts)
    for name, listing in attribute_values(one.attributes).items():
        listed = [listing] if isinstance(listing, str) else listing
        plain = len(listed) == 1 and not listed[0].startswith("[")
        infons[KEPT + name if name in MEANT else name] = listed[0] if plain else json.dumps(listed, ensure_ascii=False)
    return infons
