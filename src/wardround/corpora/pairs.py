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

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from wardround.text.document import Document, Entity, Relation
from wardround.text.reading import Problems, digest, one_of
from wardround.text.sentences import Scope, held, sentences

__all__ = [
    "Placed",
    "Span",
    "candidates",
    "dedupe",
    "nearest_place",
    "overlap",
    "pair",
    "pairs",
    "read_pairs",
    "resplit",
    "sample",
]


class Span(NamedTuple):
    """An entity before it has an id."""

    type: str
    start: int
    end: int


class Placed(NamedTuple):
    """A document and where it stands; line 0 means that the file is the document."""

    document: Document
    path: Path
    line: int

    def line_at(self, offset: int) -> int:
        """The line of the file where this character of the document stands."""
        return self.line or 1 + max(self.document.text.count(end, 0, offset) for end in "\r\n")


def overlap(one: Span | Entity, other: Span | Entity) -> bool:
    """Whether two spans share a character."""
    return one.start < other.end and other.start < one.end


def pair(name: str, text: str, head: Span, tail: Span, label: str, *, source: str = "", language: str = "") -> Document:
    """The document of one labelled pair."""
    return Document(
        id=name,
        text=text,
        labels=(label,),
        entities=(Entity("e1", *head), Entity("e2", *tail)),
        relations=(Relation(label, "e1", "e2"),),
        source=source,
        language=language,
    )


def nearest_place(text: str, words: str, start: int) -> int | None:
    """Where `words` stand in the text, as near to `start` as they do."""
    if not words:
        return None
    start = min(max(start, 0), len(text))
    places = (text.rfind(words, 0, start + len(words)), text.find(words, start))
    return min((place for place in places if place >= 0), key=lambda place: abs(place - start), default=None)


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
    found = Problems() if problems is None else problems
    document = note.document
    entities = sorted(document.entities, key=lambda entity: (entity.start, entity.end))
    if not entities:
        found.note("no entity, so no pair", note.path, note.line_at(0))
    told = _told(note, entities, found, both_ways=both_ways)
    for (start, end), one, other in candidates(document.text, entities, scope):
        head, tail = entities[one], entities[other]
        backwards = one > other and head.type == tail.type
        if (head.type, tail.type) not in allowed or (backwards and not both_ways):
            continue
        line = note.line_at(start)
        labels = told.pop((one, other), [none] if none else [])
        if overlap(head, tail):
            found.note("entities overlap, pair skipped", note.path, line)
            continue
        if len(labels) > 1:
            found.note("pair with several relations, a document for each", note.path, line)
        for number, label in enumerate(labels):
            made = pair(
                f"{document.id}:{head.id}-{tail.id}" + (f"-{number + 1}" if number else ""),
                document.text[start:end],
                Span(head.type, head.start - start, head.end - start),
                Span(tail.type, tail.start - start, tail.end - start),
                label,
                source=document.source or document.id,
                language=document.language,
            )
            yield Placed(made, note.path, line)
    _count_left_out(note, entities, told, allowed, scope, found)


def _told(
    note: Placed, entities: Sequence[Entity], problems: Problems, *, both_ways: bool
) -> dict[tuple[int, int], list[str]]:
    """The relations by the numbers of head and tail in the order of the text."""
    number = {entity.id: at for at, entity in enumerate(entities)}
    told: dict[tuple[int, int], list[str]] = {}
    for relation in note.document.relations:
        head, tail = number[relation.head], number[relation.tail]
        line = note.line_at(entities[head].start)
        if not both_ways and head > tail and entities[head].type == entities[tail].type:
            problems.note("relation against the order of the text, turned", note.path, line)
            head, tail = tail, head
        types = told.setdefault((head, tail), [])
        if relation.type in types:
            problems.note("repeated relation", note.path, line)
        else:
            types.append(relation.type)
    return told


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
    told: Mapping[tuple[int, int], list[str]],
    allowed: Collection[tuple[str, str]],
    scope: Scope,
    problems: Problems,
) -> None:
    for (one, other), labels in told.items():
        head, tail = entities[one], entities[other]
        if one == other:
            kind = "relation of an entity with itself, left out"
        elif (head.type, tail.type) not in allowed:
            kind = "relation between types that are not in pairs, left out"
        else:
            kind = f"relation across {scope}s, left out"
        for _ in labels:
            problems.note(kind, note.path, note.line_at(head.start))


def dedupe(train: Iterable[Placed], test: Iterable[Placed], problems: Problems, *, drop: bool) -> Iterator[Document]:
    """The training documents; those whose text is also in the test split are counted, and dropped if so wished."""
    held = {digest(row.document.text) for row in test}
    for document, path, line in train:
        shared = digest(document.text) in held
        if shared:
            problems.note("text also in test, dropped" if drop else "text also in test", path, line)
        if not (shared and drop):
            yield document


def read_pairs(
    rows: Callable[[str, Problems], Iterator[Placed]],
    split: str,
    splits: Sequence[str],
    problems: Problems | None,
    *,
    drop: bool,
) -> Iterator[Document]:
    """A reader's rows of one split as documents, the others compared with the test split."""
    found = Problems() if problems is None else problems
    wanted = rows(one_of(split, splits), found)
    if split == "test":
        return (row.document for row in wanted)
    return dedupe(wanted, rows("test", Problems()), found, drop=drop)


def resplit(
    rows: Iterable[Placed], split: str, seed: int, *, test: float = 0.2, valid: float = 0.1
) -> Iterator[Placed]:
    """The rows of one part, in order: of each label a share for testing, and of the others one for validation.

    Rows go by a hash of what they hold with the seed, so their order in the files does not matter.
    """
    held = list(_keyed(rows, str(seed)))
    labels: defaultdict[tuple[str, ...], list[bytes]] = defaultdict(list)
    for row, key in held:
        labels[row.document.labels].append(key)
    part: dict[bytes, str] = {}
    for keys in labels.values():
        testing = int(len(keys) * test + 1e-9)  # a fifth of 15 is 3, whatever the binary fraction
        trying = int((len(keys) - testing) * valid + 1e-9)
        names = ["test"] * testing + ["valid"] * trying + ["train"] * (len(keys) - testing - trying)
        part |= dict(zip(sorted(keys), names, strict=True))
    yield from (row for row, key in held if part[key] == split)


def sample(rows: Iterable[Placed], count: int, seed: int, *, balanced: bool) -> Iterator[Placed]:
    """So many of the rows, in order, drawn by the seed: as the labels occur, or as many of each."""
    held = list(_keyed(rows, f"sample {seed}"))
    groups: defaultdict[tuple[str, ...], list[bytes]] = defaultdict(list)
    for row, key in held:
        groups[row.document.labels if balanced else ()].append(key)
    each = count // max(len(groups), 1)
    kept = {key for keys in groups.values() for key in sorted(keys)[:each]}
    if len(kept) < count:
        raise ValueError(f"a sample of {count} rows, but {len(kept)} can be had; lower it")
    yield from (row for row, key in held if key in kept)


def _keyed(rows: Iterable[Placed], salt: str) -> Iterator[tuple[Placed, bytes]]:
    """Each row with a key by which chance sorts it: by what it holds, and the how many-th of its like it is."""
    seen = Counter[bytes]()
    for row in rows:
        document = row.document
        mark = digest(repr((document.text, document.labels, document.entities)))
        seen[mark] += 1
        yield row, hashlib.blake2b(mark + seen[mark].to_bytes(4), digest_size=16, key=salt.encode()).digest()
