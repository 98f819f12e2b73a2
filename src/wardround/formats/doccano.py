"""doccano's JSONL exports: with relations, of spans, of labels for whole texts, or of both (intents and slots).

    {"id": 1, "text": "Aspirin gave her a rash.",
     "entities": [{"id": 5, "label": "drug", "start_offset": 0, "end_offset": 7}, …],
     "relations": [{"id": 1, "from_id": 5, "to_id": 6, "type": "causes"}]}
    {"id": 1, "text": "Aspirin gave her a rash.", "label": [[0, 7, "drug"], [19, 23, "effect"]]}
    {"id": 1, "text": "Aspirin gave her a rash.", "label": ["allergy"]}
    {"id": 1, "text": "Aspirin gave her a rash.", "cats": ["allergy"], "entities": [[0, 7, "drug"]]}

Some versions export relations, or everything, as empty lists (doccano#1795, #2039): if that is so in the whole file, it
is said. What else a line holds is metadata, which doccano gives back as it got it: of these `source`, `patient`,
`language`, `labels` and `details` are kept (attributes, concept ids and gaps, see `details`), and what the options name
as label, id, source or patient. Of what `predict` says of itself there (`model`, `scores`, `found`) the model's name is
kept as long as nobody has changed what it found (see `untouched`).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from wardround.formats.details import details_of, with_details
from wardround.formats.json_values import json_lines, listed, string, whole
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.untouched import UNTOUCHED, bare, findings_mark
from wardround.formats.writing import Sink, json_file
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems
from wardround.text.shown import quoted, unnamed

SHAPE = '{"text": …, "entities": […], "relations": […]} or {"text": …, "label": […]}'
ENTITY = '{"id": 1, "label": "drug", "start_offset": 0, "end_offset": 7}'
NO_ENTITY = "no entity in the whole file, so all may be left out"
NO_RELATION = "no relation in the whole file"
METADATA = "metadata, ignored"
KNOWN = frozenset(
    {"id", "text", "data", "entities", "relations", "label", "labels", "source", "patient", "language", "Comments"}
    | {"cats", "details", "model", "scores", "found"}
)


def is_doccano(row: Mapping[str, object]) -> bool:
    """Whether a line shows doccano's way of writing."""
    for key in ("entities", "relations"):
        for item in value[:1] if isinstance(value := row.get(key), list) else []:
            if isinstance(item, list) or (isinstance(item, dict) and {"start_offset", "from_id"} & item.keys()):
                return True
    empty = row.get("entities") == [] and row.get("relations") == [] and not row.keys() & {"labels", "source"}
    return isinstance(row.get("Comments"), list) or isinstance(row.get("label"), list) or empty


