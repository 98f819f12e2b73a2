"""What a hospital has agreed to: a study, on these data, for so many rounds and exchanges in all.

    mark = approve(folder, study)           # on the data as they are, for one budget; another one only with `again`
    agreed = read_approval(folder, mark)

    approved/<hash>.toml    the study, as it was approved
    approved/<hash>.json    {"data": …, "rounds": 6, "exchanges": 13, "restarts": 0, "time": "2026-11-16T12:00:00Z"}

The numbers are a budget over all runs and attempts, not per run; another one is added to it, never put in its place.
`data` is the fingerprint of the examples and the label map that were approved: others need another yes.
"""

import hashlib
import json
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from wardround.consortium.deployed import study_hash
from wardround.consortium.exchanges import expected_exchanges, sites_of
from wardround.consortium.forms import Form, FormError, parsed
from wardround.consortium.settings import SiteSettings, read_site
from wardround.core.files import write
from wardround.federation.partition import Raw
from wardround.study.load import Study

RESTARTS = 1  # a coordinator that crashes while sites come and go asks its last round again, of other sites


class Approval(Form):
    """One study's budget at one site, and the data that it is for."""

    data: str
    """The fingerprint of the examples and the label map; see `data_fingerprint`."""
    rounds: Annotated[int, Field(ge=0)]
    """The last round that may be asked for, in whatever run."""
    exchanges: Annotated[int, Field(ge=0)]
    """How many replies may leave in all, the first questions and evaluations included."""
    restarts: Annotated[int, Field(ge=0)] = 0
    """How often a round that was answered may be asked for again with another state."""
    time: str = ""
    """When it was given, in UTC; the newest, if it was given more than once."""

    def __add__(self, more: "Approval") -> "Approval":
        """Both budgets, for the newer data."""
        budget = {key: getattr(self, key) + getattr(more, key) for key in ("exchanges", "restarts")}
        return more.model_copy(update={**budget, "rounds": max(self.rounds, more.rounds)})


def approval_file(folder: Path, study: str) -> Path:
    """Where the approval of the study with this hash is."""
    return folder / "approved" / f"{study}.json"


def read_approval(folder: Path, study: str) -> Approval | None:
    """What was agreed to, or None: never, taken back, or by a version that knew no budgets."""
    path = approval_file(folder, study)
    if not path.with_suffix(".toml").exists():  # deleting either takes it back
        return None
    try:
        return parsed(Approval, path.read_bytes())
    except FileNotFoundError:
        return None
    except FormError as error:
        raise ValueError(f"{path} {error}; delete it, and approve the study again: wardround site approve") from None


def approved_name(folder: Path, study: str) -> str:
    """How the study with this hash was named when it was approved."""
    return str(tomllib.loads(approval_file(folder, study).with_suffix(".toml").read_text(encoding="utf-8"))["name"])


def write_approval(folder: Path, study: str, approval: Approval) -> Approval:
    """Put an approval in its place, with the time of now."""
    timed = approval.model_copy(update={"time": datetime.now(UTC).isoformat(timespec="seconds")})
    write(approval_file(folder, study), timed.encode())
    return timed


def add_approval(folder: Path, study: str, more: Approval) -> Approval:
    """Add a budget to what was agreed to before, if anything was."""
    before = read_approval(folder, study)
    return write_approval(folder, study, more if before is None else before + more)


# saying yes


def data_fingerprint(settings: SiteSettings, parts: Sequence[Raw]) -> str:
    """A hash of the site's examples, as a study reads them, and of its label map: equal if nothing changed."""
    whole = hashlib.sha256(json.dumps(dict(settings.labels), sort_keys=True).encode())
    for part in parts:
        whole.update(part.digest())
        # Whose a note is decides what is clipped together. Noise goes by this hash: other patients under the same noise
        # would be seen in the difference of two answers.
        patients = [document.patient for document in getattr(part, "documents", ())]
        whole.update(json.dumps(patients).encode() if any(patients) else b"")
    return whole.hexdigest()


def budget(folder: Path, settings: SiteSettings, study: Study, exchanges: int | None = None) -> Approval:
    """What one run of the study takes, on this site's data as they are.

    One round more, for one that is asked again when sites come and go; twice that where the number is an estimate.
    """
    parts = settings.parts(study)
    if exchanges is None:
        expected = expected_exchanges(study, len(parts[0]), sites_of(folder))
        exchanges = expected.total(study) * (2 if expected.estimated else 1) + expected.per_round + expected.evaluation
    return Approval(data=data_fingerprint(settings, parts), rounds=study.rounds, exchanges=exchanges)


def approve(
    folder: Path, study: Study, *, again: bool = False, restarts: int = RESTARTS, exchanges: int | None = None
) -> str:
    """Take part in a study, or in more of it (`again`).

    A study approved before is approved for the data of now, and for as many rounds as it has now.
    """
    mark, settings = study_hash(study), read_site(folder)
    more = budget(folder, settings, study, exchanges).model_copy(update={"restarts": restarts})
    before = read_approval(folder, mark)
    if before is None or again:
        write(approval_file(folder, mark).with_suffix(".toml"), study.toml().encode())
        add_approval(folder, mark, more)
    elif before.data != more.data or before.rounds < more.rounds:  # a study that goes on for more rounds than before
        most = {key: max(getattr(before, key), getattr(more, key)) for key in ("rounds", "exchanges")}
        write_approval(folder, mark, before.model_copy(update={**most, "data": more.data}))
    return mark
