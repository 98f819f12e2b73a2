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
ours too, and off by default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from annotated_types import Ge
from torch import Tensor

from wardround.core.cohort import Cohort
from wardround.core.method import Counts, Exam, Global, Method, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.task import BagTask, Task
from wardround.core.training import Bench, LocalTraining
from wardround.core.weights import Weights
from wardround.methods.fedavg import Update, uneven


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


class Believed(Private):
    """The sentences that a site was told to train on, kept only where the truth about them is known."""

    round: int
    rows: Tensor


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

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The initial model."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """Score, choose, train: θ + mean Δ."""
        scores = cohort.ask(self.score, state)
        kept = chosen(scores) if cohort.round > self.warm else {name: score.rows for name, score in scores.items()}
        total = cohort.total(self.fit_chosen, {name: Chosen(state.weights, rows) for name, rows in kept.items()})
        return Global(state.weights + total.change / total.weight)

    @on_site
    def score(self, model: Global, site: Site) -> Scores:
        """How sure the shared model is of the site's best sentence for each fact."""
        site.stands_on(len(site.data.train))
        surest = cast("BagTask", site.task).surest(Bench.at(site, model.weights).model.eval(), site.data.train)
        order = torch.argsort(surest.facts)  # by number, which tells nothing of the order of the site's notes
        return Scores(surest.facts[order], surest.scores[order], surest.rows[order])

    @on_site
    def fit_chosen(self, chosen: Chosen, site: Site) -> Update:
        """Train on the chosen sentences alone."""
        task, train = cast("BagTask", site.task), site.data.train
        rows = chosen.rows.tolist()
        once = len(set(rows)) == len(rows) and min(rows, default=0) >= 0  # −1 is the last one's other name
        site.stands_on(len(rows) if once else 1)  # one that is named again and again outweighs all others
        if task.expressed(train, chosen.rows)[0]:
            site.keep(Believed(site.exchange.round, chosen.rows))
        trained = self.train(site, chosen.weights, examples=task.only(train, chosen.rows))
        return Update(trained.weights - chosen.weights, 1)

    @on_site
    def evaluate(self, exam: Exam, site: Site) -> Counts:
        """Try the shared model; on what the site trains on, tell how much of what was chosen truly says its fact."""
        counts = self.tried(exam.weights, exam.split, site)
        if exam.split != "train" or not {"chosen", "expressed"} <= counts.numbers.keys():
            return counts
        believed = site.recall(Believed, Believed(0, torch.empty(0, dtype=torch.int64)))
        rows = believed.rows if believed.round == site.exchange.round else believed.rows[:0]
        known, true = cast("BagTask", site.task).expressed(site.data.train, rows)
        believed_now = {"chosen": torch.tensor(known).double(), "expressed": torch.tensor(true).double()}
        return Counts(Weights({**counts.numbers, **believed_now}))

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """Every site weighs 1."""
        return uneven(reply)

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:  # noqa: ARG002
        """None beyond the task's; but the task must have bags to choose from."""
        if not isinstance(task, BagTask):
            raise ValueError('lazy-mil chooses among the sentences of bags; set name = "bags" in [task]')  # noqa: TRY004 -- a setting
        return {}
