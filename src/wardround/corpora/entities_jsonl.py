"""Our own JSONL, for entities: a text with spans per line, or tokens with tags.

    {"id": "17", "text": "Aspirin gave her a rash.", "source": "ward b",
     "entities": [{"type": "drug", "start": 0, "end": 7}, {"type": "effect", "start": 19, "end": 23}]}
    {"tokens": ["Aspirin", "gave", "a", "rash"], "tags": ["B-drug", "O", "O", "B-effect"]}

Offsets count characters (code points), the end excluded. Texts without a letter are left out and counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.corpora.document import Document, Entity
from wardround.corpora.entity_files import EntityFiles, joined
from wardround.corpora.pair_files import json_lines, string
from wardround.corpora.reading import DataError, Problems, shown
from wardround.corpora.tags import split_tag

__all__ = ["EntitiesJSONL"]

SHAPE = '{"text": …, "entities": […]} or {"tokens": […], "tags": […]}'
ENTITY = '{"type": …, "start": 0, "end": 7}'


@dataclass(frozen=True, kw_only=True)
class EntitiesJSONL(EntityFiles):
    """One file per split, or per split and hospital; a line may name its own `source`."""

    def _read(self, path: Path, problems: Problems) -> Iterator[Document]:
        for line, row in json_lines(path, self.encoding, problems, SHAPE):
            document = (
                self._tagged(row, path, line, problems) if "tokens" in row else self._marked(row, path, line, problems)
            )
            if not document.text.strip():
                problems.note("empty sentence, left out", path, line)
                continue
            yield replace(
                document,
                id=str(row.get("id") or f"{path.name}:{line}"),
                source=str(row.get("source") or ""),
                language=str(row.get("language") or ""),
            )

    def _marked(self, row: dict[str, object], path: Path, line: int, problems: Problems) -> Document:
        text = string(row.get("text"), "text", path, line, problems)
        entities = []
        for number, item in enumerate(_list(row, "entities", path, line), 1):
            if not isinstance(item, dict):
                raise DataError(path, line, f'"entities" holds a {type(item).__name__}', f"write {ENTITY}")
            kind = self._type(string(item.get("type"), "entities.type", path, line, problems), path, line)
            start, end = item.get("start"), item.get("end")
            if type(start) is not int or type(end) is not int:
                raise DataError(path, line, f"start or end of entity {number} is no whole number", ENTITY)
            if not 0 <= start < end <= len(text):
                what = f"entity {number} goes from {start} to {end}, the text has {len(text)} characters"
                raise DataError(path, line, what, "0 ≤ start < end ≤ its length; offsets count characters, not bytes")
            entities.append(Entity(f"T{number}", kind, start, end))
        return Document("", text, entities=tuple(entities))

    def _tagged(self, row: dict[str, object], path: Path, line: int, problems: Problems) -> Document:
        tokens, tags = (
            [string(item, name, path, line, problems) for item in _list(row, name, path, line)]
            for name in ("tokens", "tags")
        )
        if len(tokens) != len(tags):
            what = f"{len(tokens)} tokens, but {len(tags)} tags"
            raise DataError(path, line, what, "give every token one tag")
        told = []
        for tag in tags:
            mark, kind = split_tag(tag)
            if not mark or (mark != "O" and not kind):
                raise DataError(path, line, f"{shown(tag)} is no tag", "write O, B-type, I-type; in BIOES also E-, S-")
            told.append(tag if mark == "O" else f"{mark}-{self._type(kind, path, line)}")
        return joined("", tokens, told, problems, (path, line))


def _list(row: dict[str, object], name: str, path: Path, line: int) -> list[object]:
    value = row.get(name)
    if not isinstance(value, list):
        what = f'no "{name}"' if value is None else f'"{name}" is a {type(value).__name__}'
        raise DataError(path, line, what, f"it must be a list: write {SHAPE}")
    return value
