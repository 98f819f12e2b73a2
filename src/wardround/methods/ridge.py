"""Ridge: the classifier in closed form from sums, the same whoever holds which labels.

    site:   n, s = Σ x, G = Σ x xᵀ, B = Σ x yᵀ, k = Σ y               x features, y one-hot labels, in float64
    server: μ = s/n;  S = G − n μ μᵀ;  D = diag(√(S_jj / n))
            W = D⁻¹ (D⁻¹ S D⁻¹ + λ I)⁻¹ D⁻¹ (B − μ kᵀ);  b = k / (n + λ) − μᵀ W

Sums over sites are sums over their rows, so the result is that of all rows in one place, for any partition. What comes
before the classifier stays as it is: a pretrained encoder, word vectors. A site gives its sums once, in the first round
that draws it: later rounds change nothing unless somebody new is drawn, and one round is enough. Newcomers fewer than
the quorum wait, since their sum would be seen by itself; who refuses leaves the model as it is. Rows of a class of
which a site has fewer than it lets leave (`least_examples`) are not in its sums.

λ is chosen of `penalties` in a second exchange: sites count how many of their validation rows each head gets right, and
the counts add: those of all sites in the model that are drawn in that round. A site with fewer such rows than it lets
leave has no vote. Where nobody has any, λ is chosen from the sums (generalised cross-validation, Golub, Heath and Wahba
1979); the journal has λ and on how many rows it stands, in `noted.ridge`. `sharpness` multiplies the scores: least
squares make numbers near 0 and 1 of them, of which a softmax would hardly prefer any. It changes no answer.

What a Gram matrix gives away: whether a given text was among the rows. By leverage it was told for every row of a site
of 86 rows, in 97 of 100 comparisons in the sum of 1,500 rows of 769 features, and in 71 of 3,008. So rows should be
ten times the features (a warning says when they are not), a site with fewer than `least_rows` is left out by name, and
the coordinator should see the sum alone. A real site sends its sums only if its consent names them: `messages = ["any",
"Sums"]`. A class that one site alone has is that site's even in the sum, with the mean of its rows: `lone = "refuse"`
stops there, `"drop"` leaves such rows out; both ask how many sites have each class, need all sites in the first round,
and let nobody join later.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import torch
from annotated_types import Ge, Gt, MaxLen, MinLen
from torch import Tensor

from wardround.core.bench import Bench
from wardround.core.cohort import BelowQuorum, Cohort
from wardround.core.layer import Withheld
from wardround.core.method import Method, on_site
from wardround.core.record import Message, Record, reveals
from wardround.core.refusal import Misfit
from wardround.core.site import Site
from wardround.core.task import ClassTask, Task
from wardround.core.training import AT_ONCE
from wardround.core.weights import Weights
from wardround.methods.sums import Sums, System, pooled_sums

COMFORTABLE = 10  # rows for each feature, from which on a Gram matrix tells little of a single row
MANY = 100  # sites that a site takes there to be

log = logging.getLogger(__name__)


class FewRows(Withheld):
    """The site has fewer rows than `least_rows`."""

    code = "rows"


class Undroppable(Withheld):
    """The coordinator leaves classes out, and the study does not."""

    code = "classes"


class ClassRoll(Message):
    """Asks which classes there are."""


class Held(Message):
    """Which classes a site has: in the sum, how many sites have each."""

    holders: Tensor = reveals("which classes the site has at all", shape=("classes",), dtype=torch.int64)


class Unsolved(Message):
    """The model whose classifier is to be solved, and the classes whose rows are left out."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    dropped: tuple[int, ...] = reveals("which classes only one site has", still=True)


class Heads(Message):
    """One classifier for each λ, over the same features."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    classifiers: Tensor = reveals(
        "nothing about the receiver; what all sites together make of the classes",
        shape=("penalties", "classes", "features"),
    )
    biases: Tensor = reveals("nothing about the receiver; as the classifiers", shape=("penalties", "classes"))


class Hits(Message):
    """How many of a site's validation rows each classifier gets right."""

    hits: Tensor = reveals("how well each model does at the site", shape=("penalties",), dtype=torch.int64)
    rows: int = reveals("how many validation examples the site has")


