"""Lazy MIL read in another way, for simulations.

    [method]
    name = "readings:SharedList"

`SharedList` is what the authors' published code does: one list of chosen sentences, on which every active platform
trains, so that each learns from the others' sentences. No federation can do that, since sentences would have to leave:
all of them are in one place here, dealt to platforms by the seed, and real sites are refused (`pooled`).
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from wardround.core.bench import Bench
from wardround.extend import Cohort, Global, Site, Update, on_site
from wardround.methods.lazy_mil import LazyMIL
from wardround.tasks.bag_examples import BagExamples, Groups


def among(examples: BagExamples, kept: Tensor) -> BagExamples:
    """The same sentences, of which only some (S,) are in bags."""
    rows, bag = examples.bags.take(torch.arange(len(examples.bags)))
    rows, bag = rows[kept[rows]], bag[kept[rows]]
    known, owner = torch.unique(bag, return_inverse=True)
    bags = Groups(owner)
    bags.rows = rows[bags.rows]
    return replace(examples, bags=bags, facts=examples.facts[known])


@dataclass(frozen=True, kw_only=True)
class SharedList(LazyMIL):
    """Every active platform trains on all chosen sentences, its own and the others': no federation could."""

    beyond_training: ClassVar[str] = ""
    pooled: ClassVar[bool] = True

    platforms: Annotated[int, Ge(1)] = 100
    """How many platforms sentences are dealt to."""
    taking_part: Annotated[float, Gt(0), Le(1)] = 1.0
    """C: the share of platforms that are active in a round."""

    def round(self, state: Global, cohort: Cohort) -> Global:
        """θ + mean Δ."""
        total = cohort.total(self.fit_list, state)
        return Global(state.weights + total.change / total.weight)

    @on_site
    def fit_list(self, model: Global, site: Site) -> Update:
        """Draw platforms, choose among their sentences, train once for each platform on all that was chosen."""
        examples: BagExamples = site.data.train  # type: ignore[assignment]
        count = len(examples.numbers.relations)
        dealt = torch.randperm(count, generator=torch.Generator().manual_seed(site.exchange.seed)) % self.platforms
        active = torch.randperm(self.platforms, generator=site.rng)[: max(int(self.taking_part * self.platforms), 1)]
        heard = among(examples, torch.isin(dealt, active))
        rows = site.task.surest(Bench.at(site, model.weights).model.eval(), heard).rows.sort().values  # type: ignore[attr-defined]
        chosen = site.task.only(examples, rows)  # type: ignore[attr-defined]
        site.stands_on(len(rows))
        change = model.weights.zeros()
        for _ in active:
            change = change + self.train(site, model.weights, examples=chosen).weights - model.weights
        return Update(change, len(active))

    def exchanges(self, examples: int) -> dict[str, int]:  # noqa: ARG002
        """One."""
        return {"fit_list": 1}
