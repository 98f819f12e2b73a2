"""From documents with entity mentions and public facts to bags, as each site does it with its own notes.

    for row in align(documents, facts, pairs=[("Chemical", "Disease")], problems=problems): ...

Rules:
1. An entity's id is its public id; `a|b` is a mention of both. Mentions without one (empty, `-`, `-1`) and mentions
   outside their text are counted and left out.
2. Candidates are pairs of different ids, with types in `pairs`, within one sentence, line or note. Of several mentions
   the nearest two stand for the pair; a pair whose mentions only overlap is counted and left out. Where both orders
   of a pair are allowed, it is a candidate in those that the facts have, or else in that of the text.
3. A candidate gives one sentence for each relation that the facts have for its pair, and one for `NA` if they have
   none. Ids of which the facts know nothing are counted; their pairs are `NA`.
4. A sentence of more than `CROWD` mentions gives none, and is counted.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations, product

from wardround.formats.details import NO_CONCEPT, listed_concepts
from wardround.text.document import Entity, Placed, overlap
from wardround.text.facts import BagSentence, Facts, sentence
from wardround.text.pairs import CROWD, too_many
from wardround.text.reading import Problems
from wardround.text.sentences import Scope, held, sentences
from wardround.text.shown import own_source


def align(
    notes: Iterable[Placed],
    facts: Facts,
    pairs: Collection[tuple[str, str]],
    *,
    scope: Scope = "sentence",
    problems: Problems | None = None,
) -> Iterator[BagSentence]:
    """The sentences of all candidate pairs, note by note."""
    problems = Problems() if problems is None else problems
    for note in notes:
        document = note.document
        mentions = list(_mentions(note, facts, problems))
        spans = sentences(document.text, scope, mentions)
        for at, numbers in sorted(held(spans, mentions).items()):
            start, end = spans[at]
            if len(numbers) > CROWD:
                problems.note(too_many(scope), note.path, note.line_at(start))
                continue
            words = document.text[start:end]
            inside: dict[str, list[Entity]] = defaultdict(list)
            for number in numbers:
                inside[mentions[number].id].append(mentions[number])
            for one, other in _candidates(inside, facts, pairs):
                chosen = _nearest(inside[one], inside[other], pairs)
                if chosen is None:
                    problems.note("entities overlap, pair skipped", note.path, note.line_at(start))
                    continue
                head, tail = (Entity(m.id, m.type, m.start - start, m.end - start) for m in chosen)
                for relation in facts.relations(one, other):
                    yield sentence(
                        f"{document.id}:{start}",
                        words,
                        head,
                        tail,
                        relation,
                        source=document.source or own_source(document.id, note.path.name, note.line),
                        language=document.language,
                        patient=document.patient,
                    )


def _candidates(
    inside: Mapping[str, Sequence[Entity]], facts: Facts, pairs: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Rule 2: the ids of head and tail."""
    for one, other in permutations(inside, 2):
        if not _allowed(inside[one], inside[other], pairs):
            continue
        if (one, other) not in facts.pairs and _allowed(inside[other], inside[one], pairs):
            first = inside[one][0].start < inside[other][0].start
            if (other, one) in facts.pairs or not first:
                continue
        yield one, other


def related_types(notes: Iterable[Placed], facts: Facts) -> frozenset[tuple[str, str]]:
    """The types of head and tail of those facts whose ends are both named in one note."""
    related = set[tuple[str, str]]()
    for note in notes:
        types: dict[str, set[str]] = defaultdict(set)
        for mention in _mentions(note, facts, Problems()):
            types[mention.id].add(mention.type)
        for one, mine in types.items():
            for other in facts.tails.get(one, ()):
                related.update(product(mine, types.get(other, ())))
    return frozenset(related)


def _mentions(note: Placed, facts: Facts, problems: Problems) -> Iterator[Entity]:
    """Each mention once per id."""
    document = note.document
    for entity in document.entities:
        if not 0 <= entity.start < entity.end <= len(document.text):
            problems.note("mention outside the text, left out", note.path, note.line)
            continue
        line = note.line_at(entity.start)
        for name in listed_concepts(entity.id):
            if name in NO_CONCEPT:
                problems.note("mention without an id, left out", note.path, line)
                continue
            if name not in facts.ids:
                problems.note("id that is not in the knowledge base, its pairs are NA", note.path, line)
            yield Entity(name, entity.type, entity.start, entity.end)


def _allowed(heads: Iterable[Entity], tails: Iterable[Entity], pairs: Collection[tuple[str, str]]) -> bool:
    return any((head.type, tail.type) in pairs for head, tail in product(heads, tails))


def _nearest(
    heads: Iterable[Entity], tails: Iterable[Entity], pairs: Collection[tuple[str, str]]
) -> tuple[Entity, Entity] | None:
    apart = [
        (head, tail)
        for head, tail in product(heads, tails)
        if not overlap(head, tail) and (head.type, tail.type) in pairs
    ]
    return min(apart, key=lambda both: abs(both[0].start - both[1].start), default=None)