def read_doccano(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of an export."""
    seen = entities = relations = with_relations = labels = 0
    for line, row in json_lines(path, options.encoding, problems, SHAPE):
        with problems.refusing():
            document = _document(row, path, line, problems, options)
            seen += "entities" in row
            with_relations += "relations" in row
            entities += len(document.entities)
            relations += len(document.relations)
            labels += len(document.labels)
            yield Placed(document, path, line, unseen=bool(document.model))
    if seen and not entities and not labels:
        problems.note(NO_ENTITY, path, 1)
    elif entities and with_relations and not relations:
        problems.note(NO_RELATION, path, 1)


def _document(row: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options) -> Document:
    key = str(options.text) or ("text" if "text" in row or "data" not in row else "data")
    text = string(row.get(key), key, path, line, problems)
    mentions: list[Annotation] = []
    names: set[str] = set()
    labels: list[str] = []
    for name in ("entities", "label", "labels", "cats"):
        for item in listed(row, name, path, line):
            with problems.refusing():
                if isinstance(item, str) and name != "entities":
                    labels.append(string(item, name, path, line, problems))
                else:
                    one = _mention(item, len(mentions) + 1, path, line, problems)
                    if one.id in names:
                        what = f"two entities have the id {quoted(one.id)}"
                        raise DataError(path, line, what, "ids must differ within a document")
                    names.add(one.id)
                    mentions.append(one)
    named = {meaning: options.key(meaning, row) for meaning in ("id", "source", "patient")}
    if options.label and options.labelled and isinstance(row.get(str(options.label)), str | int):
        labels.append(string(str(row[str(options.label)]), str(options.label), path, line, problems))
    for _ in row.keys() - KNOWN - {key, str(options.label), *named.values()}:
        problems.note(METADATA, path, line)
    if row.get("Comments"):
        problems.note("comment, ignored", path, line)
    offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
    entities = tuple(offsets.entities(mentions))
    given = row.get(named["id"])
    document = Document(
        whole(str(given)) if given is not None else unnamed(path.name, line),
        text,
        tuple(labels),
        entities,
        tuple(offsets.relations(_links(row, path, line, problems), mentions, entities, line)),
        whole(str(row.get(named["source"]) or "")),
        whole(str(row.get("language") or options.language)),
        whole(str(row.get(named["patient"]) or "")),
    )
    model = row.get("model")
    if isinstance(model, str) and row.get("found") == findings_mark(document):
        problems.note(UNTOUCHED, path, line)
        document = replace(document, model=whole(model))
    return with_details(document, row.get("details"), path, line, problems)


def _mention(item: object, number: int, path: Path, line: int, problems: Problems) -> Annotation:
    name: object = f"T{number}"
    if isinstance(item, list) and len(item) == 3:
        start, end, kind = item
    elif isinstance(item, dict):
        start, end, kind = (item.get(key) for key in ("start_offset", "end_offset", "label"))
        name = item.get("id", name)
    else:
        raise DataError(path, line, f"entity {number} is not a span", f"write {ENTITY} or [0, 7, label]")
    if type(start) is not int or type(end) is not int:
        raise DataError(path, line, f"start or end of entity {number} is not a whole number", ENTITY)
    word = string(kind, "label", path, line, problems)
    if not word.strip():
        raise DataError(path, line, f"entity {number} has an empty label", "label or remove it")
    return Annotation(whole(str(name)), word, ((start, end),), None, line)


def _links(row: Mapping[str, object], path: Path, line: int, problems: Problems) -> Iterator[tuple[str, str, str]]:
    for item in listed(row, "relations", path, line):
        with problems.refusing():
            if not isinstance(item, dict):
                raise DataError(path, line, f'"relations" holds a {type(item).__name__}', f"write {SHAPE}")
            kind = string(item.get("type"), "relations.type", path, line, problems)
            if not kind.strip():
                raise DataError(path, line, "a relation has an empty type", "name or remove it")
            yield kind, whole(str(item.get("from_id"))), whole(str(item.get("to_id")))


def write_doccano(path: Path, _losses: Problems, _options: Options) -> AbstractContextManager[Sink]:
    """A line per document; what doccano has no place for goes along as metadata, and ids of entities are numbers."""
    return json_file(path, doccano_row)


def doccano_row(document: Document) -> dict[str, object]:
    """A document as doccano imports it."""
    ids = {entity.id: number for number, entity in enumerate(document.entities, 1)}
    row: dict[str, object] = {
        "id": document.id,
        "text": document.text,
        "entities": [
            {"id": ids[one.id], "label": one.type, "start_offset": one.start, "end_offset": one.end}
            for one in document.entities
        ],
        "relations": [
            {"id": number, "from_id": ids[one.head], "to_id": ids[one.tail], "type": one.type}
            for number, one in enumerate(document.relations, 1)
        ],
        "Comments": [],
    }
    more: dict[str, object] = {key: getattr(document, key) for key in ("labels", "source", "patient", "language")}
    more |= {"details": details_of(document), "model": document.model, "scores": _scores(document)}
    more["found"] = findings_mark(bare(document)) if document.model else ""
    return row | {key: value for key, value in more.items() if value}


def _scores(document: Document) -> list[dict[str, object]]:
    """How sure a model is of labels, entities and relations; doccano shows it beside the text.

    A relation's ends are told by their places, for doccano gives its own ids to what it imports.
    """
    scores: list[dict[str, object]] = [
        {"label": name, "score": score} for name, score in zip(document.labels, document.confidence, strict=False)
    ]
    scores += [
        {"label": one.type, "start_offset": one.start, "end_offset": one.end, "score": one.confidence}
        for one in document.entities
        if one.confidence is not None
    ]
    places = {one.id: [one.start, one.end] for one in document.entities}
    return scores + [
        {"type": one.type, "from": places[one.head], "to": places[one.tail], "score": one.confidence}
        for one in document.relations
        if one.confidence is not None
    ]
