"""A bound on what one site can do to the model: on the length of its update, and on the number of its examples.

    Bound(declared={"north": {"train": 1024, "test": 128}, …}.get)

At the coordinator, on the replies of one exchange side by side. Left out by name, with the reason, is a site

1. whose examples, as it declared them at the start, are more than `SIZES` times the median of the other sites';
2. that claims more examples than it declared (`reveals(…, weighs="train")`), or contradicts the method's own equations;
3. whose weights, per example, are longer than `factor` times the median of this exchange, or of an earlier one of the
   same step and round (one batch of few sentences can be all but learnt). Counts of an evaluation are compared per
   declared example, by the factor `SIZES`: hospitals' notes differ far more in what there is to find;
4. whose sums of products are of rows longer than `factor` times the median (`ridge`): few such would swamp all others;
5. that makes the sum overflow, whoever else there is.

A site with n times the median of examples takes n times as many steps, so its update may be n times as long. One whose
weight in a mean is below average may be as much longer: so its part in the sum is no larger than an average site's.
A site that was not in the round before may go `AWAY` times as far as the median ever went, and from then on as far as
it last went: the others know their own notes by then, and theirs are short.

Why `factor` = 5: honest sites stayed below it in all trials of `python studies/lying/bound.py`, though FedAtt's came
near; not so one that comes for the first time after many rounds of only two, which is left out. docs/lying.md has the
tables, and what becomes of lies. The rules were chosen on runs much like these.

A median of fewer than three replies protects nobody, for it follows the liar: then only 1, 2 and 5 hold, and no update
may be more than `ABSURD` times as long as the model. Lies within the bound are not found; nor are those of a majority,
nor of FedED's votes beyond their grid.
"""

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean, median

import torch
from torch import Tensor

from wardround.core.cohort import Cohort
from wardround.core.layer import Layer
from wardround.core.record import Message, reveals_of
from wardround.core.weights import Weights

