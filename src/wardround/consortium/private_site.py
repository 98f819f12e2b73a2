"""Differential privacy at a real site: its own secret, its own budget, and the guards of a run.

    guards = site_guards(settings, study, mark, run, data)
    journal = budget_journal(settings)                      # `Tampered` if somebody has changed it

`[budget]` in site.toml is what all studies together may cost this site's patients. A site that has one takes part in no
study without `[privacy.dp]`, whose cost nobody could count. The noise comes from `keys/chance.key`, which never leaves
the site and is drawn from the operating system; losing it costs nothing but that an answer cannot be given twice.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from wardround.consortium.budget import Denial
from wardround.consortium.settings import SiteSettings
from wardround.core.chance import Chance, key_of
from wardround.core.layer import Withheld
from wardround.core.private_steps import Guard, Plan
from wardround.core.task import SiteData, Units
from wardround.engines.seal import write_private
from wardround.federation.units import Unit
from wardround.layers.ledger import last_value
from wardround.privacy.guards import Guards, Source, Terms
from wardround.privacy.journal import BudgetJournal
from wardround.privacy.refusals import refused
from wardround.privacy.simulated import misfits, unsteady
from wardround.study.load import Study

SECRET = Path("keys") / "chance.key"
JOURNAL = Path("ledger") / "budget.jsonl"
BYTES = 32
UNITS = get_args(Unit)  # from the least to the most


def own_secret(folder: Path) -> bytes:
    """The site's secret, drawn now if there is none yet."""
    path = folder / SECRET
    if not path.exists():
        write_private(path, os.urandom(BYTES))
    secret = path.read_bytes()
    if len(secret) != BYTES:
        raise ValueError(f"{path} is damaged; delete it, and another is drawn")
    return secret


def budget_journal(settings: SiteSettings) -> BudgetJournal:
    """The site's journal, read anew."""
    return BudgetJournal(settings.folder / JOURNAL, settings.allowance, noted_budget(settings.folder))


def noted_budget(folder: Path) -> str:
    """The hash of the journal's line that the site's ledger has noted last; nothing if it has noted none."""
    return last_value(folder / "ledger" / "site.jsonl", "budget")


def site_guards(
    settings: SiteSettings, study: Study, mark: str, run: str, data: str, beside: Sequence[bytes]
) -> Guards:
    """The guards of one run of a study at this site, on the data with this fingerprint, and what is read `beside`."""
    # A coordinator that gave runs of two studies one name would have both under one noise, if it were not the study's.
    # A site that is talked into another file of word vectors would answer the same question from them under it, too.
    source = Source(key_of(own_secret(settings.folder), data, mark, *beside), hidden=True)
    return Guards(Terms.of(study), mark, study.name, run[:16], source, lambda _: budget_journal(settings), data[:16])


def read_beside(study: Study) -> Iterator[bytes]:
    """What stands for each file that the study's task reads here besides the notes: word vectors, an encoder's."""
    for path in study.task.files().values():
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with file.open("rb") as whole:
                    yield hashlib.file_digest(whole, "sha256").digest()


def greet(guards: Guards, name: str, data: SiteData) -> str:
    """Pay for what a site says of its size before a run, the journal's head; a `Denial` if no run may begin."""
    try:
        guards.greet(name, guards.plan(name, cast("Units", data.units)))
    except Withheld as refusal:
        raise Denial(refusal.code) from None
    return last_value(guards.journal(name).path, "hash")


def unwilling(settings: SiteSettings, study: Study) -> str | None:
    """Why the site's budget rules a study out before it begins, in words for the site; None if it does not."""
    allowance, dp = settings.allowance, study.dp
    if allowance is None:
        return None
    if dp is None:
        return "site.toml has a [budget], and this study has no [privacy.dp]: what it costs cannot be counted"
    if UNITS.index(dp.unit) < UNITS.index(allowance.unit):
        return (
            f'the study protects each {dp.unit}, and [budget] in site.toml has unit = "{allowance.unit}": a patient '
            "with several notes would cost more than is counted; ask for a study with that privacy.dp.unit"
        )
    if dp.epsilon > allowance.epsilon or dp.delta > allowance.delta:
        return (
            f"the study asks for ε = {dp.epsilon:g} and δ = {dp.delta:g}, and [budget] in site.toml has "
            f"ε = {allowance.epsilon:g} and δ = {allowance.delta:g} for all studies together"
        )
    return None


def unaffordable(settings: SiteSettings, study: Study) -> str | None:
    """Why what is left of the budget may not do for a study; None if it does, or if nothing limits it."""
    allowance, dp = settings.allowance, study.dp
    if allowance is None or dp is None:
        return None
    epsilon, delta = budget_journal(settings).spent
    left, rest = max(allowance.epsilon - epsilon, 0.0), max(allowance.delta - delta, 0.0)
    if dp.epsilon <= left and dp.delta <= rest:
        return None
    return (
        f"a run of the study costs up to ε = {dp.epsilon:g} and δ = {dp.delta:g}, and ε = {left:.3f} and δ = {rest:g} "
        "are left for new ones: such a run is refused here, at once or in the round in which that is spent; "
        f"wardround site budget {settings.folder}"
    )


def unfit(settings: SiteSettings, study: Study, task: Any, data: SiteData) -> list[str]:
    """Why a study's differential privacy cannot hold here: a site looks by itself, whatever the coordinator says."""
    if study.dp is None:
        return []
    leaks = list(refused(study, task, simulated=False))
    if settings.data.get("dedupe"):
        leaks.append(
            "privacy.dp: with dedupe in [data], a note to test on decides whether another's is trained on; take the "
            "repeated texts out of the files, and dedupe out of site.toml"
        )
    leaks = leaks or list(misfits(Terms.of(study), {settings.name: cast("Units", data.units).count}))
    return leaks or list(unsteady(study, task, data))


def admit_terms(settings: SiteSettings, study: Study, task: Any, data: SiteData) -> None:
    """A `Denial` if the site's budget or its notes do not fit what the study asks."""
    if unwilling(settings, study):
        raise Denial("budget")
    if unfit(settings, study, task, data):
        raise Denial("privacy")


def noise_guard(plan: Plan) -> Guard:
    """A guard with no notes behind it: where training by noise alone leads is no secret."""
    return Guard(plan, Units((), lambda _: ()), lambda _: Chance(key_of("noise alone"), secret=False), lambda _: None)
