"""How sure a CRF is of a span: the probability of its tags there, all ways to tag the rest added up."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wardround.models.crf import CRF, Separate
from wardround.text.document import Entity
from wardround.text.tags import Span

OUT = 50.0  # by how much the scores of other tags are lowered: e^-50 of a path is none
At = tuple[int, int, int]
"""A span of tokens: its row in the batch, its start and its end."""


def span_odds(crf: CRF | Separate, emissions: Tensor, lengths: Tensor, paths: Tensor, places: Sequence[At]) -> Tensor:
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


def sure_entities(
    crf: CRF | Separate,
    emissions: Tensor,
    lengths: Tensor,
    paths: Tensor,
    spans: Sequence[Sequence[Span]],
    places: Sequence[Sequence[tuple[int, int]]],
) -> list[list[Entity]]:
    """The spans of each sentence of a batch as entities, by the characters of their tokens and with their odds."""
    at = [(row, start, end) for row, mine in enumerate(spans) for _, start, end in mine]
    sure = iter(span_odds(crf, emissions, lengths, paths, at).tolist())
    return [
        [Entity("", kind, here[start][0], here[end - 1][1], next(sure)) for kind, start, end in mine]
        for mine, here in zip(spans, places, strict=True)
    ]
