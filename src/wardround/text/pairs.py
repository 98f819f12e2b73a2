"""Pair documents, which every relation reader yields: one sentence, two entities, one label.

    for row in pairs(note, {("treatment", "problem")}, "none"): ...

Rules:
1. A pair document has exactly the entities `e1` (head) and `e2` (tail), and one relation from `e1` to `e2` whose
   type is its only label. Pairs that nobody related carry the label `none`.
2. Candidates are all ordered pairs of the allowed types within one sentence, line or note (`scope`). With
   `both_ways = false`, two entities of one type are one candidate, the head being the first in the text.
3. A pair with two relations gives two documents. Overlapping entities give none, for no marker fits around both.
   Relations that no candidate covers are left out. All of these are counted.
4. A relation of concepts (`wardround.text.concepts`) holds of every candidate that mentions the two, and is left out
   only if none does.
5. A sentence of more than `CROWD` entities gives none: their pairs would be more than anybody waits for.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from wardround.text.concepts import ALL_MENTIONS, Key, concept_keys, related_concepts
from wardround.text.document import DISCONTINUOUS, Document, Entity, Placed, Relation, overlap
from wardround.text.reading import Problems
from wardround.text.sentences import Scope, held, sentences
from wardround.text.shown import own_source

CROWD = 1000
"""The most entities of one sentence that are paired, or of those near one of them: far more than honest notes have."""


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


def is_pair(document: Document) -> bool:
    """Whether it is one pair of a text, which comes again with every other pair in it."""
    return [(one.head, one.tail) for one in document.relations] == [("e1", "e2")] and len(document.entities) == 2


def note_of_pair(document: Document) -> str:
    """The id of the note that a pair was made of; of any other document its own id, whatever is in it."""
    note, _, ends = document.id.rpartition(":")
    return note if note and is_pair(document) and "-" in ends else document.id


def text_of_pair(document: Document, *, pair: bool = False) -> str:
    """What is the same for documents that say something of the same: the text, and of a `pair` its places."""
    places = [(one.start, one.end) for one in document.entities] if pair or is_pair(document) else ""
    return f"{document.text}{places}"


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
    relations = _relations(note, entities, scope, problems, both_ways=both_ways)
    shared = _Shared(document, entities, both_ways=both_ways)
    place, words = (0, 0), ""
    for (start, end), one, other in candidates(document.text, entities, scope):
        if place != (start, end):  # one text for all its pairs, and not a copy for each
            place, words = (start, end), document.text[start:end]
        head, tail = entities[one], entities[other]
        backwards = one > other and head.type == tail.type
        if (head.type, tail.type) not in allowed or (backwards and not both_ways):
            continue
        line = note.line_at(start)
        labels = relations.pop((one, other), [])
        if overlap(head, tail):
            problems.note("entities overlap, pair skipped", note.path, line)
            continue
        labels = [*dict.fromkeys([*labels, *shared.labels(one, other)])]  # mentions may have several concepts in common
        labels = labels or [none] * bool(none)
        if len(labels) > 1:
            problems.note("pair with several relations, a document for each", note.path, line)
        for number, label in enumerate(labels):
            made = pair(
                f"{document.id}:{head.id}-{tail.id}" + (f"-{number + 1}" if number else ""),
                words,
                head.moved(-start),
                tail.moved(-start),
                label,
                source=document.source or own_source(document.id, note.path.name, note.line),
                language=document.language,
                patient=document.patient,
            )
            yield Placed(made, note.path, line)
    left = {ends: [one for one in labels if not shared.covers(*ends, one)] for ends, labels in relations.items()}
    _count_left_out(note, entities, left, allowed, scope, problems)


class _Shared:
    """The relations of a document that hold of all mentions of two concepts, and which of them some pair has shown."""

    def __init__(self, document: Document, entities: Sequence[Entity], *, both_ways: bool) -> None:
        self.entities, self.both_ways = entities, both_ways
        named = {entity.id: entity for entity in entities}
        self.types: dict[Key, dict[Key, dict[str, bool]]] = {}
        for relation in document.relations:
            if ALL_MENTIONS in relation.attributes:
                first, second = related_concepts(relation, named[relation.head], named[relation.tail])
                self.types.setdefault(first, {}).setdefault(second, {})[relation.type] = False
        ends = self.types.keys() | {key for others in self.types.values() for key in others}
        self.keys = [concept_keys(entity) & ends if ends else set[Key]() for entity in entities]

    def labels(self, head: int, tail: int) -> Iterator[str]:
        """The relations of a pair by its concepts."""
        for types in self._common(head, tail):
            for kind in types:
                types[kind] = True
                yield kind

    def covers(self, head: int, tail: int, kind: str) -> bool:
        """Whether another pair has shown the relation of these two."""
        return any(types.get(kind) for types in self._common(head, tail))

    def _common(self, head: int, tail: int) -> Iterator[dict[str, bool]]:
        ways = [(self.keys[head], self.keys[tail])]
        if not self.both_ways and self.entities[head].type == self.entities[tail].type:
            ways.append((self.keys[tail], self.keys[head]))
        for first, second in ways:
            for one in sorted(first & self.types.keys()):
                for other in sorted(second & self.types[one].keys()):
                    yield self.types[one][other]


def too_many(scope: Scope) -> str:
    """What is noted of a sentence, a line or a note in which nothing is paired."""
    return f"{scope} of more than {CROWD:,} entities, none of its pairs is read"


def _relations(
    note: Placed, entities: Sequence[Entity], scope: Scope, problems: Problems, *, both_ways: bool
) -> dict[tuple[int, int], list[str]]:
    """The relations by the numbers of head and tail in the order of the text, but for those in a crowd."""
    number = {entity.id: at for at, entity in enumerate(entities)}
    relations: dict[tuple[int, int], list[str]] = {}
    for relation in note.document.relations:
        head, tail = number[relation.head], number[relation.tail]
        line = note.line_at(entities[head].start)
        if not both_ways and head > tail and entities[head].type == entities[tail].type:
            problems.note("relation against the order of the text, turned", note.path, line)
            head, tail = tail, head
        types = relations.setdefault((head, tail), [])
        if relation.type not in types:
            types.append(relation.type)
        elif ALL_MENTIONS not in relation.attributes:  # of other concepts of theirs, it is another
            problems.note("repeated relation", note.path, line)
    if crowd := set(crowded(note.document.text, entities, scope)):
        problems.note(too_many(scope), note.path, note.line_at(entities[min(crowd)].start))
    return {ends: types for ends, types in relations.items() if crowd.isdisjoint(ends)}


def candidates(
    text: str, entities: Sequence[Entity], scope: Scope = "sentence", near: int | None = None
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Every ordered pair of entities in one sentence, by their numbers, with the sentence's start and end.

    With `near`, only those that begin at most so many characters apart.
    """
    spans = sentences(text, scope, entities)
    for at, numbers in held(spans, entities).items():
        if near is not None:
            both: Iterator[tuple[int, int]] = _near(entities, numbers, near)
        else:
            both = permutations(numbers, 2) if len(numbers) <= CROWD else iter(())
        for one, other in both:
            yield spans[at], one, other


