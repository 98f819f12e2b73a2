"""A linear-chain conditional random field: the score of a tag sequence, and the best one.

    crf = CRF(tags=7)
    loss = -crf(emissions, tags, lengths).mean()     # log-likelihood per sentence (B,)
    paths = crf.decode(emissions, lengths)           # best tags (B, L), 0 behind the end

Score of a path: start[y_1] + Σ emissions[t, y_t] + Σ transitions[y_t, y_t+1] + end[y_n]. Sentences are padded at the
end and at least one token long; what stands behind the end changes nothing.

The log-partition has its gradient written down: marginals, from the forward and the backward recursion. The backward
recursion of a sentence is the forward recursion of the sentence read from its end, so one loop over time does both,
all in log space, without a graph.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function

__all__ = ["CRF"]


class CRF(nn.Module):
    """Start, end and transition scores; `transitions[i, j]` is of moving from tag i to tag j."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))

    def forward(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The log-likelihood of each sentence's tags (B, L) under emissions (B, L, T)."""
        return self.score(emissions, tags, lengths) - self.partition(emissions, lengths)

    def score(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The score of each sentence's tags."""
        real = torch.arange(emissions.shape[1]) < lengths[:, None]  # (B, L)
        emitted = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)  # (B, L)
        moved = self.transitions[tags[:, :-1], tags[:, 1:]]  # (B, L - 1)
        ends = self.end[tags.gather(1, lengths[:, None] - 1).squeeze(1)]  # (B,)
        inside = torch.where(real, emitted, 0).sum(1) + torch.where(real[:, 1:], moved, 0).sum(1)  # (B,)
        return self.start[tags[:, 0]] + inside + ends

    def partition(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """The logarithm of the sum over all paths of e^score."""
        found: Tensor = _Partition.apply(emissions, lengths, self.start, self.end, self.transitions)  # type: ignore[no-untyped-call]
        return found

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """The best path of each sentence (B, L), by Viterbi; of equal ones, that of the lower tag numbers."""
        longest = emissions.shape[1]
        best = self.start + emissions[:, 0]  # (B, T)
        scores, froms = [best], []
        for at in range(1, longest):
            best, came = (best.unsqueeze(2) + self.transitions).max(1)  # (B, T): over the tag before
            best = best + emissions[:, at]
            scores.append(best)
            froms.append(came)
        rows, last = torch.arange(len(emissions)), lengths - 1
        tag = (torch.stack(scores, 1)[rows, last] + self.end).argmax(1)  # (B,)
        ends, paths = tag, torch.zeros(emissions.shape[:2], dtype=torch.int64)
        for at in range(longest - 1, -1, -1):
            tag = torch.where(last == at, ends, tag)  # behind its end, a sentence waits
            paths[:, at] = tag
            if at:
                came = froms[at - 1].gather(1, tag.unsqueeze(1)).squeeze(1)
                tag = torch.where(last >= at, came, tag)
        return torch.where(torch.arange(longest) < lengths[:, None], paths, 0)


class _Partition(Function):
    """The logarithm of Σ e^score, with marginals as its gradient."""

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, lengths: Tensor, start: Tensor, end: Tensor, transitions: Tensor
    ) -> Tensor:
        rows, last = torch.arange(len(emissions)), lengths - 1
        if not any(ctx.needs_input_grad):
            forth = _recursion(emissions[None], start[None, None], transitions[None])[0]  # (B, L, T)
            return torch.logsumexp(forth[rows, last] + end, 1)  # (B,)
        turned = _turned(emissions, lengths)  # (B, L, T): each sentence from its end
        both = _recursion(
            torch.stack([emissions, turned]),
            torch.stack([start, end])[:, None],
            torch.stack([transitions, transitions.t()]),
        )  # (2, B, L, T)
        forth, back = both[0], _turned(both[1], lengths) - emissions  # back: what follows a tag, without itself
        found = torch.logsumexp(forth[rows, last] + end, 1)  # (B,)
        ctx.save_for_backward(emissions, lengths, transitions, forth, back, found)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        emissions, lengths, transitions, forth, back, found = cast("tuple[Tensor, ...]", ctx.saved_tensors)
        longest = emissions.shape[1]
        real = (torch.arange(longest) < lengths[:, None]).unsqueeze(2)  # (B, L, 1)
        weight = gradient[:, None, None]
        single = torch.where(real, (forth + back - found[:, None, None]).exp() * weight, 0)  # (B, L, T): P(y_t)
        arriving = (back + emissions)[:, 1:] - found[:, None, None]  # (B, L - 1, T)
        pairs = (forth[:, :-1].unsqueeze(3) + transitions + arriving.unsqueeze(2)).exp()  # (B, L - 1, T, T)
        moved = torch.where(real[:, 1:, :, None], pairs * weight.unsqueeze(3), 0).sum((0, 1))  # (T, T)
        ends = single.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, single.shape[2]))  # (B, 1, T)
        return single, None, single[:, 0].sum(0), ends.sum((0, 1)), moved


def _recursion(emissions: Tensor, start: Tensor, transitions: Tensor) -> Tensor:
    """What the paths up to each place and tag add up to (D, B, L, T), for D directions at once."""
    steps = emissions.unbind(2)
    scores = [start + steps[0]]  # (D, B, T)
    moves = transitions.unsqueeze(1)  # (D, 1, T, T)
    for emitted in steps[1:]:
        scores.append(torch.logsumexp(scores[-1].unsqueeze(3) + moves, 2) + emitted)
    return torch.stack(scores, 2)


def _turned(rows: Tensor, lengths: Tensor) -> Tensor:
    """Each sentence (B, L, T) from its last token to its first; the padding stays behind it."""
    places = torch.arange(rows.shape[1])
    back = lengths[:, None] - 1 - places  # (B, L)
    return rows.gather(1, torch.where(back < 0, places, back).unsqueeze(2).expand_as(rows))
