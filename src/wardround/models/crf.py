"""A linear-chain conditional random field: the score of a tag sequence, and the best one.

    crf = CRF(tags=7)
    loss = -crf(emissions, tags, lengths).mean()     # log-likelihood per sentence (B,)
    paths = crf.decode(emissions, lengths)           # best tags (B, L), 0 behind the end

Score of a path: start[y_1] + Σ emissions[t, y_t] + Σ transitions[y_t, y_t+1] + end[y_n]. Sentences are padded at the
end and at least one token long; what stands behind the end changes nothing.

The log-partition has its gradient written down: marginals, from the forward and the backward recursion. The backward
recursion of a sentence is the forward recursion of the sentence read from its end, so one loop over time does both,
all in log space, without a graph. A sum over the tag before is a product of matrices, with the largest terms taken out
first; where scores lie so far apart that this could lose a term that counts, the sums are done term by term.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from wardround.core.device import entry

FAINT = 1e-25  # sums of terms of at most 1: above it, no float32 that counts has gone under
HIGH = 30.0


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

    @entry
    def partition(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """The logarithm of the sum over all paths of e^score."""
        partition: Tensor = _Partition.apply(emissions, lengths, self.start, self.end, self.transitions)  # type: ignore[no-untyped-call]
        return partition

    @entry
    @torch.no_grad()
    def each_gradient(self, inputs: tuple[Any, ...], likelihood: Tensor, gradient: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Of each sentence, the gradients of start, end and transitions: what was there less what was expected."""
        emissions, tags, lengths = inputs
        forth, back, partition = _marginals(emissions, lengths, self.start, self.end, self.transitions)
        real = torch.arange(emissions.shape[1]) < lengths[:, None]  # (B, L)
        rows, last, total = torch.arange(len(emissions)), lengths - 1, partition[:, None, None]
        single = (forth + back - total).exp()  # (B, L, T): P(y_t)
        ones = functional.one_hot(tags, emissions.shape[2]).to(emissions.dtype)  # (B, L, T)
        arriving = torch.where(real[:, 1:, None], (back + emissions)[:, 1:], -torch.inf)  # (B, L - 1, T)
        expected = sum(
            (leaving[:, :, None] + self.transitions + coming[:, None, :] - total).exp()
            for leaving, coming in zip(forth[:, :-1].unbind(1), arriving.unbind(1), strict=True)
        )  # (B, T, T)
        moved = (ones[:, :-1] * real[:, 1:, None]).transpose(1, 2) @ ones[:, 1:]  # (B, T, T)
        return {
            "start": gradient[:, None] * (ones[:, 0] - single[:, 0]),
            "end": gradient[:, None] * (ones[rows, last] - single[rows, last]),
            "transitions": gradient[:, None, None] * (moved - expected),
        }

    @entry
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


class Separate(nn.Module):
    """What a CRF is without transitions: each tag for itself, by the same questions."""

    def forward(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The log-likelihood of each sentence's tags (B, L) under emissions (B, L, T)."""
        emitted = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)  # (B, L)
        return torch.where(_real(emissions, lengths), emitted, 0).sum(1) - self.partition(emissions, lengths)

    @entry
    def partition(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """The logarithm of the sum over all paths of e^score, which is a sum over places."""
        return torch.where(_real(emissions, lengths), emissions.logsumexp(2), 0).sum(1)  # (B,)

    @entry
    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """The best tag of each token (B, L), 0 behind the end."""
        return torch.where(_real(emissions, lengths), emissions.argmax(2), 0)


def _real(emissions: Tensor, lengths: Tensor) -> Tensor:
    """Which places are no padding (B, L)."""
    return torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]


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
        forth, back, partition = _marginals(emissions, lengths, start, end, transitions)
        ctx.save_for_backward(emissions, lengths, transitions, forth, back, partition)
        return partition

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        emissions, lengths, transitions, forth, back, partition = cast("tuple[Tensor, ...]", ctx.saved_tensors)
        longest = emissions.shape[1]
        real = (torch.arange(longest, device=lengths.device) < lengths[:, None]).unsqueeze(2)  # (B, L, 1)
        weight = gradient[:, None, None]
        total = partition[:, None, None]
        single = torch.where(real, (forth + back - total).exp() * weight, 0)  # (B, L, T): P(y_t)
        weight = torch.where(real[:, 1:], weight, 0)  # (B, L - 1, 1)
        moved = _moved(forth[:, :-1], (back + emissions)[:, 1:], transitions, total, weight)  # (T, T)
        ends = single.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, single.shape[2]))  # (B, 1, T)
        return single, None, single[:, 0].sum(0), ends.sum((0, 1)), moved


