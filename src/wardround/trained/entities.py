"""Named entities of texts, by a trained tagger."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wardround.models.crf import CRF
from wardround.models.tagger import Tagger
from wardround.tasks.batching import Ragged
from wardround.tasks.tagging import TagBatch, TagExamples, TaggingTask
from wardround.text.document import Document
from wardround.text.reading import Problems
from wardround.text.tags import spans
from wardround.text.tokens import Sentence, tokenised
from wardround.trained.predicted import Found

__all__ = ["found_entities", "span_odds"]

AT_ONCE = 64
IN_MEMORY = 1024  # sentences: a frozen encoder's states of a long note's would take gigabytes
OUT = 50.0  # by how much the scores of other tags are lowered: e^-50 of a path is none
At = tuple[int, int, int]
"""A span of tokens: its row in the batch, its start and its end."""


@torch.no_grad()
def found_entities(task: TaggingTask, model: Tagger, texts: Sequence[str]) -> list[list[Found]]:
    """The entities of each text, in order; long texts sentence by sentence, offsets kept."""
    sentences: list[Sentence] = []
    homes: list[int] = []
    for number, text in enumerate(texts):
        chosen = task.settings
        for sentence in tokenised(Document("", text), Problems(), unit=chosen.tokens, longest=chosen.longest):
            sentences.append(sentence)
            homes.append(number)
    found: list[list[Found]] = [[] for _ in texts]
    for first in range(0, len(sentences), IN_MEMORY):
        part = slice(first, first + IN_MEMORY)
        for home, mine in zip(homes[part], _in_sentences(task, model, sentences[part]), strict=True):
            found[home] += mine
    return found


def _in_sentences(task: TaggingTask, model: Tagger, sentences: Sequence[Sentence]) -> list[list[Found]]:
    """The entities of each sentence, in order."""
    found: list[list[Found]] = [[] for _ in sentences]
    examples = TagExamples(sentences, Ragged([[0] * len(one.words) for one in sentences]), {}, task.sources)
    for batch in task.batches(examples, AT_ONCE, None):
        assert isinstance(batch, TagBatch)  # noqa: S101 -- what this task's batches are
        emissions, lengths = model(batch.inputs), batch.inputs.lengths  # (B, L, tags), (B,)
        paths = model.crf.decode(emissions, lengths)  # (B, L)
        told = [
            spans([task.tags[tag] for tag in path[:length]], task.scheme)[0]
            for path, length in zip(paths.tolist(), lengths.tolist(), strict=True)
        ]
        places = [(row, start, end) for row, mine in enumerate(told) for _, start, end in mine]
        sure = iter(span_odds(model.crf, emissions, lengths, paths, places).tolist())
        for row, mine in zip(batch.rows.tolist(), told, strict=True):
            at = sentences[row].places
            found[row] = [Found(kind, at[start][0], at[end - 1][1], next(sure)) for kind, start, end in mine]
    return found


def span_odds(crf: CRF, emissions: Tensor, lengths: Tensor, paths: Tensor, places: Sequence[At]) -> Tensor:
    """The probability of the path's tags over each span, whatever the tags of other tokens (spans,)."""
    if not places:
        return emissions.new_zeros(0)
    rows, starts, ends = (torch.tensor(column) for column in zip(*places, strict=True))  # (S,)
    steps = torch.arange(emissions.shape[1])
    inside = (steps >= starts[:, None]) & (steps < ends[:, None])  # (S, L)
    mine = torch.nn.functional.one_hot(paths[rows], emissions.shape[2]).bool()  # (S, L, tags)
    held = emissions[rows] - OUT * (inside.unsqueeze(2) & ~mine)  # (S, L, tags)
    odds = crf.partition(held, lengths[rows]) - crf.partition(emissions, lengths)[rows]  # (S,)
    return odds.exp().clamp(max=1.0)
