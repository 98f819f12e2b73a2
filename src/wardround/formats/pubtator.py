"""PubTator files: title and abstract, mentions with the ids of public concepts, and relations between these.

    227508|t|Naloxone reverses the antihypertensive effect of clonidine.
    227508|a|In unanesthetized, …
    227508	0	8	Naloxone	Chemical	D009270
    227508	CID	D008750	D007022

Documents are separated by blank lines; offsets count characters of title, blank, abstract. As a document has it, the id
of a mention is its concept; of further mentions of one concept D1 it is D1#2, D1#3, …. A relation of concepts goes to
their two mentions that stand nearest to each other; if there was a choice, it holds of the others, too, which its
attribute `mentions = all` says (`wardround.text.concepts`), and it is counted. Where mentions of two types have one
id, a relation names the type, too (`Gene|9606`), and is refused if it does not. What a composite mention is made of (a
seventh column) is its attribute `composite`, a relation's fifth column (Novel or No) its `novelty`, and which one of a
mention's several concepts is related its `head_concept` or `tail_concept`.

Where an entity has no concept its id is written, which may be a public one; if that only counts (T1, T2, …), it is `-`,
or `local:T1` if a relation names it.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from wardround.formats.concept_relations import ByType, Mentions, of_all_types
from wardround.formats.details import (
    NO_CONCEPT,
    joined_concepts,
    listed_concepts,
    lost_confidence,
    lost_details,
    split_concepts,
)
from wardround.formats.offsets import Annotation, Offsets, nearest_place
from wardround.formats.options import Options
from wardround.formats.writing import Named, Sink, flat, lost, lost_fields, repeatable, text_file
from wardround.text.concepts import ALL_MENTIONS, OF_SEVERAL
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import LONGEST_LINE, DataError, Problems, open_text

PART = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
NUMBER = re.compile(r"-?\d{1,12}")
LOCAL = "local:"
"""Stands before an id that is not a concept's."""
COMPOSITE, NOVELTY = "composite", "novelty"


@dataclass(slots=True)
class _Block:
    """The lines of one document: its mentions under their concepts, and relations with their lines."""

    line: int
    name: str
    text: str
    mentions: list[Annotation] = field(default_factory=list)
    relations: list[tuple[int, Relation]] = field(default_factory=list)


