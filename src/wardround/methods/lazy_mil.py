"""Lazy MIL: sites choose together which sentence of a scattered bag to believe, then train on it.

Sui et al., "Distantly Supervised Relation Extraction in Federated Settings", Findings of EMNLP 2021 (FedDS),
algorithms 1 and 2. Twice around in each round, with the same weights:

    v_i = max over the site's sentences s of the bag (h, r, t) of p(r | s, θ)         # eq. 2
    the site with the largest v_i keeps that one sentence; the bag's others are not used this round
    θ ← θ + mean of the Δ_i of training on what was kept                              # eqs. 3 and 5

The first of equals counts, within a bag and by the order of sites' names. A site with nothing chosen changes nothing
and still counts in the mean. NA is a relation like any other here, and left out of evaluation.

Departures. The paper broadcasts to all which sites were chosen; here each site is told of its own sentences only.
The authors' published code lets all platforms share one list of chosen sentences; here sites are kept apart. The model
goes to each site a second time with what was chosen, so that a site needs to remember nothing in between. `warm` is
ours too, and off by default; so is `unrelated = "whole"`: sentences of pairs without a fact are most of what there is
and right by themselves, and with one of each pair left, the method fell where all sites take part (studies/lazymil).

With `buckets` the coordinator sees nothing but sums, and there are buckets in any case where a layer shows no more
(secure aggregation). Before the first round sites mark the slots of a table that their facts' numbers fall into; of the
sum, the occupied ones are the list of facts. In each round a site says for each of these in which bucket its surest
sentence is, as a row of zeros with a one; the best bucket that somebody is in is announced, and who is in it keeps the
sentence: several, if they share it. Buckets are of equal width on a scale between probabilities, which lie close
together before training, and log-odds, since a trained model has most scores next to 1 (`spread`). Two facts in one
slot count as one, and the less sure of them goes without a sentence: of 10,000 facts one in a hundred. A fact that is
on no list, of a site that was not there at the start, is that site's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import torch
from annotated_types import Ge, Le
from torch import Tensor

from wardround.core.bench import Bench
from wardround.core.cohort import Cohort
from wardround.core.method import Counts, Exam, Global, Method, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.task import BagTask, Surest, Task
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights
from wardround.methods.buckets import bucket, highest, one_hot, proper
from wardround.methods.fedavg import Update, uneven

SLOTS = 1 << 20  # of the table that facts are hashed to
BUCKETS = 256
REACH = 12.0  # log-odds: surer than 0.999994 is as good as certain


class Scores(Message):
    """For each public fact whose pair a site's notes name: how sure the model is of the site's best sentence for it."""

    facts: Tensor = reveals(
        "which public pairs occur together in a sentence of the site: a fact's number is a hash of public ids (of "
        "names, in a corpus without ids), which whoever has those can work out",
        shape=("facts at the site",),
        dtype=torch.int64,
    )
    scores: Tensor = reveals(
        "how clearly one of the site's sentences seems to state the fact", shape=("facts at the site",)
    )
    rows: Tensor = reveals(
        "which of the site's own sentences that is, by a number that means nothing elsewhere",
        shape=("facts at the site",),
        dtype=torch.int64,
    )

    def __post_init__(self) -> None:
        if not len(self.facts) == len(self.scores) == len(self.rows):
            raise ValueError("facts, scores and rows must be as many")
        if len(self.scores) and not 0 <= float(self.scores.min()) <= float(self.scores.max()) <= 1:
            raise ValueError("scores must be probabilities")


class Chosen(Message):
    """The shared model, and which of the receiver's own sentences it is to train on in this round."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    rows: Tensor = reveals(
        "to the receiver alone: that no other site of this round has a surer sentence for these facts of its own",
        shape=("sentences chosen",),
        dtype=torch.int64,
    )


class Call(Message):
    """Asks which public facts there are."""


class Marks(Message):
    """In a table of a million slots, which ones the facts fall into whose pairs a site's notes name."""

    slots: Tensor = reveals(
        "which public pairs occur together in a sentence of the site: a fact's slot follows from a hash of public ids "
        "(of names, in a corpus without ids), which whoever has those can work out",
        shape=("slots",),
        dtype=torch.int8,
    )


class Listed(Message):
    """The shared model, and the slots of all facts that there are."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    slots: Tensor = reveals("which public facts some site has, which is not named", shape=("facts",), dtype=torch.int64)


class Sureness(Message):
    """For each fact on the list, how sure the model is of a site's best sentence for it, as one of some buckets."""

    buckets: Tensor = reveals(
        "which facts of the list the site has, and how clearly one of its sentences seems to state each",
        shape=("facts", "buckets"),
        dtype=torch.int8,
    )


class Best(Message):
    """The shared model, and for each fact on the list the bucket of those who are to train on it in this round."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    buckets: Tensor = reveals(
        "how sure a site is of each fact, which is not named", shape=("facts",), dtype=torch.int64
    )


class Listing(Private):
    """The slots of all facts, at the coordinator's desk."""

    slots: Tensor


