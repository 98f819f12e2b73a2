"""What BioC's documents mean, whether they are written in XML (`bioc`) or in JSON (`bioc_json`).

    document = document_of(node, number, path, line, problems, options)
    plain = plain_document(placed, losses, fit)             # in the shape that BioC has in JSON

Comeau et al., Database 2013. Passages stand in the text at their offsets, with a line feed between; offsets of
annotations count from the start of the document. A relation has two nodes, of which a role `tail` or `Arg2` names the
second; or it names two concepts in its infons, as in BC5CDR, BioRED and PubTator 3 (`Chemical` D003000, `entity1`
D003000, `role1` Chemical|MESH:D003000), and goes to their mentions that stand nearest to each other; others are left
out and counted, and an id that mentions of two types have is refused if nothing says which is meant. Infons of
annotations and relations are attributes (one key may stand twice), `identifier` and those called like a vocabulary
(`MESH`) concept ids; several locations are the parts of one entity. The infons `labels` (a JSON list), `source`,
`patient` and `language` of a document are ours; its others, those of passages, and roles that say more than which node
is first, have no place, which is counted.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from wardround.formats.concept_relations import ByType, Mentions, of_all_types
from wardround.formats.details import (
    VARIANT,
    attribute_values,
    attributes_of,
    details,
    joined_concepts,
    lost_confidence,
)
from wardround.formats.json_values import whole
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.writing import repeatable
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import LONGEST_LINE, DataError, Problems
from wardround.text.shown import quoted

FIRST, SECOND = ("", "head", "arg1", "subject", "source"), ("tail", "arg2", "object", "target")
OURS = frozenset({"labels", "source", "patient", "language"})
MEANT = frozenset({"type", "relation"})
KEPT = "attribute:"
"""Stands before the name of an attribute that would else mean something to us."""


class Node(Protocol):
    """A document, passage, sentence, annotation, location, relation or node, in XML or JSON."""

    @property
    def line(self) -> int:
        """Where it stands."""

    def value(self, name: str) -> str | None:
        """What stands under this name, if something does: an id, an offset, a text, a role."""

    def infons(self) -> list[tuple[str, str]]:
        """Keys and values, in their order: a key may stand several times."""

    def children(self, kind: str) -> Sequence["Node"]:
        """Those of a kind just below it."""

    def within(self, kind: str) -> Iterable["Node"]:
        """Those of a kind anywhere below it."""


def document_of(node: Node, number: int, path: Path, line: int, problems: Problems, options: Options) -> Document:
    """The document that stands here, of which it is the so-manieth of its file."""
    infons = dict(node.infons())
    for _ in infons.keys() - OURS:
        problems.note("infon of a document, ignored", path, line)
    for passage in (*node.within("passage"), *node.within("sentence")):
        for _ in dict(passage.infons()):
            problems.note("infon of a passage, ignored", path, passage.line)
    text = _text(node, path)
    mentions: dict[str, Annotation] = {}
    for count, item in enumerate(node.within("annotation"), 1):
        with problems.refusing():
            one = _mention(item, f"T{count}", path, item.line)
            if one.id in mentions:
                what = f"{quoted(one.id)} is already in line {mentions[one.id].line}"
                raise DataError(path, one.line, what, "ids must differ within a document")
            mentions[one.id] = one
    offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
    entities = {entity.id: entity for entity in offsets.entities(list(mentions.values()))}
    relations: list[Relation] = []
    related = Mentions(_concepts(mentions.values()), entities, path, problems)
    spelled = _spelled(entities.values())
    ids = {mention.id: frozenset(map(_concept, mention.concepts)) for mention in mentions.values()}
    for item in node.within("relation"):
        with problems.refusing():
            relations += _relation(item, ids, related, spelled, item.line)
    return Document(
        node.value("id") or f"{path.name}:{number}",
        text,
        _labels(infons, path, line),
        tuple(entities.values()),
        tuple(relations),
        infons.get("source", ""),
        infons.get("language", "") or options.language,
        infons.get("patient", ""),
    )


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
            yield key.removeprefix(KEPT), whole(value)


def _labels(infons: dict[str, str], path: Path, line: int) -> tuple[str, ...]:
    try:
        labels = json.loads(infons.get("labels", "[]"))
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise DataError(path, line, 'infon "labels" is not a JSON list of strings', 'write ["a", "b"]')
    return tuple(map(whole, labels))


def _number(value: str | None, name: str, path: Path, line: int) -> int:
    if value is None or not re.fullmatch(r"\s*-?\d{1,12}\s*", value):
        raise DataError(path, line, f"{name} is not a whole number", "BioC offsets count characters of the document")
    return int(value)


def _text(node: Node, path: Path) -> str:
    """Passages, or their sentences, at their offsets."""
    text = ""
    for passage in node.children("passage"):
        pieces = [passage] if passage.value("text") is not None else passage.children("sentence")
        for piece in pieces:
            start = _number(piece.value("offset"), "offset", path, piece.line)
            if not len(text) <= start <= LONGEST_LINE:
                what = f"a passage at {start}, but {len(text)} characters stand before it"
                raise DataError(path, piece.line, what, "do its offsets count bytes? Export it again")
            text += "\n".ljust(start - len(text)) if start > len(text) else ""
            text += piece.value("text") or ""
    return text


def _mention(item: Node, unnamed: str, path: Path, line: int) -> Annotation:
    name, infons = item.value("id") or unnamed, item.infons()
    kind = _taken(infons, "type")
    if not kind.strip():
        raise DataError(path, line, f"{quoted(name)} has no type", 'add an infon "type"')
    parts = []
    for place in item.children("location"):
        start, length = (_number(place.value(key), key, path, line) for key in ("offset", "length"))
        parts.append((start, start + length))
    if not parts:
        raise DataError(path, line, f"{quoted(name)} has no location", "is it an annotation of the whole document?")
    return Annotation(name, kind, tuple(parts), item.value("text"), line, *details(_attributes(infons)))


def _relation(
    item: Node, mentions: Mapping[str, frozenset[str]], related: Mentions, spelled: Mapping[str, set[str]], line: int
) -> Iterator[Relation]:
    """The relation that stands here, unless one of its ends was left out."""
    path, problems = related.path, related.problems
    nodes, infons = item.children("node"), item.infons()
    kind = _taken(infons, "type") or _taken(infons, "relation")
    named = [(key, text) for key, text in infons if _concept(text) in related.concepts]
    ends = [node.value("refid") or "" for node in nodes]
    by_nodes = len(nodes) == 2 and (len(named) != 2 or _agree(ends, [text for _, text in named], mentions))
    if not by_nodes and len(named) != 2:
        raise DataError(
            path, line, f"a relation of {len(nodes)} nodes, left out", "a relation has two, or two concepts"
        )
    if not kind.strip():
        raise DataError(path, line, "a relation without a type", 'add an infon "type"')
    if not by_nodes:
        head, tail = (_concept(text) for _, text in named)
        rest = attributes_of(_attributes(one for one in infons if one not in named))
        types = [_type(key, text, spelled) for key, text in named]
        if made := related.related(Relation(kind, head, tail, attributes=rest), line, types=types):
            yield made
        return
    if unknown := [end for end in ends if end not in mentions]:
        what = f"a relation names {quoted(unknown[0])}, which is not in this document"
        raise DataError(path, line, what, "add the annotation or remove the relation")
    roles = [(node.value("role") or "").casefold() for node in nodes]
    for role in roles:
        if role not in (*FIRST, *SECOND):
            problems.note("role of a relation's node, ignored", path, line)
    if roles[0] in SECOND:
        ends.reverse()
    if related.entities.keys() >= {*ends}:
        yield Relation(kind, ends[0], ends[1], attributes=attributes_of(_attributes(infons)))
    else:
        problems.note("relation of an entity that is left out, left out", path, line)


def _concept(text: str) -> str:
    """The id alone of `Chemical|MESH:D003000`, `MESH:D003000`, `D003000` or `tmVar:p|SUB|V|158|M`."""
    if variant := VARIANT.search(text):
        return variant[0].rpartition(":")[2]
    return text.rpartition("|")[2].rpartition(":")[2].strip()


def _type(key: str, text: str, spelled: Mapping[str, set[str]]) -> str:
    """The type that a relation gives to a concept: before a bar, as its key, or by the vocabulary; nothing if none."""
    before, _, name = text.rpartition("|")
    known = (before, key) if not VARIANT.search(text) else (key,)
    by_vocabulary = spelled.get(name.strip(), ()) if ":" in name else ()
    return next((kind for kind in known if kind and kind in spelled[""]), "") or (
        next(iter(by_vocabulary)) if len(by_vocabulary) == 1 else ""
    )


def _spelled(entities: Iterable[Entity]) -> dict[str, set[str]]:
    """The types of the mentions that have a concept, by its id as they spell it; all types under no id."""
    types: dict[str, set[str]] = {"": set()}
    for entity in entities:
        for concept in ("", *entity.concepts):
            types.setdefault(concept, set()).add(entity.type)
    return types


def _concepts(mentions: Iterable[Annotation]) -> dict[str, list[str]]:
    """The mentions of each concept: of every type those of it alone, or else those of several."""
    alone, among = ByType(), ByType()
    for mention in mentions:
        mine = among if len(mention.concepts) > 1 else alone
        for concept in mention.concepts:
            mine.setdefault((_concept(concept), mention.type), []).append(mention.id)
    return of_all_types(among | alone)


def _agree(ends: list[str], named: list[str], mentions: Mapping[str, frozenset[str]]) -> bool:
    """Whether the nodes' mentions have the concepts that the relation names: PubTator 3 numbers nodes by themselves."""
    ids = [mentions.get(end, frozenset[str]()) for end in ends]
    return any(
        _concept(one) in first and _concept(other) in second
        for one, other in (named, named[::-1])
        for first, second in [ids]
    )


