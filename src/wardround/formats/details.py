"""Attributes and concept ids of entities and relations, as formats spell them.

    concepts, attributes = details([("assertion", "negated"), ("identifier", "UMLS:C0004057")])

A name that tools have for ids (`identifier`, `concept`, …) gives concepts, that of a vocabulary (`MESH`, `UMLS`, …)
gives concepts with the vocabulary before them; every other name is an attribute. Attributes are sorted, each stands
once. A bar, a semicolon or a comma stands between two ids; the bars of a variant as tmVar writes it (`p|SUB|V|158|M`)
are its own.

Annotation tools have no place for some of it, but give back a document's metadata as they got it. There it travels
by the place and the type of what it belongs to, for tools give ids of their own:

    "details": [{"start": 0, "end": 7, "type": "drug", "concept": "RxNorm:1191", "attributes": {"dose": "low"}},
                {"type": "causes", "head": [0, 7, "drug"], "tail": [19, 23, "effect"], "attributes": {…}}]

What an annotator has moved or removed since has lost its details, which is counted.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround.formats.json_values import string, whole
from wardround.formats.writing import lost
from wardround.text.document import YES, Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems

IDS = frozenset({"concept", "concepts", "concept_id", "conceptid", "identifier", "identifiers"})
VOCABULARIES = frozenset(
    {"chebi", "cui", "hpo", "icd10", "icd10cm", "icd9", "loinc", "medgen", "mesh", "ncbi_gene", "ncbi_taxonomy",
     "ncbigene", "omim", "rxnorm", "snomed", "snomedct", "umls"}
)  # fmt: skip
NO_CONCEPT = frozenset({"", "-", "-1"})
VARIANT = re.compile(r"(?<![a-z\d])(?:tmvar:)?[a-z]?\|[a-z]{2}\w*\|[^;,]*", re.IGNORECASE)
GONE = "detail of what is no longer there, left out"

Details = tuple[tuple[str, ...], tuple[Attribute, ...]]
"""Concepts and attributes."""


def details(named: Iterable[tuple[str, str]], ids: Iterable[str] = ()) -> Details:
    """Concepts and attributes of names and values, in whatever order they come, and of ids."""
    concepts, attributes = list(ids), set[Attribute]()
    for name, value in named:
        key = name.casefold()
        if key in IDS:
            concepts += split_concepts(value)
        elif key.replace(" ", "_") in VOCABULARIES and value != YES:
            concepts += [one if ":" in one else f"{name}:{one}" for one in split_concepts(value)]
        else:
            attributes.add(Attribute(name, value))
    return tuple(dict.fromkeys(concepts)), tuple(sorted(attributes))


def attributes_of(named: Iterable[tuple[str, str]]) -> tuple[Attribute, ...]:
    """The attributes of a relation, which names no concept."""
    return tuple(sorted({Attribute(*one) for one in named}))


def split_concepts(cell: str) -> list[str]:
    """The ids of a cell."""
    return [one for one in listed_concepts(cell) if one not in NO_CONCEPT]


def listed_concepts(cell: str) -> list[str]:
    """The same, with what stands for no id."""
    pieces = map(str.strip, re.split("[;,]", cell))
    return [
        one for piece in pieces for one in ([piece] if VARIANT.fullmatch(piece) else map(str.strip, piece.split("|")))
    ]


def joined_concepts(concepts: Sequence[str]) -> str:
    """A cell with these ids."""
    return (";" if any("|" in one for one in concepts) else "|").join(concepts)


# JSON


def read_attributes(value: object, path: Path, line: int, problems: Problems) -> Iterator[tuple[str, str]]:
    """Names and values of a JSON object; a list has several values of one name, and `null` says nothing."""
    if value and not isinstance(value, dict):
        what = f'"attributes" is a {type(value).__name__}'
        raise DataError(path, line, what, 'write {"negated": true, "certainty": "low"}')
    for key, named in value.items() if isinstance(value, dict) else ():
        name = whole(key)
        for one in named if isinstance(named, list) else [named]:
            if isinstance(one, bool):
                yield name, str(one).casefold()
            elif isinstance(one, int | float):
                yield name, str(one)
            elif one is not None:
                yield name, string(one, "attributes", path, line, problems)


def read_concepts(value: object, path: Path, line: int, problems: Problems) -> Iterator[str]:
    """The ids under `concept`: a string, a number as NCBI's genes have, or a list of these; `a|b` are two."""
    for one in value if isinstance(value, list) else [value]:
        yield from split_concepts(str(one) if type(one) is int else string(one or "", "concept", path, line, problems))


def read_parts(value: object, path: Path, line: int) -> tuple[tuple[int, int], ...]:
    """The parts of an entity with gaps."""
    parts: list[Any] = value if isinstance(value, list) else []
    odd = any(not isinstance(part, list) or [int, int] != [*map(type, part)] for part in parts)
    if odd or not isinstance(value, list | None):
        raise DataError(path, line, '"parts" is not a list of starts and ends', "write [[0, 5], [9, 12]]")
    return tuple((start, end) for start, end in parts)


