"""Pair documents, which every relation reader yields: one sentence, two entities, one label.

    for row in pairs(note, {("treatment", "problem")}, "none"): ...

Rules:
1. A pair document has exactly the entities `e1` (head) and `e2` (tail), and one relation from `e1` to `e2` whose
   type is its only label. Pairs that nobody related carry the label `none`.
2. Candidates are all ordered pairs of the allowed types within one sentence, line or note (`scope`). With
   `both_ways = false`, two entities of one type are one candidate, the head being the first in the text.
3. A pair with two relations gives two documents. Overlapping entities give none, for no marker fits around both.
   Relations that no candidate covers are left out. All of these are counted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from wardround.text.document import DISCONTINUOUS, Document, Entity, Placed, Relation, overlap
from wardround.text.reading import Problems
from wardround.text.sentences import Scope, held, sentences


def pair(
    name: str, text: str, head: Entity, tail: Entity, label: str, *, source: str = "", language: str = "",
    patient: str = "",
) -> Document:  # fmt: skip
    """The document of one labelled pair."""
    return Document(
        id=name,
        text=text,
        labels=(label,),
        entities=(replace(head, id="e1"), replace(tail, id="e2")),
        relations=(Relation(label, "e1", "e2"),),
        source=source,
        language=language,
        patient=patient,
    )


def note_of_pair(document: Document) -> str:
    """The id of the note that a pair was made of; of any other document its own id, whatever is in it."""
    note, _, ends = document.id.rpartition(":")
    ours = [(one.head, one.tail) for one in document.relations] == [("e1", "e2")] and "-" in ends
    return note if note and ours else document.id


def pairs(
    note: Placed,
    allowed: Collection[tuple[str, str]],
    none: str = "none",
    *,
    scope: Scope = "sentence",
    both_ways: bool = True,
    problems: Problems | None = None,
) -> Iterator[Placed]:
    """Every candidate pair of a note with its relation or `none`; an empty `none` leaves the unrelated out."""
    problems = Problems() if problems is None else problems
    document = note.document
    entities = sorted(document.entities, key=lambda entity: (entity.start, entity.end))
    if not entities:
        problems.note("no entity, so no pair", note.path, note.line_at(0))
    for entity in entities:
        if entity.parts:
            problems.note(DISCONTINUOUS, note.path, note.line_at(entity.start))
    relations = _relations(note, entities, problems, both_ways=both_ways)
    for (start, end), one, other in candidates(document.text, entities, scope):
        head, tail = entities[one], entities[other]
        backwards = one > other and head.type == tail.type
        if (head.type, tail.type) not in allowed or (backwards and not both_ways):
            continue
        line = note.line_at(start)
        labels = relations.pop((one, other), [none] if none else [])
        if overlap(head, tail):
            problems.note("entities overlap, pair skipped", note.path, line)
            continue
        if len(labels) > 1:
            problems.note("pair with several relations, a document for each", note.path, line)
        for number, label in enumerate(labels):
            made = pair(
                f"{document.id}:{head.id}-{tail.id}" + (f"-{number + 1}" if number else ""),
                document.text[start:end],
                head.moved(-start),
                tail.moved(-start),
                label,
                source=document.source or document.id,
                language=document.language,
                patient=document.patient,
            )
            yield Placed(made, note.path, line)
    _count_left_out(note, entities, relations, allowed, scope, problems)


def _relations(
    note: Placed, entities: Sequence[Entity], problems: Problems, *, both_ways: bool
) -> dict[tuple[int, int], list[str]]:
    """The relations by the numbers of head and tail in the order of the text."""
    number = {entity.id: at for at, entity in enumerate(entities)}
    relations: dict[tuple[int, int], list[str]] = {}
    for relation in note.document.relations:
        head, tail = number[relation.head], number[relation.tail]
        line = note.line_at(entities[head].start)
        if not both_ways and head > tail and entities[head].type == entities[tail].type:
            problems.note("relation against the order of the text, turned", note.path, line)
            head, tail = tail, head
        types = relations.setdefault((head, tail), [])
        if relation.type in types:
            problems.note("repeated relation", note.path, line)
        else:
            types.append(relation.type)
    return relations


def candidates(
    text: str, entities: Sequence[Entity], scope: Scope = "sentence", near: int | None = None
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Every ordered pair of entities in one sentence, by their numbers, with the sentence's start and end.

    With `near`, only those that begin at most so many characters apart.
    """
    spans = sentences(text, scope, entities)
    for at, numbers in held(spans, entities).items():
        for one, other in permutations(numbers, 2) if near is None else _near(entities, numbers, near):
            yield spans[at], one, other


def _near(entities: Sequence[Entity], numbers: Sequence[int], near: int) -> Iterator[tuple[int, int]]:
    """The pairs that are not far apart, without a look at all the others: a text without a full stop has too many."""
    ordered = sorted(numbers, key=lambda number: entities[number].start)
    for at, one in enumerate(ordered):
        for other in map(ordered.__getitem__, range(at + 1, len(ordered))):
            if entities[other].start - entities[one].start > near:
                break
            yield one, other
            yield other, one


def _count_left_out(
    note: Placed,
    entities: Sequence[Entity],
    relations: Mapping[tuple[int, int], list[str]],
    allowed: Collection[tuple[str, str]],
    scope: Scope,
    problems: Problems,
) -> None:
    for (one, other), labels in relations.items():
        head, tail = entities[one], entities[other]
        if one == other:
            kind = "relation of an entity with itself, left out"
        elif (head.type, tail.type) not in allowed:
            kind = "relation between types that are not in pairs, left out"
        else:
            kind = f"relation across {scope}s, left out"
        for _ in labels:
            problems.note(kind, note.path, note.line_at(head.start))
