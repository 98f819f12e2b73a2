"""Differentially private steps of local training (DP-SGD): what a site's patients are owed when `[privacy.dp]` is set.

Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, at the site and by its own units:

    each step:  every unit (example, document or patient) is drawn by itself, with chance q        (Poisson sampling)
                g ← (Σ_u g_u · min(1, C / ‖g_u‖) + σ C · N(0, 1)) / (q · n)

Everything that is made of the trained weights afterwards (updates, votes, classifier vectors) tells no more than they
do. What else would tell of the notes has noise of its own: the number n of units once per run, and what evaluation
counts; or it is refused before the run (`wardround.privacy`). Every look at the notes is first entered in the site's
journal (`Guard.spend`), and nothing is computed if that cannot be.

Rules of this file:
1. Two data sets are neighbours if one has one unit more than the other. So n itself is not told exactly: rates, steps
   and weights follow from its noisy value.
2. The draws come from a key that depends on the question (`chance`): asked again, a site answers the same, to the bit.
3. Dropout draws from a secret, too. Who else is in a batch decides which part of a mask a unit gets: whoever could work
   the masks out, by the study's seed, would see one unit more in the gradients of all that come after it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from wardround.core.chance import Chance
from wardround.core.clipping import clipped, factor, norms, score_parts, unit_parts
from wardround.core.layer_gradients import GradientPart as Layered
from wardround.core.layer_gradients import Grouping
from wardround.core.task import Batch, Examples, Task, Units, UnitTask
from wardround.core.weights import Layout

if TYPE_CHECKING:
    from wardround.core.bench import Bench

NEARLY = 1e-3  # of a gradient's length: what single precision may lose on two ways to the same sum
FEW = 3  # units on which both ways are compared
AHEAD = 10_000  # draws that are made together: the units of so many steps
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
ROWS = 256  # examples whose gradients are had at once

Loss = Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True)
class Plan:
    """How a site's looks at its notes are noised: found from ε before the run."""

    clip: float
    """C: the longest gradient that a unit may have."""
    noise: float
    """σ: the noise on the sum of gradients, in units of C."""
    rate: float
    """q: the chance that a unit is drawn for a step."""
    steps: int
    """Steps that are paid for at once: those of all trainings in one exchange."""
    size: int
    """The number of units as it may be told, with noise of its own."""
    count_clip: float = 0.0
    """The longest count that a unit may have in an evaluation."""
    count_noise: float = 0.0
    """The noise on the sum of counts, in units of `count_clip`; 0 if evaluation is outside the guarantee."""


@dataclass(frozen=True)
class Look:
    """One look at the notes, as the site's journal has it."""

    kind: str
    """`train`, or the split that was counted."""
    noise: float
    rate: float
    steps: int


