"""Our own JSONL, the one form that holds everything: a document per line, as `Document` has it.

    {"id": "17", "text": "Aspirin gave her a rash.", "labels": ["allergy"],
     "entities": [{"id": "T1", "type": "drug", "start": 0, "end": 7}, …],
     "relations": [{"type": "causes", "head": "T1", "tail": "T2"}], "source": "ward b", "language": "en"}
    {"tokens": ["Aspirin", "gave", "a", "rash"], "tags": ["B-drug", "O", "O", "B-effect"]}

Only `text` must be there (options may name another key), or `tokens` and `tags`, which become a text with blanks
between the tokens. Offsets count characters (code points) from 0, the end excluded. Ids of entities differ within a
document; they may be left out where no relation names them. An entity may repeat its words as `text`, which are then
checked. A string or list `label` is read like `labels`. Other keys are ignored and counted. An entity's `concept` is
the public id of what it names, or a list of such; without one, where public ids are wanted, its `id` is. Entities and
relations may have `attributes`, and an entity with gaps its `parts`:

    {"id": "T2", "type": "effect", "start": 0, "end": 23, "parts": [[0, 4], [19, 23]], "concept": "UMLS:C0015230",
     "attributes": {"negated": true, "certainty": "low", "experiencer": ["patient", "family"]}}
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround.formats.details import attributes_of, details, plain_details, read_attributes, read_concepts, read_parts
from wardround.formats.json_values import json_lines, listed, string
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.tables import flag
from wardround.formats.writing import Sink, json_file
from wardround.text.document import DISCONTINUOUS, Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, digest, nearest
from wardround.text.shown import quoted, shown, unnamed
from wardround.text.tags import joined, no_tag, split_tag

SHAPE = '{"text": …, "entities": […], "relations": […]} or {"tokens": […], "tags": […]}'
ENTITY = '{"id": "T1", "type": …, "start": 0, "end": 7}'
RELATION = '{"type": …, "head": "T1", "tail": "T2"}'
NOT_OURS = "key that is not ours, ignored"
SHARED = frozenset({"type", "attributes", "confidence"})
ENTITY_KEYS = SHARED | {"id", "start", "end", "text", "concept", "parts", "given"}
RELATION_KEYS = SHARED | {"id", "head", "tail"}
KEYS = frozenset(
    {"id", "text", "labels", "entities", "relations", "source", "language", "tokens", "tags", "label"}
    | {"confidence", "model", "patient"}
)


def read_jsonl(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of a file."""
    ids = set[bytes]()
    named = {options.text, options.label, options.id, options.source, options.patient, *options.flags}
    for line, row in json_lines(path, options.encoding, problems, SHAPE):
        with problems.refusing():
            document = _document(row, path, line, problems, options)
            for _ in row.keys() - KEYS - named - {*(options.text if isinstance(options.text, tuple) else ())}:
                problems.note(NOT_OURS, path, line)
            if (mark := digest(document.id)) in ids:
                problems.note("repeated id", path, line)
            ids.add(mark)
            yield Placed(document, path, line)


def _document(row: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options) -> Document:
    entities: Mapping[str, Entity] = {}
    if "tokens" in row:
        made = _tagged(row, path, line, problems)
        text, entities = made.text, {entity.id: entity for entity in made.entities}
    else:
        text = _text(row, path, line, problems, options)
        if "entities" in options.needs and "entities" not in row:
            raise DataError(path, line, 'no "entities"', f"write {SHAPE}; an empty list if there are none")
        if not options.concepts:
            offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
            entities = _entities(row, offsets, line)
    document = Document(
        id=_word(row, options.key("id", row), path, line, problems) or unnamed(path.name, line),
        text=text,
        source=_word(row, options.key("source", row), path, line, problems),
        language=_word(row, "language", path, line, problems) or options.language,
        patient=_word(row, options.key("patient", row), path, line, problems),
    )
    if options.concepts:
        return replace(document, entities=tuple(_mentions(row, path, line, problems)))
    labels = tuple(_labels(row, options, path, line, problems)) if options.labelled else ()
    values = row.get("confidence")
    sure = [one for one in map(_confidence, values if isinstance(values, list) else ()) if one is not None]
    return replace(
        document,
        labels=labels,
        entities=tuple(entities.values()),
        relations=tuple(_relations(row, entities, path, line, problems)),
        confidence=tuple(sure) if len(sure) == len(labels) else (),
        model=model if isinstance(model := row.get("model"), str) else "",
    )


