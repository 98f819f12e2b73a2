"""A bound on what one site can do to the model: on the length of its update, and on the number of its examples.

    Bound(declared={"north": {"train": 1024, "test": 128}, …}.get)

At the coordinator, on the replies of one exchange side by side. Left out by name, with the reason, is a site

1. whose examples, as it declared them at the start, are more than `SIZES` times the median of the other sites';
2. that claims more examples than it declared (`reveals(…, weighs="train")`), or contradicts the method's own equations;
3. whose weights, per example, are longer than `factor` times the median of this exchange, or of an earlier one of the
   same step and round: one batch of few sentences can be all but learnt. Counts of an evaluation are compared per
   declared example, by the factor `SIZES`: hospitals' notes differ far more in what there is to find;
4. that makes the sum overflow, whoever else there is.

A site with n times the median of examples takes n times as many steps, so its update may be n times as long. One whose
weight in a mean is below average may be as much longer: so its part in the sum is no larger than an average site's.

Why `factor` = 5. In 7,000 exchanges of the methods that send weights, on `clinic`, with sites of 30 to 3,000 notes,
alike or with labels skewed by α = 0.1, an honest site's update was at most 4.3 times the median, so allowed for, but in
one exchange of FedNER with one sentence from each site, where it was 9.7 times. One site of three that sends
−10 × or 100 × its update is at 7 times the median and more.

A median of fewer than three replies protects nobody, for it follows the liar: then only 1, 2 and 4 hold, and no update
may be more than `ABSURD` times as long as the model. Lies within the bound are not found; nor are those of a majority,
nor of FedED's votes beyond their grid.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

from wardround.core.cohort import Layer
from wardround.core.record import Message, Reveal, reveals_of
from wardround.core.site import Exchange
from wardround.core.weights import Weights

__all__ = ["ENOUGH", "FACTOR", "SIZES", "Bound", "oversized"]

FACTOR = 5.0
SIZES = 100
ENOUGH = 3  # with two, either of them is the median
ABSURD = 1e6

Sizes = Mapping[str, int]
"""What a site has at most, by split."""


class Bound(Layer):
    """At the coordinator: no reply far out of line with the others', nor with what its site declared."""

    together = True

    def __init__(
        self,
        factor: float = FACTOR,
        *,
        declared: Callable[[str], Sizes | None] | None = None,
        barred: Mapping[str, str] | None = None,
        contradiction: Callable[[Message, Message], str | None] = lambda _sent, _reply: None,
    ) -> None:
        self.factor, self.declared, self.barred, self.contradiction = factor, declared, barred or {}, contradiction
        self.round = (0, 0)
        self.medians: dict[tuple[str, str], float] = {}
        """The largest of this round, by step and field; forgotten after it, as a round that is run again must be."""

    def bar(self, names: Iterable[str]) -> Mapping[str, str]:
        """Sites that declared too much to be believed are not asked."""
        return {name: self.barred[name] for name in names if name in self.barred}

    def judge(
        self, replies: Mapping[str, Message], sent: Mapping[str, Message], exchange: Exchange
    ) -> Mapping[str, str]:
        """Whose reply is a lie that can be seen, and why."""
        now = (exchange.round, len(exchange.resumed))
        if now != self.round:
            self.round, self.medians = now, {}
        sizes = {name: self.declared(name) if self.declared else {} for name in replies}
        wrong: dict[str, str] = {}
        for name, reply in replies.items():
            if why := self._claim(reply, sizes[name]) or self.contradiction(sent[name], reply):
                wrong[name] = why
        left = {name: reply for name, reply in replies.items() if name not in wrong}
        if left:
            wrong |= self._lengths(exchange.step, left, sent, sizes)
        left = {name: reply for name, reply in left.items() if name not in wrong}
        return wrong | _overflowing(left)

    def _claim(self, reply: Message, sizes: Sizes | None) -> str | None:
        """Why a reply's numbers of examples cannot be true."""
        for field, reveal in reveals_of(type(reply)).items():
            value = getattr(reply, field)
            if not reveal.weighs or isinstance(value, Tensor):
                continue
            if sizes is None:
                return f"{type(reply).__name__}.{field} counts, and the site has not declared what it has"
            most = 1 if reveal.weighs == "sites" else sizes.get(reveal.weighs)
            if most is not None and value > most:
                return f"{type(reply).__name__}.{field} is more than the site declared, at most {most:,}"
        return None

    def _lengths(
        self, step: str, replies: Mapping[str, Message], sent: Mapping[str, Message], sizes: Mapping[str, Sizes | None]
    ) -> dict[str, str]:
        """Whose weights or counts are too long, field by field."""
        wrong: dict[str, str] = {}
        kind = type(next(iter(replies.values())))
        for field, reveal in reveals_of(kind).items():
            if _unbounded(getattr(next(iter(replies.values())), field), reveal):
                continue
            counts = reveal.like == "counts"
            if counts:
                per = {name: (sizes[name] or {}).get(getattr(sent[name], "split", "")) or 1 for name in replies}
                lengths = {name: _tallied(getattr(reply, field)) / per[name] for name, reply in replies.items()}
                allowed = dict.fromkeys(replies, float(SIZES))
            else:
                lengths = {name: _length(reply, field) for name, reply in replies.items()}
                allowed = self._allowed(replies, sizes)
            if len(replies) < ENOUGH:
                middle, whose, allowed = _model(sent), "the model's own length", dict.fromkeys(replies, ABSURD)
                middle = math.inf if counts else middle
            else:
                middle = median(lengths.values()) or median([length for length in lengths.values() if length] or [0.0])
                before = self.medians.get((step, field), 0.0)
                whose = f"the median of this {'exchange' if middle >= before else 'round'}'s"
                self.medians[step, field] = middle = max(middle, before)
            for name, length in lengths.items():
                if length > allowed[name] * middle:
                    wrong[name] = f"{kind.__name__}.{field} is {length / middle:,.3g} times {whose}"
        return wrong

    def _allowed(self, replies: Mapping[str, Message], sizes: Mapping[str, Sizes | None]) -> dict[str, float]:
        """How many times the median each site's update may be as long."""
        weights = {name: max(_weight(reply), 1.0) for name, reply in replies.items()}
        many = {name: (sizes[name] or {}).get("train") or weight for name, weight in weights.items()}
        middle, mean = median(many.values()), fmean(weights.values())
        return {name: self.factor * max(1.0, many[name] / middle, mean / weights[name]) for name in replies}


