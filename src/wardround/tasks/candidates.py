"""Which pairs of entities of a text a trained model looks at, and what it says of them.

Every two entities of a sentence (line, note: as it was trained), in both directions, whose types the model was trained
to relate, are looked at once; those it calls unrelated are left out, but count towards the text's margin. Not looked
at: entities that overlap or are longer than what the model reads, and those more than `FAR` characters apart, as in a
text without sentences, those with more than `CROWD` others behind them within `FAR` characters, and none of a text with
more than `MOST` pairs: `predict` says so. How far it is with the others is told as it goes (`core/doing.py`).
"""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch import Tensor

from wardround.core.doing import so_far
from wardround.core.wanted import go_on
from wardround.text.document import Document, Entity, Relation, overlap
from wardround.text.pairs import CROWD, candidates, pair
from wardround.text.prediction import Prediction
from wardround.text.sentences import Scope, held, sentences

IN_MEMORY = 512  # pairs: a note of many entities has more of them than fit
FAR, AROUND = 1000, 4000
MOST = 1_000_000
"""The most pairs of one text that are looked at: for more a model would need hours, and all could be related."""


@dataclass(frozen=True)
class Pair:
    """Two entities of one text: its number, their ids, and the sentence with them in it."""

    text: int
    head: str
    tail: str
    document: Document


@dataclass(frozen=True)
class Candidates:
    """Which pairs a model was trained on."""

    pairs: tuple[tuple[str, str], ...] | None = None
    """The types of head and tail; any, if not known."""
    scope: Scope = "sentence"
    both_ways: bool = True

    @classmethod
    def of(cls, about: Any) -> "Candidates":
        """As a model's folder tells them."""
        return cls(about.pairs, about.scope, about.both_ways)

    def count(self, text: str, entities: Sequence[Entity]) -> int:
        """How many there are in a text, without making them."""
        total = 0
        for numbers in held(sentences(text, self.scope, entities), entities).values():
            ordered = sorted((entities[number] for number in numbers), key=lambda entity: entity.start)
            starts = [entity.start for entity in ordered]
            places: dict[str, list[int]] = {}
            for at, entity in enumerate(ordered):
                places.setdefault(entity.type, []).append(at)
            for at, entity in enumerate(ordered):
                last = bisect_right(starts, entity.start + FAR)
                if last - at - 1 > CROWD:
                    continue
                first = min(max(at + 1, bisect_left(starts, entity.end)), last)  # before it, others overlap
                if self.pairs is None:
                    total += 2 * (last - first)
                for kind, ways in self._partners(entity.type):
                    those = places.get(kind, [])
                    total += ways * (bisect_left(those, last) - bisect_left(those, first))
        return total

    def _partners(self, kind: str) -> Iterator[tuple[str, int]]:
        """The types behind an entity that it is looked at with, and how often; of any, those with less than twice."""
        if self.pairs is None:
            yield from [] if self.both_ways else [(kind, -1)]
            return
        for head, tail in {*self.pairs}:
            if head == kind:
                yield tail, 1
            if tail == kind and (head != kind or self.both_ways):
                yield head, 1

    def too_many(self, text: str, entities: Sequence[Entity]) -> bool:
        """Whether none is looked at, because there are too many."""
        return len(entities) ** 2 > MOST and self.count(text, entities) > MOST

    def within(self, number: int, note: Prediction) -> Iterator[Pair]:
        """Those of one text."""
        text, entities = note.text, note.entities
        if self.too_many(text, entities):
            return
        for (start, end), one, other in candidates(text, entities, self.scope, near=FAR):
            head, tail = entities[one], entities[other]
            if head.type == tail.type and head.start > tail.start and not self.both_ways:
                continue
            if (self.pairs is None or (head.type, tail.type) in self.pairs) and not overlap(head, tail):
                # Of an endless sentence a model reads a window only, which is cut here before it is tokenised.
                left = max(start, min(head.start, tail.start) - AROUND)
                right = min(end, max(head.end, tail.end) + AROUND)
                ends = [Entity("", entity.type, entity.start - left, entity.end - left) for entity in (head, tail)]
                yield Pair(number, head.id, tail.id, pair("", text[left:right], ends[0], ends[1], ""))


def related(
    looked_at: Candidates,
    texts: Sequence[Prediction],
    labels: Sequence[str],
    negative: str,
    scores: Callable[[Sequence[Pair]], tuple[Sequence[Pair], Tensor]],
) -> list[Prediction]:
    """The relations of each text; `scores` gives the pairs that fit into the model, and theirs (pairs, relations)."""
    pairs = (one for number, note in enumerate(texts) for one in looked_at.within(number, note))
    counts = [looked_at.count(note.text, note.entities) for note in texts]
    total, done, began = sum(count for count in counts if count <= MOST), 0, time.monotonic()
    relations: list[list[Relation]] = [[] for _ in texts]
    margins = [1.0] * len(texts)
    while some := list(islice(pairs, IN_MEMORY)):
        go_on()
        so_far("pairs", done, total, f"in {len(texts):,} text{'s' * (len(texts) > 1)}", began)
        done += len(some)
        read, values = scores(some)
        odds, best = values.softmax(1).topk(2)  # (pairs, 2)
        for one, (sure, next_best), (label, _) in zip(read, odds.tolist(), best.tolist(), strict=True):
            margins[one.text] = min(margins[one.text], sure - next_best)
            if labels[label] != negative:
                relations[one.text].append(Relation(labels[label], one.head, one.tail, sure))
    return [
        Prediction(one.text, relations=tuple(mine), margin=margin)
        for one, mine, margin in zip(texts, relations, margins, strict=True)
    ]


def within_limit(scope: str) -> str:
    """For the card of a model: which relations it cannot see."""
    return f"It looks at two entities of one {scope}; relations across {scope}s are not found."
