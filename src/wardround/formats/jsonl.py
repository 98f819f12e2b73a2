"""Our own JSONL, the one form that holds everything: a document per line, as `Document` has it.

    {"id": "17", "text": "Aspirin gave her a rash.", "labels": ["allergy"],
     "entities": [{"id": "T1", "type": "drug", "start": 0, "end": 7}, …],
     "relations": [{"type": "causes", "head": "T1", "tail": "T2"}], "source": "ward b", "language": "en"}
    {"tokens": ["Aspirin", "gave", "a", "rash"], "tags": ["B-drug", "O", "O", "B-effect"]}

Only `text` must be there (options may name another key), or `tokens` and `tags`, which become a text with blanks
between the tokens. Offsets count characters (code points) from 0, the end excluded. Ids of entities differ within a
document; they may be left out where no relation names them. An entity may repeat its words as `text`, which are then
checked. A string or list `label` is read like `labels`. Other keys
are ignored and counted.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wardround.formats.json_values import json_lines, string
from wardround.formats.offsets import Offsets, Said
from wardround.formats.options import Options
from wardround.formats.writing import Sink, text_file
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, digest
from wardround.text.shown import quoted, shown
from wardround.text.tags import joined, no_tag, split_tag

__all__ = ["read_jsonl", "write_jsonl"]

SHAPE = '{"text": …, "entities": […], "relations": […]} or {"tokens": […], "tags": […]}'
ENTITY = '{"id": "T1", "type": …, "start": 0, "end": 7}'
RELATION = '{"type": …, "head": "T1", "tail": "T2"}'
ENTITY_KEYS = frozenset({"id", "type", "start", "end", "text", "confidence", "concept"})
KEYS = frozenset(
    {"id", "text", "labels", "entities", "relations", "source", "language", "tokens", "tags", "label"} | {"confidence"}
)  # a model's confidence is passed over


def read_jsonl(
    path: Path, problems: Problems, options: Options | None = None, *, needs: tuple[str, ...] = ()
) -> Iterator[Placed]:
    """The documents of a file; `needs` names keys without which a line is an error."""
    wishes = options or Options()
    ids = set[bytes]()
    for line, row in json_lines(path, wishes.encoding, problems, SHAPE):
        with problems.refusing():
            document = _document(row, path, line, problems, wishes, needs)
            for _ in row.keys() - KEYS - {wishes.text, wishes.label, wishes.id, wishes.source}:
                problems.note("key that is not ours, ignored", path, line)
            if (mark := digest(document.id)) in ids:
                problems.note("repeated id", path, line)
            ids.add(mark)
            yield Placed(document, path, line)


def _document(
    row: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options, needs: tuple[str, ...]
) -> Document:
    if "tokens" in row:
        made = _tagged(row, path, line, problems)
        text, entities = made.text, {entity.id: entity for entity in made.entities}
    else:
        key = options.text or "text"
        if key not in row and "sentences" in row:
            raise DataError(path, line, "a bag of sentences, no note", 'in a study: [corpus] name = "bags"')
        text = string(row.get(key), key, path, line, problems)
        if missing := [name for name in needs if name not in row]:
            what = f'no "{missing[0]}"'
            raise DataError(path, line, what, f"write {SHAPE}; an empty list if there are none")
        offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
        entities = _entities(row, offsets, line)
    return Document(
        id=_word(row, options.id or "id", path, line, problems) or f"{path.name}:{line}",
        text=text,
        labels=tuple(_labels(row, options, path, line, problems)) if options.labelled else (),
        entities=tuple(entities.values()),
        relations=tuple(_relations(row, entities, path, line, problems)),
        source=_word(row, options.source or "source", path, line, problems),
        language=_word(row, "language", path, line, problems) or options.language,
    )


def _entities(row: Mapping[str, object], offsets: Offsets, line: int) -> dict[str, Entity]:
    found: dict[str, Entity] = {}
    path, problems = offsets.path, offsets.problems
    for number, item in enumerate(_list(row, "entities", path, line), 1):
        with problems.refusing():
            entity = _entity(item, number, offsets, line)
            if entity.id in found:
                raise DataError(path, line, f"two entities {quoted(entity.id)}", "ids must differ within a document")
            found[entity.id] = entity
    return found


def _relations(
    row: Mapping[str, object], entities: Mapping[str, Entity], path: Path, line: int, problems: Problems
) -> Iterator[Relation]:
    listed = {
        item["id"]
        for item in _list(row, "entities", path, line)
        if isinstance(item, dict) and isinstance(item.get("id"), str)
    }
    for item in _list(row, "relations", path, line):
        with problems.refusing():
            if not isinstance(item, dict):
                raise DataError(path, line, f'"relations" holds a {type(item).__name__}', f"write {RELATION}")
            kind, head, tail = (
                string(item.get(key), f"relations.{key}", path, line, problems) for key in ("type", "head", "tail")
            )
            ends = head, tail
            if not kind.strip():
                raise DataError(path, line, "empty label", "label or remove the relation")
            if unknown := [end for end in ends if end not in entities and end not in listed]:
                raise DataError(path, line, f"a relation names {quoted(unknown[0])}, which is no entity here", RELATION)
            if all(end in entities for end in ends):
                yield Relation(kind, head, tail)
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
        raise DataError(path, line, f"start or end of entity {quoted(name)} is no whole number", ENTITY)
    for _ in item.keys() - ENTITY_KEYS:
        problems.note("key of an entity that is not ours, ignored", path, line)
    if item.get("text"):
        words = string(item["text"], "entities.text", path, line, problems)
        return offsets.entity(Said(name, kind, ((start, end),), words, line))
    if not 0 <= start < end:
        what = f"entity {quoted(name)} goes from {start} to {end}"
        raise DataError(path, line, what, "0 ≤ start < end; the end is excluded")
    if end > length:
        what = f"entity {quoted(name)} ends at {end}, the text has {length} characters"
        raise DataError(path, line, what, "offsets count characters, not bytes")
    return Entity(name, kind, start, end)


def _tagged(row: Mapping[str, object], path: Path, line: int, problems: Problems) -> Document:
    for name in ("tokens", "tags"):
        if name not in row:
            raise DataError(path, line, f'no "{name}"', f"it must be a list: write {SHAPE}")
    tokens, tags = (
        [string(item, name, path, line, problems) for item in _list(row, name, path, line)]
        for name in ("tokens", "tags")
    )
    if len(tokens) != len(tags):
        raise DataError(path, line, f"{len(tokens)} tokens, but {len(tags)} tags", "give every token one tag")
    for token, tag in zip(tokens, tags, strict=True):
        mark, kind = split_tag(tag)
        if not mark or (mark != "O" and not kind):
            raise DataError(path, line, f"{shown(tag)} is no tag", no_tag(tag, token))
    return joined("", tokens, tags, problems, (path, line))


def _labels(row: Mapping[str, object], options: Options, path: Path, line: int, problems: Problems) -> Iterator[str]:
    key = options.label or ("label" if "label" in row else "labels")
    if isinstance(row.get(key), str | int) and key != "labels":
        yield str(row[key])
        return
    for item in _list(row, key, path, line):
        yield string(item, key, path, line, problems)


def _list(row: Mapping[str, object], name: str, path: Path, line: int) -> list[object]:
    value = row.get(name, [])
    if not isinstance(value, list):
        raise DataError(path, line, f'"{name}" is a {type(value).__name__}', "it must be a list")
    return value


def _word(row: Mapping[str, object], name: str, path: Path, line: int, problems: Problems) -> str:
    value = row.get(name)
    if value is None or isinstance(value, int):  # numbers make good ids
        return "" if value is None else str(value)
    return string(value, name, path, line, problems)


@contextmanager
def write_jsonl(path: Path, _losses: Problems, _options: Options) -> Iterator[Sink]:
    """A line per document; nothing is lost, not even that it has no entities, which readers of entities ask for."""
    always = ("id", "text", "entities")
    with text_file(path) as write:

        def sink(placed: Placed) -> None:
            kept = {key: value for key, value in placed.document.plain().items() if value or key in always}
            write(json.dumps(kept, ensure_ascii=False) + "\n")

        yield sink
