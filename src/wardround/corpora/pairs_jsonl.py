"""Our own JSONL, for relations: a document per line, as `Document` has it.

    {"id": "17", "text": "Aspirin gave her a rash.",
     "entities": [{"id": "T1", "type": "drug", "start": 0, "end": 7}, …],
     "relations": [{"type": "causes", "head": "T1", "tail": "T2"}], "source": "ward b", "language": "en"}

Only `text` and `entities` must be there. Offsets count characters (code points), the end excluded. A document becomes
candidate pairs by the rules of `pairs`; a file of pair documents comes back as it was written, except for ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.document import Document, Entity, Relation
from wardround.corpora.pair_files import NoteFiles, json_lines, string
from wardround.corpora.pairs import Placed
from wardround.corpora.reading import DataError, Problems, digest, shown

__all__ = ["PairsJSONL"]

SHAPE = '{"text": …, "entities": […], "relations": […]}'
ENTITY = '{"id": "T1", "type": …, "start": 0, "end": 7}'
RELATION = '{"type": …, "head": "T1", "tail": "T2"}'


@dataclass(frozen=True, kw_only=True)
class PairsJSONL(NoteFiles):
    """One file per split."""

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        path = self.path(split)
        ids = set[bytes]()
        for line, row in json_lines(path, self.encoding, problems, SHAPE):
            text = string(row.get("text"), "text", path, line, problems)
            entities: dict[str, Entity] = {}
            for item in _items(row, "entities", ENTITY, path, line):
                entity = _entity(item, text, path, line, problems)
                if entity.id in entities:
                    raise DataError(path, line, f"two entities {shown(entity.id)}", "ids must differ within a document")
                entities[entity.id] = entity
            relations = []
            for item in _items(row, "relations", RELATION, path, line):
                kind, head, tail = (
                    string(item.get(key), f"relations.{key}", path, line, problems) for key in ("type", "head", "tail")
                )
                for end in (head, tail):
                    if end not in entities:
                        raise DataError(path, line, f"a relation names {shown(end)}, which is no entity here", RELATION)
                relations.append(Relation(self._label(kind, path, line), head, tail))
            document = Document(
                id=str(row.get("id") or f"{path.name}:{line}"),
                text=text,
                labels=tuple(string(item, "labels", path, line, problems) for item in _list(row, "labels", path, line)),
                entities=tuple(entities.values()),
                relations=tuple(relations),
                source=str(row.get("source") or ""),
                language=str(row.get("language") or self.language),
            )
            if (mark := digest(document.id)) in ids:
                problems.note("repeated id", path, line)
            ids.add(mark)
            yield Placed(document, path, line)


def _list(row: Mapping[str, object], name: str, path: Path, line: int) -> list[object]:
    value = row.get(name, [])
    if not isinstance(value, list):
        raise DataError(path, line, f'"{name}" is a {type(value).__name__}', "it must be a list")
    return value


def _items(row: Mapping[str, object], name: str, shape: str, path: Path, line: int) -> Iterator[dict[str, object]]:
    if name == "entities" and name not in row:
        raise DataError(path, line, 'no "entities"', f"write {SHAPE}; an empty list if there are none")
    for item in _list(row, name, path, line):
        if not isinstance(item, dict):
            raise DataError(path, line, f'"{name}" holds a {type(item).__name__}', f"write {shape}")
        yield item


def _entity(item: Mapping[str, object], text: str, path: Path, line: int, problems: Problems) -> Entity:
    name, kind = (string(item.get(key), f"entities.{key}", path, line, problems) for key in ("id", "type"))
    start, end = item.get("start"), item.get("end")
    if type(start) is not int or type(end) is not int:
        raise DataError(path, line, f"start or end of entity {shown(name)} is no whole number", ENTITY)
    if not 0 <= start < end:
        what = f"entity {shown(name)} goes from {start} to {end}"
        raise DataError(path, line, what, "0 ≤ start < end; the end is excluded")
    if end > len(text):
        what = f"entity {shown(name)} ends at {end}, the text has {len(text)} characters"
        raise DataError(path, line, what, "offsets count characters, not bytes")
    return Entity(name, kind, start, end)