def oversized(declared: Mapping[str, Sizes]) -> dict[str, str]:
    """The sites that declare far more examples than the others, and what to do if it is true."""
    found = {}
    for name, sizes in declared.items():
        for split, most in sizes.items():
            others = [other[split] for site, other in declared.items() if site != name and split in other]
            if others and most > SIZES * (middle := max(median(others), 1)):
                found[name] = (
                    f"it declares up to {most:,} {split} examples, {most / middle:,.0f} times the median of the "
                    f"others, and would outweigh them all; if that is true: submit --trust-sizes"
                )
    return found


def _unbounded(value: Any, reveal: Reveal) -> bool:
    """Whether a field has no length that sites' could be compared by."""
    if isinstance(value, Weights):
        return reveal.like not in ("model", "counts")
    return not (isinstance(value, Tensor) and reveal.bounded)


def _length(reply: Message, field: str) -> float:
    """How long a field is, per example where the reply says how many there are; in float64, which does not overflow."""
    value = getattr(reply, field)
    if isinstance(value, Tensor):
        return float(value.double().norm())
    weight = _weights_of(reply)
    if isinstance(weight, Tensor):  # one for each tensor, or one for all
        norms = torch.stack([tensor.double().norm() for tensor in value.values()])
        return float((norms / weight.double().clamp(min=1e-300)).norm())
    return float(torch.linalg.vector_norm(value.flat, dtype=torch.float64)) / max(weight, 1.0)


def _weights_of(reply: Message) -> Tensor | float:
    """What a reply's weights are multiplied by: the first field that is marked so."""
    for field, reveal in reveals_of(type(reply)).items():
        if reveal.weighs:
            value = getattr(reply, field)
            return value if isinstance(value, Tensor) else float(value)
    return 1.0


def _weight(reply: Message) -> float:
    weight = _weights_of(reply)
    return 1.0 if isinstance(weight, Tensor) else weight


def _tallied(counts: Weights) -> float:
    """How much was counted; a loss is no count."""
    return float(sum(float(value.double().abs().sum()) for name, value in counts.items() if name != "loss"))


def _model(sent: Mapping[str, Message]) -> float:
    """The length of the model that was sent, at least 1."""
    first = next(iter(sent.values()))
    values = [value for value in vars(first).values() if isinstance(value, Weights)]
    return max([1.0, *(float(torch.linalg.vector_norm(value.flat, dtype=torch.float64)) for value in values)])


def _overflowing(replies: Mapping[str, Message]) -> dict[str, str]:
    """Those without whom the sum of the others is finite for certain: the largest first."""
    wrong: dict[str, str] = {}
    for field in reveals_of(type(next(iter(replies.values())))) if replies else ():
        values = {name: getattr(reply, field) for name, reply in replies.items() if name not in wrong}
        flats = {name: value.flat if isinstance(value, Weights) else value for name, value in values.items()}
        if not all(isinstance(flat, Tensor) and flat.is_floating_point() and flat.numel() for flat in flats.values()):
            continue
        largest = {name: float(flat.abs().max()) for name, flat in flats.items()}
        while largest and sum(largest.values()) > torch.finfo(flats[next(iter(largest))].dtype).max:
            name = max(largest, key=lambda name: largest[name])
            kind = type(replies[name]).__name__
            wrong[name] = f"{kind}.{field} is so large that the sum overflows"
            del largest[name]
    return wrong