class Solved(Record):
    """The model, whose sums it stands on, and λ."""

    weights: Weights
    rows: int
    inputs: Tensor
    gram: Tensor
    targets: Tensor
    labels: Tensor
    names: tuple[str, ...] = ()
    penalty: float = 0.0

    @property
    def sums(self) -> Sums:
        """The sums by themselves."""
        return Sums(self.rows, self.inputs, self.gram, self.targets, self.labels)


@dataclass(frozen=True, kw_only=True)
class ClosedForm:
    """A classifier from sums, for any method that wants one."""

    classifier: ClassVar[bool] = True

    penalties: Annotated[tuple[Annotated[float, Gt(0)], ...], MinLen(1), MaxLen(100)] = (
        1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0,
    )  # fmt: skip
    """λ: the values to choose from; with one of them nothing is asked; each further one is a question to every site."""
    sharpness: Annotated[float, Gt(0)] = 6.0
    """What the scores are multiplied by, for the softmax; it changes no answer."""
    least_rows: Annotated[int, Ge(0)] = 0
    """A site with fewer training rows, but some, is left out."""
    lone: Literal["keep", "refuse", "drop"] = "keep"
    """What becomes of a class that one site alone has: its rows count, the run stops, or they are left out."""

    def summed(self, weights: Weights, cohort: Cohort, names: Sequence[str]) -> Sums:
        """The sum of these sites' sums under a model."""
        task = cohort.hub.class_task
        dropped: tuple[int, ...] = ()
        if self.lone != "keep":
            holders = cohort.total(self.roll, {name: ClassRoll() for name in names}).holders
            names = [name for name in names if name in cohort.present]
            dropped = tuple(torch.nonzero(holders == 1).flatten().tolist())
            classes = ", ".join(task.labels[at] for at in dropped)
            if dropped and self.lone == "refuse":
                raise Misfit(
                    f"one site alone has {classes}: the sum would give the mean of that site's rows away; set "
                    f'lone = "drop" to learn without such classes, or "keep" if that is no harm'
                )
            if dropped:
                log.warning('one site alone has %s: learnt without, as lone = "drop" says', classes)
        total = cohort.total(self.gather, {name: Unsolved(weights, dropped) for name in names})
        if self.lone != "keep":
            cohort.require(names)  # without one that was counted, a class may be another's alone
        return total

    def solved(self, weights: Weights, sums: Sums, cohort: Cohort, names: Sequence[str]) -> tuple[Weights, float]:
        """The model with the classifier of the best λ, by these sites' validation rows or by the sums alone."""
        if not sums.rows:
            return weights, 0.0
        if sums.rows < COMFORTABLE * len(sums.inputs):
            log.warning(
                "%d rows at all sites together for %d features: their sums tell whether a given text is among them%s; "
                "take fewer features, or ten times as many rows", sums.rows, len(sums.inputs),
                "" if sums.rows < len(sums.inputs) else ", though not surely",
            )  # fmt: skip
        task = cohort.hub.class_task
        system = System(sums, centred=_bias(task) in weights)
        heads = [self._with_head(task, weights, system, penalty) for penalty in self.penalties]
        at = rows = 0
        if len(heads) > 1:
            bias = [head[_bias(task)] if system.centred else torch.zeros(len(task.labels)) for head in heads]
            stacked = torch.stack([head[task.classifier] for head in heads])
            tried = Heads(weights, stacked, torch.stack(bias).to(stacked.dtype))
            total = cohort.total(self.choose, {name: tried for name in names if name in cohort.present})
            rows = total.rows
            doubts = [system.doubt(penalty) for penalty in self.penalties]
            at = int(total.hits.argmax()) if rows else doubts.index(min(doubts))
            if not rows:
                log.warning(
                    "no validation rows: λ = %g is chosen from the sums alone; [validation] takes those of "
                    "corpus.valid, or sets some aside: share = 0.1", self.penalties[at],
                )  # fmt: skip
        penalty = self.penalties[at]
        cohort.noted["ridge"] = {"penalty": {"chosen": penalty, "validation_rows": rows, "rows": sums.rows}}
        return heads[at], penalty

    def refit(self, weights: Weights, cohort: Cohort) -> Weights:
        """The model with the classifier that all of these sites' rows give under it."""
        sums = self.summed(weights, cohort, cohort.names)
        return self.solved(weights, sums, cohort, cohort.names)[0]

    def _with_head(self, task: ClassTask, weights: Weights, system: System, penalty: float) -> Weights:
        """The model with the classifier of this λ, in the model's own precision."""
        own, bias = system.head(penalty)
        if float(system.values.min()) + penalty <= torch.finfo(torch.float64).eps * float(system.values.max()):
            raise Misfit(
                f"penalties has {penalty:g}, too small for these sums: {system.sums.rows} rows do not tell "
                f"{len(system.mean)} features apart without a larger one"
            )
        solved = {task.classifier: own.T * self.sharpness, _bias(task): bias * self.sharpness}
        return Weights({name: solved.get(name, tensor).to(tensor.dtype) for name, tensor in weights.items()})

    @on_site
    def roll(self, roll: ClassRoll, site: Site) -> Held:  # noqa: ARG002
        """Which classes the site has."""
        counts = site.class_task.tally(site.data.train)
        few = _few(counts, site)
        self._look(int(counts.sum() - counts[few].sum()))
        counts[few] = 0
        site.stands_on(_smallest(counts))
        return Held((counts > 0).long())

    @on_site
    def gather(self, model: Unsolved, site: Site) -> Sums:
        """Add up the site's rows; without a class only where the study says so, for the difference is that class."""
        if model.dropped and self.lone != "drop":
            raise Undroppable
        few = _few(site.class_task.tally(site.data.train), site)
        sums = pooled_sums(site, model.weights, (*model.dropped, *few))
        self._look(sums.rows)
        site.stands_on(_smallest(sums.labels))
        return sums

    def _look(self, rows: int) -> None:
        if 0 < rows < self.least_rows:
            raise FewRows

    @on_site
    @torch.no_grad()
    def choose(self, heads: Heads, site: Site) -> Hits:
        """Try each classifier on the site's validation rows: as many as the study has λ, for each is a question."""
        task, valid, many = site.class_task, site.data.valid, len(self.penalties)
        classifiers, biases = heads.classifiers[:many], heads.biases[:many]
        hits = torch.zeros(len(classifiers), dtype=torch.int64)
        rows = 0 if valid is None or len(valid) < site.least else len(valid)
        site.stands_on(rows)
        model = Bench.at(site, heads.weights).model.eval()
        for batch in task.batches(valid, AT_ONCE, None) if rows else ():
            scores = task.features(model, batch) @ classifiers.transpose(1, 2) + biases[:, None]
            hits += (scores.argmax(-1) == task.targets(batch)).sum(1)  # (penalties, B) → (penalties,)
        return Hits(hits, rows)

    def asks(self) -> dict[str, int]:
        """How often a site is asked for each step."""
        steps = ["gather"] + ["roll"] * (self.lone != "keep") + ["choose"] * (len(self.penalties) > 1)
        return dict.fromkeys(steps, 1)

    def farthest(self, site: Site, weights: Weights) -> float:
        """More than a classifier has that many sites like this one make: ‖W‖ ≤ ‖D⁻¹‖ √(n / 4λ), with their n."""
        sums = pooled_sums(site, weights)
        system = System(sums) if sums.rows > 1 else None
        if system is None or not system.inverse.any():
            return math.inf  # nothing to judge by
        longest = float(system.inverse.max()) * math.sqrt(MANY * sums.rows / (4 * min(self.penalties)))
        return self.sharpness * (1 + longest * (1 + float(system.mean.norm())))

    def contradiction(self, sent: Message, reply: Message) -> str | None:
        """Why no rows, or none of the classes that were asked for, can have these sums."""
        if not isinstance(reply, Sums):
            return None
        if isinstance(sent, Unsolved) and reply.labels[list(sent.dropped)].any():
            return "Sums.labels has rows of a class that is left out"
        return reply.flaw()

    def room(self, task: Task, weights: Weights) -> dict[str, int]:
        """The sizes that the messages name."""
        width = weights[cast("ClassTask", task).classifier].shape[1]
        return {"features": width, "products": width * (width + 1) // 2, "penalties": len(self.penalties)}


def _few(counts: Tensor, site: Site) -> list[int]:
    """The classes of which the site has some rows, and fewer than it lets leave: their sum would be these rows."""
    places: list[int] = torch.nonzero((counts > 0) & (counts < site.least)).flatten().tolist()
    return places


def _smallest(counts: Tensor) -> int:
    """How many rows the smallest class has that has any."""
    return int(counts[counts > 0].min()) if counts.any() else 0


def _bias(task: ClassTask) -> str:
    return f"{task.classifier.removesuffix('.weight')}.bias"


@dataclass(frozen=True, kw_only=True)
class Ridge(ClosedForm, Method[Solved]):
    """Solves the classifier from sums of features: as if all rows were in one place, at once."""

    beyond_training: ClassVar[str] = "it sends sums over features of the notes and of their products"

    once: ClassVar[bool] = True

    def start(self, weights: Weights, cohort: Cohort) -> Solved:
        """The initial model, and nobody's sums; what travels with the classifier, and need not, is told."""
        task = cohort.hub.class_task
        classes, width = weights[task.classifier].shape
        if rest := sum(part.numel() for name, part in weights.items() if name not in (task.classifier, _bias(task))):
            log.warning(
                "ridge solves the classifier alone, and %s numbers of the model before it travel to every site all the "
                "same; for an encoder, set task.freeze to all its layers", f"{rest:,}",
            )  # fmt: skip
        inputs, gram, targets, labels = (
            torch.zeros(size, dtype=torch.float64)
            for size in ((width,), (width * (width + 1) // 2,), (width, classes), (classes,))
        )
        return Solved(weights, 0, inputs, gram, targets, labels)

    def round(self, state: Solved, cohort: Cohort) -> Solved:
        """Add the sums of those who are new, and solve again; nothing if there are none."""
        new = [name for name in cohort.names if name not in state.names]
        if not new:
            return state
        if state.names and (why := self._waits(len(new), cohort.quorum)):
            cohort.left_out |= dict.fromkeys(new, f"gather: not asked: {why}")
            return state
        try:
            sums = state.sums + self.summed(state.weights, cohort, new)
        except BelowQuorum:
            if not state.names:
                raise
            return state  # nobody new after all; the journal says who refused
        names = sorted({*state.names, *(name for name in new if name in cohort.present)})
        weights, penalty = self.solved(state.weights, sums, cohort, names)
        return _state(weights, sums, names, penalty)

    def _waits(self, new: int, quorum: int) -> str:
        """Why so many newcomers are not added to a model that others are in; nothing if they are."""
        if self.lone != "keep":
            return f'with lone = "{self.lone}" what a site adds depends on who else there is'
        return f"{new} new, and the quorum is {quorum}" if new < quorum else ""

    def unruled(self) -> str:
        """A sum of sums has no middle."""
        return 'solves its classifier from sums over all rows, of which no site has a mean; set robust.rule = "bound"'

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002
        """Once each, in a site's first round."""
        return self.asks()

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:
        """Features, their products, and how many λ there are to choose from."""
        return self.room(task, weights)


def _state(weights: Weights, sums: Sums, names: Sequence[str], penalty: float) -> Solved:
    return Solved(weights, sums.rows, sums.inputs, sums.gram, sums.targets, sums.labels, tuple(names), penalty)