class Guard:
    """What stands between one exchange and a site's notes."""

    def __init__(self, plan: Plan, units: Units, draw: Callable[[str], Chance], spend: Callable[[Look], None]) -> None:
        self.plan, self.units, self._draw, self._spend = plan, units, draw, spend
        self._trainings, self._paid = 0, 0

    @property
    def size(self) -> int:
        """The number of the site's units as it may be told."""
        return self.plan.size

    # training

    def samples(self, task: Task, train: Examples, steps: int) -> Iterator["Sample"]:
        """The units drawn for each step of one training, after it has been paid for."""
        plan = self.plan
        self._trainings += 1
        while self._paid < steps:
            self._spend(Look("train", plan.noise, plan.rate, plan.steps))
            self._paid += plan.steps
        self._paid -= steps
        chance = self._draw(f"train {self._trainings}")
        if (state := chance.torch_state()) is not None:
            torch.default_generator.set_state(state)  # see rule 3
        count = self.units.count
        ahead = max(AHEAD // max(count, 1), 1)
        for start in range(0, steps, ahead):
            many = min(ahead, steps - start)
            step, unit = (chance.uniform(many * count).view(many, count) < plan.rate).nonzero(as_tuple=True)
            for drawn in torch.split(unit, torch.bincount(step, minlength=many).tolist()):
                yield Sample(task, train, self.units, drawn, chance)

    def descend(self, bench: "Bench", loss: Loss, sample: "Sample") -> None:
        """Fill the bench's gradient, which is zero, with the noisy mean of the sample's clipped gradients."""
        plan, trust = self.plan, Trust.of(bench)
        for part in sample.parts():
            way = trust.way(bench, loss, part, plan.clip)
            layers = way(part, bench, loss) if way is not None else None
            if layers is None or not clipped(layers, plan.clip):
                part.loop(bench, loss, plan.clip)
        noise = sample.chance.normal(bench.gradient.shape[0], bench.gradient.dtype)
        bench.gradient.add_(noise, alpha=plan.noise * plan.clip)
        bench.gradient.div_(plan.rate * plan.size)

    # evaluation

    def counts(
        self, split: str, counted: Callable[[Examples], Mapping[str, Tensor]], layout: Layout
    ) -> dict[str, Tensor]:
        """What is counted over a split's units, each clipped, with noise; whole numbers, and none below 0."""
        plan = self.plan
        self._spend(Look(split, plan.count_noise, 1.0, 1))
        # One unit of several in a part can turn its count round: that moves it by twice the limit.
        limit = plan.count_clip / 2 if self.units.mixed else plan.count_clip
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in layout.shapes.items()}
        for examples in self.units.apart(split):
            mine = counted(examples)
            length = torch.stack([mine[name].double().norm() for name in total]).norm()
            share = factor(length, limit)
            total = {name: value + (mine[name] * share).nan_to_num(0.0) for name, value in total.items()}
        chance = self._draw(f"count {split}")
        return {name: self._noised(value, chance, whole=name != "loss") for name, value in total.items()}

    def _noised(self, value: Tensor, chance: Chance, *, whole: bool) -> Tensor:
        noise = chance.normal(value.numel(), torch.float64).view_as(value)
        noisy = (value + noise * self.plan.count_noise * self.plan.count_clip).clamp(min=0)
        return noisy.round() if whole else noisy


class Sample:
    """The units of one step; it may be empty."""

    def __init__(self, task: Task, train: Examples, units: Units, drawn: Tensor, chance: Chance) -> None:
        self.task, self.train, self.units, self.drawn, self.chance = task, train, units, drawn, chance

    def __len__(self) -> int:
        return self.drawn.shape[0]  # in a small step, torch's own len is felt

    def parts(self) -> Iterator["UnitsPart"]:
        """The units in portions that are had at once; a unit is never torn apart."""
        if not len(self):
            return
        if self.units.single is not None and len(self) <= ROWS:
            yield UnitsPart(self.task, self.train, self.units, self.drawn)
            return
        ends = torch.cumsum(self.units.sizes[self.drawn], 0)
        portion = torch.div(ends - 1, ROWS, rounding_mode="floor")
        for number in torch.unique(portion).tolist():
            yield UnitsPart(self.task, self.train, self.units, self.drawn[portion == number])


class UnitsPart:
    """Some units whose gradients are had together."""

    def __init__(self, task: Task, train: Examples, units: Units, drawn: Tensor) -> None:
        self.task, self.train, self.units, self.drawn = task, train, units, drawn

    def first(self, count: int) -> "UnitsPart":
        """The first few of them."""
        return UnitsPart(self.task, self.train, self.units, self.drawn[:count])

    def taken(self) -> tuple[Batch, Grouping]:
        """The units' examples as the model takes them, and which unit each is of."""
        rows, owner = self.units.take(self.drawn)
        batch = cast("Batch", cast("UnitTask", self.task).batch(self.train, rows))
        return batch, Grouping(owner, self.drawn.shape[0])

    def by_scores(self, bench: "Bench", loss: Loss) -> list[Layered] | None:
        """All units' gradients from the slopes of their scores, if the loss is the task's own and has them."""
        slopes = getattr(self.task, "slopes", None)
        return score_parts(bench.model, slopes, *self.taken()) if slopes and loss == self.task.loss else None

    def by_one_pass(self, bench: "Bench", loss: Loss) -> list[Layered] | None:
        """The same from one backward pass; None where a task says that a weight is used behind its module's back."""
        # Bags of one sentence have nothing to attend to, so that comparing both ways on them would show nothing.
        if getattr(self.task, "reuses_weights", False):
            return None
        return unit_parts(bench.model, loss, *self.taken())

    def loop(self, bench: "Bench", loss: Loss, limit: float) -> Tensor:
        """The same, unit by unit: slow, and right for every model; the lengths of the units' gradients."""
        total, lengths = bench.gradient.clone(), []
        for unit in self.drawn:
            bench.gradient.zero_()
            batch, _ = UnitsPart(self.task, self.train, self.units, unit[None]).taken()
            (loss(bench.model, batch) * len(batch)).backward()  # type: ignore[no-untyped-call]  # torch's own gap
            lengths.append(bench.gradient.norm())
            total.add_(bench.gradient.nan_to_num(0.0), alpha=float(factor(lengths[-1], limit)))
        bench.gradient.copy_(total)
        return torch.stack(lengths)


