"""A hospital says yes to a study: on the data as they are, for one budget; another one only if it says so.

mark = approve(folder, study)
spent(folder, mark)                 # what has left of it so far, by the site's own ledger
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from wardround.consortium.approval import Approval, add_approval, read_approval, write_approval
from wardround.consortium.budget import Budget, Spent
from wardround.consortium.deployed import study_hash
from wardround.consortium.expected import expected_exchanges, sites_of
from wardround.consortium.settings import SiteSettings, read_site
from wardround.core.files import write
from wardround.federation.sites import Raw
from wardround.study.load import Study

__all__ = ["RESTARTS", "approve", "budget", "data_fingerprint", "spent"]

RESTARTS = 1  # a coordinator that crashes while sites come and go asks its last round again, of other sites


def data_fingerprint(settings: SiteSettings, parts: tuple[Raw, Raw]) -> str:
    """A hash of the site's examples, as a study reads them, and of its label map: equal if nothing changed."""
    whole = hashlib.sha256(json.dumps(dict(settings.labels), sort_keys=True).encode())
    for part in parts:
        whole.update(part.digest())
    return whole.hexdigest()


def budget(folder: Path, settings: SiteSettings, study: Study, exchanges: int | None = None) -> Approval:
    """What one run of the study takes, on this site's data as they are.

    One round more, for one that is asked again when sites come and go; twice that where the number is an estimate.
    """
    parts = settings.examples(study)
    if exchanges is None:
        expected = expected_exchanges(study, len(parts[0]), sites_of(folder))
        exchanges = expected.total(study) * (2 if expected.estimated else 1) + expected.per_round + expected.evaluation
    return Approval(data_fingerprint(settings, parts), study.rounds, exchanges)


def approve(
    folder: Path, study: Study, *, again: bool = False, restarts: int = RESTARTS, exchanges: int | None = None
) -> str:
    """Take part in a study, or in more of it (`again`).

    A study approved before is approved for the data of now, and for as many rounds as it has now.
    """
    mark, settings = study_hash(study), read_site(folder)
    more = replace(budget(folder, settings, study, exchanges), restarts=restarts)
    before = read_approval(folder, mark)
    if before is None or again:
        write(folder / "approved" / f"{mark}.toml", study.toml().encode())
        if before is None:
            write_approval(folder, mark, more)
        else:
            add_approval(folder, mark, more)
    elif before.data != more.data or before.rounds < more.rounds:  # a study that goes on for more rounds than before
        rounds, most = max(before.rounds, more.rounds), max(before.exchanges, more.exchanges)
        write_approval(folder, mark, replace(before, data=more.data, rounds=rounds, exchanges=most))
    return mark


def spent(folder: Path, mark: str) -> Spent:
    """What the study with this hash has had of its budget, as the site's own ledger has it."""
    return Budget(folder / "ledger" / "site.jsonl").of(mark)