def _marginals(
    emissions: Tensor, lengths: Tensor, start: Tensor, end: Tensor, transitions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What leads to each tag (B, L, T), what follows it, without itself (B, L, T), and the log-partition (B,)."""
    turned = _turned(emissions, lengths)  # (B, L, T): each sentence from its end
    both = _recursion(
        torch.stack([emissions, turned]),
        torch.stack([start, end])[:, None],
        torch.stack([transitions, transitions.t()]),
    )  # (2, B, L, T)
    forth, back = both[0], _turned(both[1], lengths) - emissions
    return forth, back, torch.logsumexp(forth[torch.arange(len(emissions)), lengths - 1] + end, 1)


def _recursion(emissions: Tensor, start: Tensor, transitions: Tensor) -> Tensor:
    """What the paths up to each place and tag add up to (D, B, L, T), for D directions at once."""
    top = transitions.amax(1, keepdim=True)  # (D, 1, T)
    moves = (transitions - top).exp()  # (D, T, T), each at most 1
    steps = (emissions + top.unsqueeze(2)).unbind(2)
    scores, sums = [start + emissions[:, :, 0]], []  # (D, B, T)
    for emitted in steps[1:]:
        best = scores[-1].amax(2, keepdim=True)  # (D, B, 1)
        sums.append((scores[-1] - best).exp() @ moves)  # (D, B, T)
        scores.append(sums[-1].log() + best + emitted)
    if sums and not torch.stack(sums).min() > FAINT:  # a term that counts may have gone under
        scores = scores[:1]
        for emitted in emissions.unbind(2)[1:]:
            scores.append(torch.logsumexp(scores[-1].unsqueeze(3) + transitions.unsqueeze(1), 2) + emitted)
    return torch.stack(scores, 2)


def _moved(leaving: Tensor, arriving: Tensor, transitions: Tensor, total: Tensor, weight: Tensor) -> Tensor:
    """Σ weight · P(y_t, y_t+1) over all places (T, T), from scores (B, L - 1, T) before and after each move."""
    if not leaving.shape[1]:  # sentences of one token
        return torch.zeros_like(transitions)
    first, last, top = leaving.amax(2, keepdim=True), arriving.amax(2, keepdim=True), transitions.amax()
    height = first + last + top - total  # (B, L - 1, 1): the most that a move's log-probability could be
    if not torch.where(weight != 0, height, 0).abs().amax() < HIGH:
        pairs = (leaving.unsqueeze(3) + transitions + arriving.unsqueeze(2) - total.unsqueeze(3)).exp()
        return torch.where(weight.unsqueeze(3) != 0, pairs * weight.unsqueeze(3), 0).sum((0, 1))
    before = (leaving - first).exp() * torch.where(weight != 0, height.exp() * weight, 0)  # (B, L - 1, T)
    after = (arriving - last).exp()
    return (before.flatten(0, 1).t() @ after.flatten(0, 1)) * (transitions - top).exp()


def _turned(rows: Tensor, lengths: Tensor) -> Tensor:
    """Each sentence (B, L, T) from its last token to its first; the padding stays behind it."""
    places = torch.arange(rows.shape[1])
    back = lengths[:, None] - 1 - places  # (B, L)
    return rows.gather(1, torch.where(back < 0, places, back).unsqueeze(2).expand_as(rows))