class OwnScores(Private):
    """Of each fact that a site has: its place on the list, the bucket of its best sentence, and that sentence."""

    places: Tensor
    buckets: Tensor
    rows: Tensor


class Believed(Private):
    """The sentences that a site was told to train on, kept only where the truth about them is known."""

    round: int
    rows: Tensor


def spread(scores: Tensor) -> Tensor:
    """Probabilities on a scale from 0 to 1 that tells them apart in the middle and, by their log-odds, at the ends."""
    odds = torch.logit(scores.double()).clamp(-REACH, REACH)
    return (scores + (odds + REACH) / (2 * REACH)) / 2


def chosen(scores: Mapping[str, Scores]) -> dict[str, Tensor]:
    """For each site, which of its sentences are the surest of all sites for their facts."""
    names = list(scores)
    facts = torch.cat([scores[name].facts for name in names])  # (N,)
    values = torch.cat([scores[name].scores for name in names])  # (N,)
    site = torch.repeat_interleave(torch.tensor([len(scores[name].facts) for name in names]))  # (N,)
    _, fact = torch.unique(facts, return_inverse=True)  # (N,)
    # By fact, the surest first; stable, so that of equals the first site's comes first.
    order = torch.argsort(values, descending=True, stable=True)
    order = order[torch.argsort(fact[order], stable=True)]
    first = torch.ones(len(order), dtype=torch.bool)
    first[1:] = fact[order][1:] != fact[order][:-1]
    won = torch.zeros(len(order), dtype=torch.bool)
    won[order[first]] = True
    return {name: scores[name].rows[won[site == at]] for at, name in enumerate(names)}