Way = Callable[[UnitsPart, "Bench", Loss], list[Layered] | None]
"""How the gradients of some units are had at once, by layer; None if that cannot be."""


class Trust:
    """Which way gives what the loop gives, for a model under a loss: looked at once, then remembered."""

    _all: ClassVar["WeakKeyDictionary[Bench, Trust]"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._known: dict[str, Way | None] = {}

    @classmethod
    def of(cls, bench: "Bench") -> "Trust":
        """What is known of this bench's model."""
        known = cls._all.get(bench)
        if known is None:
            known = cls._all[bench] = cls()
        return known

    def way(self, bench: "Bench", loss: Loss, part: UnitsPart, limit: float) -> Way | None:
        """The quickest way in which the model's gradients may be had at once."""
        name = getattr(loss, "__qualname__", "") or repr(loss)
        if part.drawn.shape[0] < 2:  # one alone cannot show whether a model, or a loss, mixes what is in a batch;
            return None  # and whether others came before it must not change its bits
        if name not in self._known:
            ways, few = (UnitsPart.by_scores, UnitsPart.by_one_pass), part.first(FEW)
            self._known[name] = next((way for way in ways if self._agrees(way, bench, loss, few, limit)), None)
        return self._known[name]

    @staticmethod
    def _agrees(way: Way, bench: "Bench", loss: Loss, few: UnitsPart, limit: float) -> bool:
        """Compare it with the loop on a few units, as in training but for dropout, which would differ."""
        before, chance = bench.gradient.clone(), torch.get_rng_state()
        dropouts = [(part, part.p) for part in bench.model.modules() if isinstance(part, DROPOUTS)]
        for part, _ in dropouts:
            part.p = 0.0
        layers = way(few, bench, loss)
        if layers is not None:
            bench.gradient.zero_()
            lengths = few.loop(bench, loss, limit)
            slow = bench.gradient.clone()
            bench.gradient.zero_()
            clipped(layers, limit)
            same = torch.allclose(norms(layers), lengths, rtol=NEARLY, atol=1e-6)
            same &= float((bench.gradient - slow).norm()) <= NEARLY * max(float(slow.norm()), 1e-6)
        for part, p in dropouts:
            part.p = p
        torch.set_rng_state(chance)
        bench.gradient.copy_(before)
        return layers is not None and same


def steady(bench: "Bench", task: Task, train: Examples, units: Units) -> bool:
    """Whether a unit's gradient is the same whoever came before it, and nothing in the model moves but its weights."""
    before = {name: value.clone() for name, value in bench.model.train().named_buffers()}

    def gradient(unit: int) -> Tensor:
        torch.default_generator.manual_seed(0)
        bench.gradient.zero_()
        UnitsPart(task, train, units, torch.tensor([unit])).loop(bench, task.loss, 1.0)
        return bench.gradient.clone()

    with torch.random.fork_rng(devices=[]):
        first, _, again = gradient(0), gradient(units.count - 1), gradient(0)
    bench.gradient.zero_()
    same = float((first - again).norm()) <= NEARLY * float(first.norm())
    return same and all(torch.equal(value, before.get(name, value)) for name, value in bench.model.named_buffers())