def crowded(text: str, entities: Sequence[Entity], scope: Scope = "sentence", near: int | None = None) -> list[int]:
    """The numbers of the entities that are in no candidate, or not in all, since too many others are beside them."""
    if len(entities) <= CROWD:
        return []
    places = held(sentences(text, scope, entities), entities).values()
    if near is None:
        return [number for numbers in places if len(numbers) > CROWD for number in numbers]
    return [one for numbers in places for one, others in _neighbours(entities, numbers, near) if len(others) > CROWD]


def _near(entities: Sequence[Entity], numbers: Sequence[int], near: int) -> Iterator[tuple[int, int]]:
    """The pairs that are not far apart, without a look at all the others: a text without a full stop has too many."""
    for one, others in _neighbours(entities, numbers, near):
        for other in others if len(others) <= CROWD else ():
            yield one, other
            yield other, one


def _neighbours(entities: Sequence[Entity], numbers: Sequence[int], near: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Each entity, with those that begin behind it and not far away; of a crowd one more than are paired."""
    ordered = sorted(numbers, key=lambda number: entities[number].start)
    starts = [entities[number].start for number in ordered]
    for at, one in enumerate(ordered):
        yield one, ordered[at + 1 : min(bisect_right(starts, starts[at] + near), at + CROWD + 2)]


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