@dataclass(frozen=True, kw_only=True)
class LazyMIL(LocalTraining, Method[Global]):
    """Sites choose the surest sentence of each fact together, and train on it."""

    beyond_training: ClassVar[str] = "it sends, for each public fact, how sure the model is of the surest sentence"

    rehearsal: ClassVar[str] = "bags"

    warm: Annotated[int, Ge(0)] = 0
    """Rounds at the beginning in which each site keeps its own surest sentences, whatever others have. Not the paper's:
    what an untrained model is surest of is chance, and what was once trained on stays the surest. Of little use where a
    site has several sentences of a bag, for the same happens there."""
    buckets: Annotated[int, Ge(2), Le(65536)] | None = None
    """If given, the coordinator finds out from sums alone who is surest of a fact, by score in this many buckets; if
    not, it sees each site's scores, or there are 256 where a layer shows only sums."""

    unrelated: Literal["chosen", "whole"] = "chosen"
    """Pairs without a fact: one sentence of each is chosen as of a fact, as in the paper; or each site trains on all of
    its own, and tells nothing of them."""

    def start(self, weights: Weights, cohort: Cohort) -> Global:
        """The initial model; by sums, sites say first which facts there are."""
        if self.buckets:
            cohort.hub.keep(Listing(cohort.total(self.mark, Call()).slots.nonzero().flatten()))
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """Score, choose, train: θ + mean Δ."""
        if self.buckets:
            total = self._by_sums(state, cohort)
            return Global(state.weights + total.change / total.weight)
        scores = cohort.ask(self.score, state)
        kept = chosen(scores) if cohort.round > self.warm else {name: score.rows for name, score in scores.items()}
        total = cohort.total(self.fit_chosen, {name: Chosen(state.weights, rows) for name, rows in kept.items()})
        return Global(state.weights + total.change / total.weight)

    def _by_sums(self, state: Global, cohort: Cohort) -> Update:
        """The sum of what was learnt from the sentences in the best buckets; warming up, from each site's own."""
        slots = cohort.hub.recall(Listing).slots
        histogram = cohort.total(self.place, Listed(state.weights, slots)).buckets  # (facts, buckets)
        best = highest(histogram)  # (facts,)
        sharing = histogram.gather(1, best.clamp(min=0)[:, None])  # (facts, 1)
        ties = {"facts": float((sharing > 0).sum()), "shared": float((sharing > 1).sum())}
        cohort.noted["surest"] = {"all sites": ties}
        return cohort.total(self.fit_best, Best(state.weights, best if cohort.round > self.warm else best * 0))

    def opening(self) -> tuple[str, ...]:
        """By sums, sites are asked first which facts there are."""
        return ("mark",) if self.buckets else ()

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002
        """Two."""
        return {"place": 1, "fit_best": 1} if self.buckets else {"score": 1, "fit_chosen": 1}

    def in_sums(self) -> Self:
        """By buckets."""
        return replace(self, buckets=self.buckets or BUCKETS)

    @on_site
    def mark(self, call: Call, site: Site) -> Marks:  # noqa: ARG002
        """The slots of the site's facts."""
        site.stands_on(len(site.data.train))
        model = Bench.of(
            site.task, site.private, site.device
        ).model.eval()  # whatever its weights are, the facts are the same
        slots = torch.zeros(SLOTS, dtype=torch.int8)
        slots[self._surest(model, site).facts % SLOTS] = 1
        return Marks(slots)

    @on_site
    def place(self, listed: Listed, site: Site) -> Sureness:
        """In which bucket the site's best sentence for each fact of the list is."""
        site.stands_on(len(site.data.train))
        surest = self._surest(Bench.at(site, listed.weights).model.eval(), site)
        buckets, count = cast("int", self.buckets), len(listed.slots)
        own = bucket(spread(surest.scores), buckets)  # (facts at the site,)
        slots = surest.facts % SLOTS
        places = torch.searchsorted(listed.slots, slots).clamp(max=max(count - 1, 0))
        there = listed.slots[places] == slots if count else torch.zeros_like(slots, dtype=torch.bool)
        site.keep(OwnScores(torch.where(there, places, -1), own, surest.rows))
        tops = torch.full((count,), -1).scatter_reduce(0, places[there], own[there], "amax")
        return Sureness(one_hot(tops, buckets))

    @on_site
    def fit_best(self, best: Best, site: Site) -> Update:
        """Train on the sentences that are in the best buckets, and on those for facts that nobody listed."""
        own = site.recall(OwnScores)
        wanted = torch.cat([best.buckets, best.buckets.new_zeros(1)])[own.places]  # the last for a place of −1
        return self.fitted(best.weights, own.rows[own.buckets >= wanted].sort().values, site)

    @on_site
    def score(self, model: Global, site: Site) -> Scores:
        """How sure the shared model is of the site's best sentence for each fact."""
        site.stands_on(len(site.data.train))
        surest = self._surest(Bench.at(site, model.weights).model.eval(), site)
        order = torch.argsort(surest.facts)  # by number, which tells nothing of the order of the site's notes
        return Scores(surest.facts[order], surest.scores[order], surest.rows[order])

    @on_site
    def fit_chosen(self, chosen: Chosen, site: Site) -> Update:
        """Train on the chosen sentences alone."""
        return self.fitted(chosen.weights, chosen.rows, site)

    def _surest(self, model: Any, site: Site) -> Surest:
        """The surest sentence of each of the site's facts that there is a choice of."""
        task, train = site.bag_task, site.data.train
        surest = task.surest(model, train)
        if self.unrelated == "chosen":
            return surest
        facts = ~torch.isin(surest.rows, task.unrelated(train))
        return Surest(*(part[facts] for part in surest))

    def fitted(self, weights: Weights, rows: Tensor, site: Site) -> Update:
        """What training on these sentences changes, and on those of pairs without a fact if they are kept whole."""
        task, train = site.bag_task, site.data.train
        if self.unrelated == "whole":
            rows = torch.cat([rows, task.unrelated(train)]).sort().values
        named = rows.tolist()
        once = len(set(named)) == len(named) and min(named, default=0) >= 0  # −1 is the last one's other name
        site.stands_on(len(named) if once else 1)  # one that is named again and again outweighs all others
        if task.expressed(train, rows)[0]:
            site.keep(Believed(site.exchange.round, rows))
        trained = self.train(site, weights, examples=task.only(train, rows))
        return Update(trained.weights - weights, 1)

    @on_site
    def evaluate(self, exam: Exam, site: Site) -> Counts:
        """Try the shared model; on what the site trains on, tell how much of what was chosen truly says its fact."""
        counts = self.tried(exam.weights, exam.split, site)
        if exam.split != "train" or not {"chosen", "expressed"} <= counts.numbers.keys():
            return counts
        believed = site.recall(Believed, Believed(0, torch.empty(0, dtype=torch.int64)))
        rows = believed.rows if believed.round == site.exchange.round else believed.rows[:0]
        known, true = site.bag_task.expressed(site.data.train, rows)
        believed_now = {"chosen": torch.tensor(known).double(), "expressed": torch.tensor(true).double()}
        return Counts(Weights({**counts.numbers, **believed_now}))

    def unruled(self) -> str:
        """Most sites have nothing to say of most facts."""
        return (
            "has one site learn from each fact, and what one alone has learnt no rule would believe; "
            'set robust.rule = "bound"'
        )

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """Every site weighs 1, marks a slot once and is in one bucket of a fact."""
        if isinstance(reply, Sureness) and not proper(reply.buckets):
            return "Sureness.buckets has more than a one in a row"
        if isinstance(reply, Marks) and not proper(reply.slots[:, None]):
            return "Marks.slots has something else than zeros and ones"
        return uneven(reply)

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:  # noqa: ARG002
        """Of the sums, if there are any; the task must have bags to choose from."""
        if not isinstance(task, BagTask):
            raise ValueError('lazy-mil chooses among the sentences of bags; set name = "bags" in [task]')  # noqa: TRY004 -- a setting
        return {"slots": SLOTS, "buckets": self.buckets} if self.buckets else {}
