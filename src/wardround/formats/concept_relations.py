"""Relations that a file gives to concepts, as relations of the mentions that stand for these.

    mentions = Mentions(concepts, entities, path, problems)
    mentions.related(Relation("causes", "D1", "D9"), line)      # from D1#2 to D9, which stand nearest

If the document mentions the two concepts in more than one way, the relation is marked as one of all these mentions.
Where mentions of several types have an id, that of a gene and of a species, the file has to say which type is meant.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from wardround.text.concepts import ALL_MENTIONS, OF_SEVERAL, Key, concept_keys, related_concepts
from wardround.text.document import Attribute, Entity, Relation
from wardround.text.reading import DataError, Problems
from wardround.text.shown import quoted

OF_ALL = "relation between concepts, taken to hold for each pair of their mentions"
ByType = dict[tuple[str, str], list[str]]
"""The ids of mentions by a concept and their type."""


@dataclass(frozen=True)
class Mentions:
    """The mentions of one document."""

    concepts: Mapping[str, Sequence[str]]
    """By the name that relations have for a concept, the ids of those that stand for it."""
    entities: Mapping[str, Entity]
    path: Path
    problems: Problems

    def related(
        self, relation: Relation, line: int, several: Sequence[str] = OF_SEVERAL, types: Sequence[str] = ("", "")
    ) -> Relation | None:
        """The same relation between the nearest mentions, unless all of one concept's were left out.

        Of `several`, where a mention stands for more than one concept, is said which one is meant; `types` are those of
        head and tail, as far as the file says.
        """
        named = relation.head, relation.tail
        for end, kind in zip(named, types, strict=True):
            known = self.types_of(end)
            if end not in self.concepts or (kind and known and kind not in known):
                what = f"a relation names {quoted(end)}, which no mention here has" + " with that type" * bool(kind)
                raise DataError(self.path, line, what, "add the mention or remove the relation")
            if not kind and len(known) > 1:
                what = f"a relation names {quoted(end)}, which mentions of {len(known)} types have"
                raise DataError(self.path, line, what, "write the type before the id, as in Gene|9606")
        looked_for = (*zip(named, types, strict=True),)
        if looked_for not in self._nearest:
            self._nearest[looked_for] = self._ends(*looked_for)
        ends = self._nearest[looked_for]
        if ends is None:
            self.problems.note("relation of an entity that is left out, left out", self.path, line)
            return None
        both = [self.entities[end] for end in ends]
        which = (
            Attribute(key, name)
            for key, name, mine in zip(OF_SEVERAL, named, both, strict=True)
            if key in several and len(mine.concepts) > 1
        )
        attributes = tuple(sorted({*relation.attributes, *which}))
        made = replace(relation, head=ends[0], tail=ends[1], attributes=attributes)
        first, second = related_concepts(made, *both)
        if self._counts[first] * self._counts[second] > 1:
            self.problems.note(OF_ALL, self.path, line)
            made = replace(made, attributes=tuple(sorted({*attributes, ALL_MENTIONS})))
        return made

    def types_of(self, name: str) -> frozenset[str]:
        """The types of the mentions of a concept."""
        if name not in self._types:
            mine = (self.entities[one] for one in self.concepts.get(name, ()) if one in self.entities)
            self._types[name] = frozenset(one.type for one in mine)
        return self._types[name]

    @cached_property
    def _types(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _nearest(self) -> dict[tuple[tuple[str, str], ...], tuple[str, str] | None]:
        """What was looked for already: a file may relate the same two concepts thousands of times."""
        return {}

    @cached_property
    def _counts(self) -> Counter[Key]:
        return Counter(key for entity in self.entities.values() for key in concept_keys(entity))

    def _ends(self, head: tuple[str, str], tail: tuple[str, str]) -> tuple[str, str] | None:
        heads, tails = (self._of(*end) for end in (head, tail))
        return nearest_mentions(heads, tails) if heads and tails else None

    def _of(self, name: str, kind: str) -> list[Entity]:
        """The mentions of a concept, be it of one type."""
        mine = (self.entities[one] for one in self.concepts[name] if one in self.entities)
        return [one for one in mine if kind in ("", one.type)]


def of_all_types(mentions: ByType) -> dict[str, list[str]]:
    """The mentions of each concept, whatever their type."""
    concepts: dict[str, list[str]] = {}
    for (concept, _), names in mentions.items():
        concepts.setdefault(concept, []).extend(names)
    return concepts


def nearest_mentions(heads: Sequence[Entity], tails: Sequence[Entity]) -> tuple[str, str]:
    """Of all pairs the first with the smallest gap; beside a head only tails are looked at that may be nearer."""
    others = sorted(enumerate(_distinct(tails)), key=lambda one: one[1].start)
    starts, longest = [one.start for _, one in others], max(one.end - one.start for _, one in others)
    least, best = math.inf, (heads[0].id, tails[0].id)
    for head in _distinct(heads):
        near = slice(bisect_left(starts, head.start - longest - least), bisect_right(starts, head.end + least))
        gaps = [(max(head.start - one.end, one.start - head.end), at, one.id) for at, one in others[near]]
        gap, _, name = min(gaps, default=(math.inf, 0, ""))
        if gap < least:
            least, best = gap, (head.id, name)
    return best


def _distinct(entities: Sequence[Entity]) -> list[Entity]:
    """Of those at one place the first."""
    places: dict[tuple[int, int], Entity] = {}
    for one in entities:
        places.setdefault((one.start, one.end), one)
    return list(places.values())