Fit = Callable[[str], str]
"""A text as the target can hold it."""


def plain_document(placed: Placed, losses: Problems, fit: Fit) -> dict[str, Any]:
    """A document of one passage, in the shape that BioC has in JSON."""
    document = repeatable(placed)
    lost_confidence(placed, losses, "labels", "entities", "relations")
    infons = {key: fit(value) for key in ("source", "patient", "language") if (value := getattr(document, key))}
    if document.labels:
        infons["labels"] = fit(json.dumps(document.labels, ensure_ascii=False))
    passage = {
        "offset": 0,
        "infons": {},
        "text": fit(document.text),
        "sentences": [],
        "annotations": [
            {
                "id": fit(entity.id),
                "infons": {fit(key): fit(value) for key, value in _named(entity).items()},
                "text": fit(entity.words(document.text)),
                "locations": [
                    {"offset": start, "length": end - start}
                    for start, end in entity.parts or [(entity.start, entity.end)]
                ],
            }
            for entity in document.entities
        ],
        "relations": [
            {
                "id": f"R{number}",
                "infons": {fit(key): fit(value) for key, value in _named(relation).items()},
                "nodes": [
                    {"refid": fit(relation.head), "role": "head"},
                    {"refid": fit(relation.tail), "role": "tail"},
                ],
            }
            for number, relation in enumerate(document.relations, 1)
        ],
    }
    return {"id": fit(document.id), "infons": infons, "passages": [passage], "annotations": [], "relations": []}


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