def read_pubtator(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of a file, with an id of its own for every mention unless `concepts` are wanted."""
    for block in _blocks(path, options.encoding, problems):
        if options.concepts:
            yield Placed(_of_concepts(block, path, problems, options), path, block.line)
            continue
        names, concepts, parts, mentions = Named("#"), ByType(), ByType(), []
        for number, mention in enumerate(block.mentions, 1):
            name = names.unique(f"T{number}" if mention.id in NO_CONCEPT else mention.id.removeprefix(LOCAL))
            known = () if mention.id.startswith(LOCAL) else tuple(dict.fromkeys(split_concepts(mention.id)))
            if known and not NO_CONCEPT.isdisjoint(listed_concepts(mention.id)):
                problems.note("part of a composite mention without an id, not kept", path, mention.line)
            mentions.append(replace(mention, id=name, concepts=known))
            concepts.setdefault((mention.id, mention.type), []).append(name)
            for part in known:
                parts.setdefault((part, mention.type), []).append(name)
        offsets = Offsets(block.text, path, problems, options.fix_offsets, options.show_text)
        entities = {entity.id: entity for entity in offsets.entities(mentions)}
        relations, related = [], Mentions(of_all_types(parts | concepts), entities, path, problems)
        types, whole = {mention.type for mention in mentions}, of_all_types(concepts)
        for line, relation in block.relations:
            with problems.refusing():
                kinds, ends = zip(
                    *(_typed(end, related.concepts, types) for end in (relation.head, relation.tail)), strict=True
                )
                several = [
                    key
                    for key, name, kind in zip(OF_SEVERAL, ends, kinds, strict=True)
                    if ((name, kind) not in concepts if kind else name not in whole)
                ]
                bare = replace(relation, head=ends[0], tail=ends[1])
                if made := related.related(bare, line, several, kinds):
                    relations.append(made)
        document = Document(
            block.name, block.text, (), tuple(entities.values()), tuple(relations), language=options.language
        )
        yield Placed(document, path, block.line)


def _of_concepts(block: _Block, path: Path, problems: Problems, options: Options) -> Document:
    """A document with concepts as the ids of its entities and the ends of its relations.

    Mentions whose words are not at their place are counted and, if the words stand elsewhere in the text, moved to
    the nearest place.
    """
    entities = tuple(_moved(mention, block.text, path, problems) for mention in block.mentions)
    concepts, types = {one.id for one in entities}, {one.type for one in entities}
    relations = tuple(
        replace(one, head=_typed(one.head, concepts, types)[1], tail=_typed(one.tail, concepts, types)[1])
        for _, one in block.relations
    )
    return Document(block.name, block.text, (), entities, relations, block.name, options.language)


def _typed(end: str, concepts: Collection[str], types: Collection[str]) -> tuple[str, str]:
    """Type and id of `Gene|9606`; no type if it is an id alone, such as that of a composite mention (`D8|D9`)."""
    if end in concepts:
        return "", end
    kinds = (kind for kind in types if end.startswith(f"{kind}|") and end[len(kind) + 1 :] in concepts)
    kind = next(kinds, "")
    return kind, end[len(kind) + 1 :] if kind else end


def _blocks(path: Path, encoding: str | None, problems: Problems) -> Iterator[_Block]:
    rows: list[tuple[int, str]] = []
    size = 0
    for line, text in enumerate(open_text(path, encoding, problems=problems), 1):
        if text.strip():
            rows.append((line, text))
            if (size := size + len(text)) > LONGEST_LINE:
                what = f"a document of more than {LONGEST_LINE:,} characters"
                raise DataError(path, line, what, "put a blank line between documents")
            continue
        yield from _block(rows, path, problems)
        rows, size = [], 0
    yield from _block(rows, path, problems)


def _block(rows: Sequence[tuple[int, str]], path: Path, problems: Problems) -> Iterator[_Block]:
    if not rows:
        return
    parts: dict[str, str] = {}
    name = ""
    for line, row in rows[:2]:
        if (part := PART.fullmatch(row)) is None:
            break
        if name and part[1] != name:
            remedy = "put a blank line between documents"
            problems.refuse(DataError(path, line, "title and abstract have different ids", remedy))
            return
        name = part[1]
        parts[part[2]] = part[3]
    if "t" not in parts:
        remedy = "begin it with id|t|title"
        problems.refuse(DataError(path, rows[0][0], "a document without a title", remedy))
        return
    block = _Block(rows[0][0], name, f"{parts['t']} {parts['a']}" if parts.get("a") else parts["t"])
    for line, row in rows[len(parts) :]:
        with problems.refusing():
            _add(block, row.split("\t"), path, line, problems)
    yield block


def _add(block: _Block, cells: list[str], path: Path, line: int, problems: Problems) -> None:
    if cells[0] != block.name:
        raise DataError(path, line, "a line of another document", "put a blank line between documents")
    if len(cells) > 3 and not cells[4 if len(cells) > 5 else 1].strip():
        raise DataError(path, line, "a mention or relation without a type", "name its type, or remove the line")
    if len(cells) == 4 or (len(cells) == 5 and not NUMBER.fullmatch(cells[1])):
        novelty = tuple(Attribute(NOVELTY, cell) for cell in cells[4:] if cell.strip())
        block.relations.append((line, Relation(cells[1], cells[2], cells[3], attributes=novelty)))
    elif len(cells) >= 5:
        if not (NUMBER.fullmatch(cells[1]) and NUMBER.fullmatch(cells[2])):
            what = "start or end of a mention is not a whole number"
            raise DataError(path, line, what, "id, start, end, words, type, id")
        part, concept = (int(cells[1]), int(cells[2])), cells[5].strip() if len(cells) > 5 else ""
        composite = tuple(Attribute(COMPOSITE, cell) for cell in cells[6:7] if cell.strip())
        for _ in cells[7:]:
            problems.note("eighth or further column of a mention, ignored", path, line)
        block.mentions.append(Annotation(concept, cells[4], (part,), cells[3] or None, line, attributes=composite))
    else:
        raise DataError(path, line, f"{len(cells)} cells", "a mention has six, a relation four, between tabs")


def _moved(mention: Annotation, text: str, path: Path, problems: Problems) -> Entity:
    ((start, end),) = mention.parts
    inside = 0 <= start < end <= len(text)
    if inside and mention.words and text[start:end] != mention.words:
        place = nearest_place(text, mention.words, start)
        kind = "mention whose words are elsewhere" + (", moved" if place is not None else "")
        problems.note(kind, path, mention.line)
        if place is not None:
            start, end = place, place + len(mention.words)
    return Entity(mention.id, mention.type, start, end)


@contextmanager
def write_pubtator(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A block per document; the title is the first sentence, and relations are those of concepts."""
    with text_file(path) as write:

        def sink(placed: Placed) -> None:
            document = repeatable(placed)
            lost_fields(placed, losses, "labels", "source", "patient", "language")
            name = re.sub(r"[|\t\r\n]", "_", document.id) or "_"
            lost(placed, losses, "id with a bar, a tab or a line break", int(name != document.id))
            text = flat(document.text, placed, losses)
            stop = re.search(r"[.!?。！？] (?=.)", text)
            title, rest = (text[: stop.end() - 1], text[stop.end() :]) if stop else (text, "")
            write(f"{name}|t|{title}\n{name}|a|{rest}\n")
            for row in _rows(placed, name, text, losses):
                write("\t".join(flat(cell, placed, losses) for cell in row) + "\n")
            write("\n")

        yield sink


def _rows(placed: Placed, name: str, text: str, losses: Problems) -> Iterator[list[str]]:
    """The lines of mentions and relations."""
    document = placed.document
    lost_details(placed, losses, "parts", relations=False)
    lost_confidence(placed, losses, "entities", "relations")
    related = {end for one in document.relations for end in (one.head, one.tail)}
    ids = {one.id: joined_concepts(one.concepts) or _named(one.id, related) for one in document.entities}
    mentions, parts = ByType(), ByType()
    for one in document.entities:
        mentions.setdefault((ids[one.id], one.type), []).append(one.id)
        for concept in one.concepts:
            parts.setdefault((concept, one.type), []).append(one.id)
        composite = [it.value for it in one.attributes if it.name == COMPOSITE][:1]
        lost(placed, losses, "attributes of entities", len(one.attributes) - len(composite))
        yield [name, str(one.start), str(one.end), text[one.start : one.end], one.type, ids[one.id], *composite]
    entities = {one.id: one for one in document.entities}
    concepts = Mentions(of_all_types(parts | mentions), entities, placed.path, Problems())
    for link in document.relations:
        novelty = [it.value for it in link.attributes if it.name == NOVELTY][:1]
        which = {one.name: one.value for one in link.attributes if one.name in OF_SEVERAL}
        ends = [
            which[end] if which.get(end) in entities[mine].concepts else ids[mine]
            for end, mine in zip(OF_SEVERAL, (link.head, link.tail), strict=True)
        ]
        used = sum(one in which.values() for one in ends) + (ALL_MENTIONS in link.attributes)
        lost(placed, losses, "attributes of relations", len(link.attributes) - len(novelty) - used)
        # What a reader will make of two concepts, see above.
        kinds = [
            entities[mine].type if len(concepts.types_of(end)) > 1 else ""
            for end, mine in zip(ends, (link.head, link.tail), strict=True)
        ]
        back = concepts.related(Relation(link.type, ends[0], ends[1]), placed.line, types=kinds)
        if back is not None and ALL_MENTIONS in back.attributes:
            same = ALL_MENTIONS in link.attributes
        else:
            same = back is not None and (back.head, back.tail) == (link.head, link.tail)
        lost(placed, losses, "which mentions of two concepts are related", int(not same))
        yield [
            name,
            link.type,
            *(f"{kind}|{end}" if kind else end for kind, end in zip(kinds, ends, strict=True)),
            *novelty,
        ]


def _named(name: str, related: Collection[str]) -> str:
    """The id of an entity that has no concept: its own may be a public one, unless it only counts."""
    if not re.fullmatch(r"T\d+", name):
        return name
    return LOCAL + name if name in related else "-"
