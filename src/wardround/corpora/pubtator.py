"""PubTator files: title and abstract, entity mentions with the ids of public concepts, and relations between them.

    227508|t|Naloxone reverses the antihypertensive effect of clonidine.
    227508|a|In unanesthetized, …
    227508	0	8	Naloxone	Chemical	D009270
    227508	CID	D008750	D007022

Documents are separated by blank lines; offsets count characters of title, blank, abstract. A mention of several
concepts has `id|id`; further columns are left alone. Mentions whose words are not at their place are counted and, if
the words stand elsewhere within the text, moved to the nearest place.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from wardround.corpora.document import Document, Entity, Relation
from wardround.corpora.pairs import Placed, nearest_place
from wardround.corpora.reading import DataError, Problems, open_text

__all__ = ["pubtator"]

PART = re.compile(r"([^|\t]+)\|([ta])\|(.*)")


def pubtator(path: Path, encoding: str | None = None, problems: Problems | None = None) -> Iterator[Placed]:
    """The documents of a file, each with its mentions under their public ids."""
    found = Problems() if problems is None else problems
    block: list[tuple[int, str]] = []
    for line, text in enumerate(open_text(path, encoding, problems=found), 1):
        if text.strip():
            block.append((line, text))
        elif block:
            yield _document(block, path, found)
            block = []
    if block:
        yield _document(block, path, found)


def _document(block: list[tuple[int, str]], path: Path, problems: Problems) -> Placed:
    first = block[0][0]
    parts: dict[str, str] = {}
    name = ""
    for line, row in block[:2]:
        if (part := PART.fullmatch(row)) is None:
            break
        if name and part[1] != name:
            raise DataError(path, line, "title and abstract have different ids", "put a blank line between documents")
        name = part[1]
        parts[part[2]] = part[3]
    if "t" not in parts:
        raise DataError(path, first, "a document without a title", "begin it with id|t|title")
    text = f"{parts['t']} {parts.get('a', '')}"
    entities, relations = [], []
    for line, row in block[len(parts) :]:
        cells = row.split("\t")
        if cells[0] != name:
            raise DataError(path, line, "a line of another document", "put a blank line between documents")
        if len(cells) == 4:
            relations.append(Relation(cells[1], cells[2], cells[3]))
        elif len(cells) >= 5:
            entities.append(_entity(cells, text, path, line, problems))
        else:
            raise DataError(path, line, f"{len(cells)} cells", "a mention has six, a relation four, between tabs")
    made = Document(name, text, (), tuple(entities), tuple(relations), name, "")
    return Placed(made, path, first)


def _entity(cells: list[str], text: str, path: Path, line: int, problems: Problems) -> Entity:
    try:
        start, end = int(cells[1]), int(cells[2])
    except ValueError:
        raise DataError(
            path, line, "start or end of a mention is no whole number", "id, start, end, words, type, id"
        ) from None
    words, kind, concept = cells[3], cells[4], cells[5] if len(cells) > 5 else ""
    inside = 0 <= start < end <= len(text)
    if inside and words and text[start:end] != words:
        place = nearest_place(text, words, start)
        problems.note("mention whose words stand elsewhere" + (", moved" if place is not None else ""), path, line)
        if place is not None:
            start, end = place, place + len(words)
    return Entity(concept.strip(), kind, start, end)