def _confidence(value: object) -> float | None:
    """How sure a model is, if that is what it says."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None


def _text(row: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options) -> str:
    keys = options.text if isinstance(options.text, tuple) else (options.text or "text",)
    for key in keys:
        if str(key) not in row and "sentences" in row:
            raise DataError(path, line, "a bag of sentences, no note", 'in a study: [corpus] format = "bags"')
        if str(key) not in row and (close := nearest(str(key), row)):
            raise DataError(path, line, f'no "{key}"', f'did you mean "{close}"?')
    return "\n".join(string(row.get(str(key)), str(key), path, line, problems) for key in keys)


def _mentions(row: Mapping[str, object], path: Path, line: int, problems: Problems) -> Iterator[Entity]:
    """The entities under their public ids, `concept` or else `id`; those without are left out, and counted."""
    if not isinstance(row.get("entities"), list):
        raise DataError(path, line, 'no list "entities"', f'{{"text": …, "entities": [{ENTITY}]}}')
    for item in listed(row, "entities", path, line):
        values: Mapping[str, object] = item if isinstance(item, dict) else {}
        name = next((values[key] for key in ("concept", "id") if values.get(key) is not None), "")
        name = str(name) if type(name) is int else name  # NCBI's genes are numbers
        name = "|".join(map(str, name)) if isinstance(name, list) and name is values.get("concept") else name
        kind, start, end = (values.get(key) for key in ("type", "start", "end"))
        if isinstance(name, str) and isinstance(kind, str) and type(start) is int and type(end) is int:
            yield Entity(name, kind, start, end)
            if values.get("parts"):
                problems.note(DISCONTINUOUS, path, line)
        else:
            problems.note("entity without type, start and end, or with an odd id, left out", path, line)


def _entities(row: Mapping[str, object], offsets: Offsets, line: int) -> dict[str, Entity]:
    entities: dict[str, Entity] = {}
    path, problems = offsets.path, offsets.problems
    for number, item in enumerate(listed(row, "entities", path, line), 1):
        with problems.refusing():
            entity = _entity(item, number, offsets, line)
            if entity.id in entities:
                raise DataError(path, line, f"two entities {quoted(entity.id)}", "ids must differ within a document")
            entities[entity.id] = entity
    return entities


def _relations(
    row: Mapping[str, object], entities: Mapping[str, Entity], path: Path, line: int, problems: Problems
) -> Iterator[Relation]:
    ids = {
        item["id"]
        for item in listed(row, "entities", path, line)
        if isinstance(item, dict) and isinstance(item.get("id"), str)
    }
    for item in listed(row, "relations", path, line):
        with problems.refusing():
            if not isinstance(item, dict):
                raise DataError(path, line, f'"relations" holds a {type(item).__name__}', f"write {RELATION}")
            kind, head, tail = (
                string(item.get(key), f"relations.{key}", path, line, problems) for key in ("type", "head", "tail")
            )
            ends = head, tail
            if not kind.strip():
                raise DataError(path, line, "empty label", "label or remove the relation")
            if unknown := [end for end in ends if end not in entities and end not in ids]:
                raise DataError(path, line, f"a relation names {quoted(unknown[0])}, which is no entity here", RELATION)
            for _ in item.keys() - RELATION_KEYS:
                problems.note("key of a relation that is not ours, ignored", path, line)
            attributes = attributes_of(read_attributes(item.get("attributes"), path, line, problems))
            if all(end in entities for end in ends):
                yield Relation(kind, head, tail, _confidence(item.get("confidence")), attributes)
            else:
                problems.note("relation of an entity that is left out, left out", path, line)


def _entity(item: object, number: int, offsets: Offsets, line: int) -> Entity:
    path, problems = offsets.path, offsets.problems
    if not isinstance(item, dict):
        raise DataError(path, line, f'"entities" holds a {type(item).__name__}', f"write {ENTITY}")
    name = string(item["id"], "entities.id", path, line, problems) if "id" in item else f"T{number}"
    kind = string(item.get("type"), "entities.type", path, line, problems)
    if not kind.strip():
        raise DataError(path, line, "an entity without a type", "name its type")
    start, end, length = item.get("start"), item.get("end"), len(offsets.text)
    if type(start) is not int or type(end) is not int:
        raise DataError(path, line, f"start or end of entity {quoted(name)} is not a whole number", ENTITY)
    for _ in item.keys() - ENTITY_KEYS:
        problems.note("key of an entity that is not ours, ignored", path, line)
    attributes = read_attributes(item.get("attributes"), path, line, problems)
    more = details(attributes, read_concepts(item.get("concept"), path, line, problems))
    parts = read_parts(item.get("parts"), path, line)
    if parts and (min(parts)[0], max(last for _, last in parts)) != (start, end):
        raise DataError(path, line, f"the parts of entity {quoted(name)} are not from {start} to {end}", ENTITY)
    if item.get("text") or parts:
        words = string(item["text"], "entities.text", path, line, problems) if item.get("text") else None
        placed = offsets.entity(Annotation(name, kind, parts or ((start, end),), words, line, *more))
        return replace(placed, confidence=_confidence(item.get("confidence")))
    if not 0 <= start < end:
        what = f"entity {quoted(name)} goes from {start} to {end}"
        raise DataError(path, line, what, "0 ≤ start < end; the end is excluded")
    if end > length:
        what = f"entity {quoted(name)} ends at {end}, the text has {length} characters"
        raise DataError(path, line, what, "offsets count characters, not bytes")
    sure = _confidence(item.get("confidence"))
    return Entity(name, kind, start, end, sure, concepts=more[0], attributes=more[1])


def _tagged(row: Mapping[str, object], path: Path, line: int, problems: Problems) -> Document:
    for name in ("tokens", "tags"):
        if name not in row:
            raise DataError(path, line, f'no "{name}"', f"it must be a list: write {SHAPE}")
    tokens, tags = (
        [string(item, name, path, line, problems) for item in listed(row, name, path, line)]
        for name in ("tokens", "tags")
    )
    if len(tokens) != len(tags):
        raise DataError(path, line, f"{len(tokens)} tokens, but {len(tags)} tags", "give every token one tag")
    for token, tag in zip(tokens, tags, strict=True):
        mark, kind = split_tag(tag)
        if not mark or (mark != "O" and not kind):
            raise DataError(path, line, f"{shown(tag)} is not a tag", no_tag(tag, token))
    return joined("", tokens, tags, problems, (path, line))


def _labels(row: Mapping[str, object], options: Options, path: Path, line: int, problems: Problems) -> Iterator[str]:
    key = str(options.label or ("label" if "label" in row else "labels"))
    if options.flags:
        yield from (str(name) for name in options.flags if flag(row.get(str(name)), name, path, line))
        return
    if key not in row and (options.label or "labels" in options.needs):
        close = nearest(key, row)
        remedy = f'did you mean "{close}"?' if close else 'name its key: label = "…"'
        raise DataError(path, line, f'no "{options.label or "label"}"', remedy)
    value = listed(row, key, path, line) if key == "labels" else row.get(key, [])
    parts = value if isinstance(value, list) else [value]
    if isinstance(value, str) and options.separator:
        parts = value.split(options.separator) if value.strip() else []
    for part in parts:
        if not isinstance(part, str | int):
            raise DataError(path, line, f"label is a {type(part).__name__}", "use a string or a list of them")
        yield string(part, key, path, line, problems) if isinstance(part, str) else str(int(part))


def _word(row: Mapping[str, object], key: object, path: Path, line: int, problems: Problems) -> str:
    name = str(key)
    value = row.get(name)
    if value is None or isinstance(value, int):  # numbers make good ids
        return "" if value is None else str(value)
    return string(value, name, path, line, problems)


def write_jsonl(path: Path, _losses: Problems, _options: Options) -> AbstractContextManager[Sink]:
    """A line per document; nothing is lost, not even that it has no entities, which readers of entities ask for."""
    return json_file(path, json_row)


def json_row(document: Document, always: Collection[str] = ("id", "text", "entities")) -> dict[str, Any]:
    """A document as a line has it, without what is empty, but for some keys."""
    row = {key: value for key, value in document.plain().items() if value or key in always}
    return row | {key: [plain_details(one) for one in row[key]] for key in ("entities", "relations") if key in row}
