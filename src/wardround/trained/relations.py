"""Relations between the entities of texts, by a trained relation model or PCNN.

Every two entities of a sentence (line, note: as it was trained), in both directions, whose types the model was trained
to relate, are looked at once; those it calls unrelated are left out. Not looked at: entities that overlap or are longer
than what the model reads, and those more than `FAR` characters apart, as in a text without sentences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from wardround.models.pcnn import PCNN
from wardround.models.relation import RelationModel
from wardround.tasks.bags import BagsTask
from wardround.tasks.relation import PairBatch, RelationTask
from wardround.text.document import Document, Entity, overlap
from wardround.text.facts import UNRELATED, sentence
from wardround.text.pairs import candidates, pair
from wardround.trained.about import About
from wardround.trained.predicted import Found, Link

__all__ = ["found_relations"]

AT_ONCE = 64
IN_MEMORY = 512  # pairs: a note of many entities has more of them than fit
FAR, AROUND = 1000, 4000


@dataclass(frozen=True)
class Pair:
    """Two entities of one text: its number, their places, and the sentence with them in it."""

    text: int
    head: int
    tail: int
    document: Document


def found_relations(
    task: RelationTask | BagsTask,
    model: RelationModel | PCNN,
    notes: Sequence[tuple[str, Sequence[Found]]],
    about: About,
) -> list[list[Link]]:
    """The relations of each text with its entities."""
    pairs = (one for number, (text, entities) in enumerate(notes) for one in _pairs(number, text, entities, about))
    found: list[list[Link]] = [[] for _ in notes]
    nothing = task.negative if isinstance(task, RelationTask) else UNRELATED
    while some := list(islice(pairs, IN_MEMORY)):
        read, scores = _scores(task, model, some)
        values, labels = scores.softmax(1).max(1)
        for one, value, label in zip(read, values.tolist(), labels.tolist(), strict=True):
            if task.labels[label] != nothing:
                found[one.text].append(Link(task.labels[label], one.head, one.tail, value))
    return found


def _pairs(number: int, text: str, entities: Sequence[Found], about: About) -> Iterator[Pair]:
    marked = [Entity(str(at), entity.type, entity.start, entity.end) for at, entity in enumerate(entities)]
    for (start, end), one, other in candidates(text, marked, about.scope, near=FAR):
        head, tail = marked[one], marked[other]
        if head.type == tail.type and head.start > tail.start and not about.both_ways:
            continue
        if (about.pairs is None or (head.type, tail.type) in about.pairs) and not overlap(head, tail):
            # Of an endless sentence a model reads a window only, which is cut here before it is tokenised.
            left, right = max(start, min(head.start, tail.start) - AROUND), min(end, max(head.end, tail.end) + AROUND)
            ends = [Entity("", entity.type, entity.start - left, entity.end - left) for entity in (head, tail)]
            yield Pair(number, one, other, pair("", text[left:right], ends[0], ends[1], ""))


@torch.no_grad()
def _scores(
    task: RelationTask | BagsTask, model: RelationModel | PCNN, pairs: Sequence[Pair]
) -> tuple[list[Pair], Tensor]:
    """Those pairs that fit into the model, and their scores (pairs, relations)."""
    if isinstance(task, BagsTask):
        assert isinstance(model, PCNN)  # noqa: S101 -- what this task's model is
        documents = [one.document for one in pairs]
        rows = [sentence("", d.text, d.entities[0], d.entities[1], UNRELATED) for d in documents]
        return list(pairs), model.classifier(task.encoded(model, rows))
    examples, fitting = task.unlabelled([one.document for one in pairs])
    scores = torch.zeros(len(fitting), len(task.labels))
    for batch in task.batches(examples, AT_ONCE, None):
        assert isinstance(batch, PairBatch)  # noqa: S101 -- what this task's batches are
        scores[batch.rows] = task.scores(model, task.features(model, batch))
    return [pairs[row] for row in fitting], scores
