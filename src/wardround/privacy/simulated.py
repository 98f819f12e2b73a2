"""The guards of a simulation: chance from the study's seed, a journal for each site in the run's folder.

What is wrong with a site's data for the study's terms is found out here, before the run, at all sites at once.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from wardround.core.bench import Bench
from wardround.core.files import file_name
from wardround.core.private_steps import steady
from wardround.core.task import SiteData, Task, Units
from wardround.privacy.guards import Guards, Source, Terms
from wardround.privacy.journal import Allowance, BudgetJournal
from wardround.study.load import Study
from wardround.study.settings import StudyError

SHOWN = 3


class OpenedSites(Protocol):
    """Sites by name, each opened on its own."""

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102 -- the class says it

    def open(self, name: str) -> SiteData:
        """The data of one site."""


def simulated_guards(study: Study, sites: OpenedSites, out: Path) -> Guards:
    """The guards of all sites of a simulation in this folder."""
    terms = Terms.of(study)
    sizes: dict[str, int] = {}
    try:
        for name in sites.names:
            sizes[name] = cast("Units", sites.open(name).units).count
    except ValueError as error:
        raise StudyError(study.name, [str(error)]) from None
    if problems := list(misfits(terms, sizes)):
        raise StudyError(study.name, problems)

    @cache
    def journal(name: str) -> BudgetJournal:
        return BudgetJournal(out / "budget" / f"{file_name(name)}.jsonl", Allowance(terms.dp.epsilon, terms.dp.delta))

    return Guards(terms, study.fingerprint, study.name, "simulation", Source.seeded(study.seed), journal)


def misfits(terms: Terms, sizes: dict[str, int]) -> Iterator[str]:
    """Why sites with so many units cannot train on these terms."""
    dp, batch = terms.dp, terms.method.per_step
    if many := [f"{name} ({size})" for name, size in sizes.items() if size and dp.delta * size >= 1]:
        yield (
            f"privacy.dp.delta = {dp.delta:g} is not below one over the number of {dp.unit}s at {_some(many)}: it "
            f"would allow to publish one of them; take at most {0.1 / max(sizes.values()):.0e}"
        )
    if small := [f"{name} ({size})" for name, size in sizes.items() if size < max(batch, 1)]:
        yield (
            f"method.batch = {batch} is more than the {dp.unit}s at {_some(small)}; lower it, set it to 0 to "
            "take all, or leave out such sites"
        )


def unsteady(study: Study, task: Task, data: SiteData) -> Iterator[str]:
    """Why a model of somebody's own would carry notes on without noise, by a look at two of a site's units."""
    units = cast("Units", data.units)
    if units.count and not steady(Bench.of(task, study.sites.private), task, data.train, units):
        yield (
            "privacy.dp: the model keeps something of the texts that it learns from which is no weight (a running "
            "mean, say), and no noise would be on it; have it keep nothing, and draw from torch's generator alone"
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