FACTOR = 5.0
SIZES = 100
ENOUGH = 3  # with two, either of them is the median
ABSURD = 1e6
AWAY = 2.0
NOTED, MEDIAN = "lengths", ""  # where the journal has what the next round needs; no site has an empty name

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
        self.round = 0
        self.largest: dict[str, float] = {}
        """The largest median so far in this run, by step and field."""
        self.medians: dict[str, float] = {}
        """The largest median so far in this round."""
        self.before: dict[str, dict[str, float]] = {}
        """How long each site's was that was used in the round before, by step and field."""
        self.now: dict[str, dict[str, float]] = {}
        """Likewise in this round."""
        self.farthest: dict[str, float] = {}
        """How many times as far as it might go at a factor of 1 the farthest reply of this run went."""

    def recall(self, noted: Iterable[Mapping[str, Mapping[str, Mapping[str, float]]]]) -> None:
        """Go on as if the run had never stopped."""
        for line in noted:
            self.now = {}
            for what, lengths in line.get(NOTED, {}).items():
                self.largest[what] = max(self.largest.get(what, 0.0), lengths[MEDIAN])
                self.now[what] = {name: length for name, length in lengths.items() if name != MEDIAN}

    def bar(self, names: Iterable[str]) -> Mapping[str, str]:
        """Sites that declared too much to be believed are not asked."""
        return {name: self.barred[name] for name in names if name in self.barred}

    def judge(
        self, replies: Mapping[str, Message], sent: Mapping[str, Message], step: str, cohort: Cohort
    ) -> Mapping[str, str]:
        """Whose reply is a lie that can be seen, and why."""
        if cohort.round != self.round:
            self.round, self.before, self.now, self.medians = cohort.round, self.now, {}, {}
        sizes = {name: self.declared(name) if self.declared else {} for name in replies}
        wrong: dict[str, str] = {}
        for name, reply in replies.items():
            if why := self._claim(reply, sizes[name]) or self.contradiction(sent[name], reply):
                wrong[name] = why
        left = {name: reply for name, reply in replies.items() if name not in wrong}
        for field, reveal in reveals_of(type(next(iter(left.values())))).items() if left else ():
            value = getattr(next(iter(left.values())), field)
            if isinstance(value, Weights) and reveal.like == "counts":
                wrong |= _boasts(left, field, {name: getattr(sent[name], "split", "") for name in left}, sizes)
            elif (isinstance(value, Weights) and reveal.like == "model") or reveal.bounded:
                wrong |= self._lengths(step, field, left, sent, sizes)
        wrong |= self._stretched(left)
        if self.now:
            cohort.noted[NOTED] = {
                what: {MEDIAN: self.medians.get(what, 0.0), **lengths} for what, lengths in self.now.items()
            }
        return wrong | _overflowing({name: reply for name, reply in left.items() if name not in wrong})

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
        self,
        step: str,
        field: str,
        replies: Mapping[str, Message],
        sent: Mapping[str, Message],
        sizes: Mapping[str, Sizes | None],
    ) -> dict[str, str]:
        """Whose weights are too long; how long the others' are is remembered."""
        kind = type(next(iter(replies.values()))).__name__
        what = f"{step} {kind}.{field}"
        lengths = {name: _length(reply, field) for name, reply in replies.items()}
        used = self.now.setdefault(what, {})
        if len(replies) < ENOUGH:
            model = _model(sent)
            absurd = {name: length / model for name, length in lengths.items() if length > ABSURD * model}
            used |= {name: max(length, used.get(name, 0.0)) for name, length in lengths.items() if name not in absurd}
            shortest = min(lengths.values())  # which one liar cannot make longer
            self.medians[what] = max(shortest, self.medians.get(what, 0.0))
            self.largest[what] = max(shortest, self.largest.get(what, 0.0))
            return {
                name: f"{kind}.{field} is {more:,.3g} times the model's own length" for name, more in absurd.items()
            }
        middle = median(lengths.values()) or median([length for length in lengths.values() if length] or [0.0])
        highest = self.medians[what] = max(middle, self.medians.get(what, 0.0))
        self.largest[what] = max(highest, self.largest.get(what, 0.0))
        wrong = {}
        for name, more in self._more(replies, sizes).items():
            before = self.before.get(what, {}).get(name)
            least = AWAY * self.largest[what] * more if before is None else before
            if highest:
                self.farthest[what] = max(lengths[name] / (highest * more), self.farthest.get(what, 0.0))
            if lengths[name] > max(self.factor * highest * more, least):
                wrong[name] = f"{kind}.{field} is {lengths[name] / middle:,.3g} times the median of this exchange's"
            else:
                used[name] = max(lengths[name], used.get(name, 0.0))
        return wrong

    def _stretched(self, replies: Mapping[str, Message]) -> dict[str, str]:
        """Who has added up products of rows that are far longer than the others'."""
        lengths = {name: length for name, reply in replies.items() if (length := reply.row_length()) is not None}
        middle = median(lengths.values()) if len(lengths) >= ENOUGH else 0.0
        return {
            name: f"{type(replies[name]).__name__} is of rows {length / middle:,.3g} times as long as the median's"
            for name, length in lengths.items()
            if middle and length > self.factor * middle
        }

    def _more(self, replies: Mapping[str, Message], sizes: Mapping[str, Sizes | None]) -> dict[str, float]:
        """How many times as far as a site of middling size each may go."""
        weights = {name: max(_weight(reply), 1.0) for name, reply in replies.items()}
        many = {name: (sizes[name] or {}).get("train") or weight for name, weight in weights.items()}
        middle, mean = median(many.values()), fmean(weights.values())
        return {name: max(1.0, many[name] / middle, mean / weights[name]) for name in replies}


def oversized(declared: Mapping[str, Sizes]) -> dict[str, str]:
    """The sites that declare far more examples than the others, and what to do if it is true."""
    reasons = {}
    for name, sizes in declared.items():
        for split, most in sizes.items():
            others = [other[split] for site, other in declared.items() if site != name and split in other]
            if others and most > SIZES * (middle := max(median(others), 1)):
                reasons[name] = (
                    f"it declares up to {most:,} {split} examples, {most / middle:,.0f} times the median of the "
                    f"others, and would outweigh them all; if that is true: submit --trust-sizes"
                )
    return reasons


def _boasts(
    replies: Mapping[str, Message], field: str, splits: Mapping[str, str], sizes: Mapping[str, Sizes | None]
) -> dict[str, str]:
    """Who counts far more per declared example than the others do; a loss is no count."""
    if len(replies) < ENOUGH:
        return {}
    counted = {}
    for name, reply in replies.items():
        numbers: Weights = getattr(reply, field)
        many = sum(float(value.double().sum()) for key, value in numbers.items() if key != "loss")
        counted[name] = many / ((sizes[name] or {}).get(splits[name]) or 1)
    middle = median(counted.values())
    return {
        name: f"{type(replies[name]).__name__}.{field} is {count / middle:,.3g} times the median of this exchange's"
        for name, count in counted.items()
        if middle and count > SIZES * middle
    }


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
