"""A study attacked: what its messages and its model give away, with each protection off and on.

    audit = audited(study, say=print)
    for finding in audit.findings: print(finding.attack, finding.protection, finding.value, finding.tells)

The notes are generated (or, with `make`, a site's own), task and method the study's own. Each attack is one file beside
this one. What is not built in, or does not go with the study, is listed with the reason.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.audit import candidates, labels, lying, membership, sums, words
from wardround.audit.case import OFF, PROTECTIONS, Case, Make, given_up, observed, rehearsable, variants
from wardround.audit.finding import AttackResult
from wardround.runs.build import build
from wardround.runs.exchanges import rows
from wardround.runs.loop import one_thread
from wardround.runs.protocol import exchanged, unheard
from wardround.runs.wire import WireRow
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError

ATTACKS: dict[str, tuple[str, Callable[[Case, Path], list[AttackResult]]]] = {
    "words": (words.__doc__ or "", lambda case, _: words.attack(case)),
    "labels": (labels.__doc__ or "", lambda case, _: labels.attack(case)),
    "candidates": (candidates.__doc__ or "", lambda case, _: candidates.attack(case)),
    "membership": (membership.__doc__ or "", lambda case, _: membership.attack(case)),
    "canaries": ("", membership.canaries),
    "sums": (sums.__doc__ or "", lambda case, _: sums.attack(case)),
    "lying": (lying.__doc__ or "", lying.attack),
}
"""What each attack is, in the words of its file, and what it finds out."""
ROUNDS = 20


@dataclass(frozen=True)
class Audit:
    """What was attacked, how, and what came of it."""

    study: Study
    notes: str
    """Whose notes were used."""
    rounds: int
    findings: tuple[AttackResult, ...]
    missing: Mapping[str, str]
    """Protections that could not be switched on, and why."""
    leaves: tuple[WireRow, ...]
    """What leaves a site of the study as it is."""
    switched_on: tuple[str, ...] = field(default=())
    """The protections of the study as it is."""
    given_up: Mapping[str, str] = field(default_factory=dict)
    """By protection, which settings of the task do not go with it, and what was attacked instead."""


def audited(
    study: Study,
    *,
    sites: int = 4,
    notes: int = 60,
    rounds: int | None = None,
    make: Make | None = None,
    whose: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Attack a study: every attack under every set of protections that there is."""
    own = make is not None
    tables: dict[str, Any] = dict(study.resolved) if own else rehearsable(study, sites, notes)
    tables["rounds"] = rounds = rounds or min(ROUNDS, study.rounds)  # so that what ε is promised for is what is run
    findings: list[AttackResult] = []
    missing: dict[str, str] = {}
    without: dict[str, str] = {}
    privacy = study.resolved.get("privacy", {})
    with one_thread(), unheard(), tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, (label, variant) in enumerate(variants(study, {k: v for k, v in tables.items() if k != "privacy"})):
            if isinstance(variant, str):
                missing[label] = variant
                continue
            say(f"attacking the study with {label}")
            try:
                findings += _attacked(label, variant, folder / str(number), rounds, make or build)
            except StudyError as error:  # what does not go together with this method or task
                missing[label] = "; ".join(error.problems)
                continue
            if changes := given_up(study, variant):
                without[label] = changes
        as_it_is = cells({**tables, "privacy": privacy} if privacy else tables, where=study.name)[0].study
        leaves = rows(exchanged((make or build)(as_it_is, folder / "leaves"), 1), as_it_is.dp)
    on = tuple(
        label for label, asked in PROTECTIONS.items() if label != OFF and asked and asked.keys() <= privacy.keys()
    )
    source = whose or f"{sites} generated hospitals with {notes} notes each"
    return Audit(study, source, rounds, tuple(findings), missing, leaves, on, without)


def _attacked(label: str, study: Study, folder: Path, rounds: int, make: Make) -> list[AttackResult]:
    case = observed(label, study, folder, rounds, make)
    return [finding for name, (_, attack) in ATTACKS.items() for finding in attack(case, folder / name)]