def attribute_values(attributes: Iterable[Attribute]) -> dict[str, str | list[str]]:
    """A JSON object of attributes."""
    values: dict[str, list[str]] = {}
    for name, value in attributes:
        values.setdefault(name, []).append(value)
    return {name: named[0] if len(named) == 1 else named for name, named in values.items()}


def concept_value(concepts: tuple[str, ...]) -> str | list[str]:
    """One id, or a list of several."""
    return concepts[0] if len(concepts) == 1 else list(concepts)


def plain_details(one: Mapping[str, Any]) -> dict[str, Any]:
    """An entity or relation in plain values, with attributes and concepts as JSON files have them."""
    values = dict(one)
    if "attributes" in values:
        values["attributes"] = attribute_values(values["attributes"])
    if "concepts" in values:
        values["concept"] = concept_value(values.pop("concepts"))
    return values


# metadata


def details_of(document: Document, fields: Collection[str] = ("attributes", "concepts", "parts")) -> list[object]:
    """What a tool has no place for, as metadata of the document."""
    places = {one.id: [one.start, one.end, one.type] for one in document.entities}
    listed = [
        ({"start": one.start, "end": one.end, "type": one.type}, _details(one, fields)) for one in document.entities
    ]
    listed += [
        ({"type": one.type, "head": places[one.head], "tail": places[one.tail]}, _details(one, ["attributes"]))
        for one in document.relations
    ]
    detailed = {repr(place) for place, more in listed if more}
    # Of twins all, so that each gets its own back.
    return [place | more for place, more in listed if repr(place) in detailed]


def _details(one: Entity | Relation, fields: Collection[str]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if isinstance(one, Entity):
        if "concepts" in fields and one.concepts:
            more["concept"] = concept_value(one.concepts)
        if "parts" in fields and one.parts:
            more["parts"] = [list(part) for part in one.parts]
    if "attributes" in fields and one.attributes:
        more["attributes"] = attribute_values(one.attributes)
    return more


def with_details(document: Document, value: object, path: Path, line: int, problems: Problems) -> Document:
    """The document with the details that its metadata have."""
    if value is None:
        return document
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise DataError(path, line, '"details" is not a list of objects', "take it out, or write it as it was exported")
    entities, relations = list(document.entities), list(document.relations)
    spans = {one.id: [one.start, one.end, one.type] for one in entities}
    left: dict[str, list[int]] = {}
    for at, one in enumerate(entities):
        left.setdefault(repr(spans[one.id]), []).append(at)
    for at, link in enumerate(relations):
        left.setdefault(repr([link.type, spans[link.head], spans[link.tail]]), []).append(at)
    for item in value:
        related = "head" in item
        key = [item.get(name) for name in (("type", "head", "tail") if related else ("start", "end", "type"))]
        if not (places := left.get(repr(key))):
            problems.note(GONE, path, line)
            continue
        named = [*read_attributes(item.get("attributes"), path, line, problems)]
        at = places.pop(0)
        if related:
            relations[at] = replace(relations[at], attributes=attributes_of(named))
            continue
        concepts, attributes = details(named, read_concepts(item.get("concept"), path, line, problems))
        parts = _inside(read_parts(item.get("parts"), path, line), entities[at])
        mine = entities[at]
        entities[at] = replace(
            mine, concepts=mine.concepts or concepts, attributes=mine.attributes or attributes, parts=parts
        )
    return replace(document, entities=tuple(entities), relations=tuple(relations))


def _inside(parts: tuple[tuple[int, int], ...], entity: Entity) -> tuple[tuple[int, int], ...]:
    """The parts, if they are those of this entity."""
    edges = (min((start for start, _ in parts), default=None), max((end for _, end in parts), default=None))
    return parts if edges == (entity.start, entity.end) and all(start < end for start, end in parts) else ()


# losses


def lost_confidence(placed: Placed, losses: Problems, *fields: str) -> None:
    """Count how often a model says how sure it is: of `labels`, `entities`, `relations`."""
    document, count = placed.document, 0
    if "labels" in fields:
        count += len(document.confidence)
    for name in {"entities", "relations"} & {*fields}:
        count += sum(one.confidence is not None for one in getattr(document, name))
    lost(placed, losses, "confidence of a model", count)


def lost_details(placed: Placed, losses: Problems, *fields: str, relations: bool = True) -> None:
    """Count what a format has no place for: `attributes`, `concepts`, `parts` of entities; attributes of relations."""
    names = {
        "attributes": "attributes of entities",
        "concepts": "concept ids",
        "parts": "gaps of discontinuous entities, written from first to last character",
    }
    document = placed.document
    for name in fields:
        count = sum(bool(one.parts) if name == "parts" else len(getattr(one, name)) for one in document.entities)
        lost(placed, losses, names[name], count)
    if relations:
        lost(placed, losses, "attributes of relations", sum(len(one.attributes) for one in document.relations))
