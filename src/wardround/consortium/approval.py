"""What a hospital has agreed to: a study, on these data, for so many rounds and exchanges in all.

    approved/<hash>.toml    the study, as it was approved
    approved/<hash>.json    {"data": …, "rounds": 6, "exchanges": 13, "restarts": 0, "time": "2026-11-16T12:00:00Z"}

The numbers are a budget over all runs and attempts, not per run; another one is added to it, never put in its place.
`data` is the fingerprint of the examples and the label map that were approved: others need another yes.
"""

import json
import tomllib
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from wardround.core.files import write

__all__ = ["Approval", "add_approval", "approval_file", "approved_name", "read_approval", "write_approval"]


@dataclass(frozen=True)
class Approval:
    """One study's budget at one site, and the data that it is for."""

    data: str
    """The fingerprint of the examples and the label map; see `data_fingerprint`."""
    rounds: int
    """The last round that may be asked for, in whatever run."""
    exchanges: int
    """How many replies may leave in all, the first questions and evaluations included."""
    restarts: int = 0
    """How often a round that was answered may be asked for again with another state."""
    time: str = ""
    """When it was given, in UTC; the newest, if it was given more than once."""

    def __add__(self, more: "Approval") -> "Approval":
        """Both budgets, for the newer data."""
        budget = {key: getattr(self, key) + getattr(more, key) for key in ("exchanges", "restarts")}
        return replace(more, **budget, rounds=max(self.rounds, more.rounds))


def approval_file(folder: Path, study: str) -> Path:
    """Where the approval of the study with this hash is."""
    return folder / "approved" / f"{study}.json"


def read_approval(folder: Path, study: str) -> Approval | None:
    """What was agreed to, or None: never, taken back, or by a version that knew no budgets."""
    path = approval_file(folder, study)
    if not path.with_suffix(".toml").exists():  # deleting either takes it back
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        values = None
    kinds = {"data": str, "rounds": int, "exchanges": int, "restarts": int, "time": str}
    good = isinstance(values, dict) and values.keys() == kinds.keys()
    if not good or any(
        type(values[key]) is not kind or (kind is int and values[key] < 0) for key, kind in kinds.items()
    ):
        raise ValueError(f"{path} is no approval; delete it, and approve the study again: wardround site approve")
    return Approval(**values)


def approved_name(folder: Path, study: str) -> str:
    """How the study with this hash was named when it was approved."""
    return str(tomllib.loads(approval_file(folder, study).with_suffix(".toml").read_text(encoding="utf-8"))["name"])


def write_approval(folder: Path, study: str, approval: Approval) -> Approval:
    """Put an approval in its place, with the time of now."""
    timed = replace(approval, time=datetime.now(UTC).isoformat(timespec="seconds"))
    write(approval_file(folder, study), (json.dumps(asdict(timed), indent=1) + "\n").encode())
    return timed


def add_approval(folder: Path, study: str, more: Approval) -> Approval:
    """Add a budget to what was agreed to before, if anything was."""
    before = read_approval(folder, study)
    return write_approval(folder, study, more if before is None else before + more)
