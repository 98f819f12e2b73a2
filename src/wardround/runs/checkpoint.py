"""Checkpoints: the state after a round, sealed, so that a killed run goes on with the same bits."""

import json
from dataclasses import dataclass
from pathlib import Path

from wardround.core.codec import DecodeError, decode
from wardround.core.files import BrokenSeal, seal, unseal, write
from wardround.core.record import Record
from wardround.core.refusal import Refusal
from wardround.runs.files import RecallCurve, Tally

KEPT = 2  # one more than needed: the older one survives whatever befalls the newer


class CheckpointError(Refusal, ValueError):
    """A checkpoint cannot be used; the message says which, why and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """The state after `round`, and which study it belongs to; and what was counted in the round that counts so far."""

    round: int
    fingerprint: str
    state: Record
    tally: Tally | None = None
    curve: RecallCurve | None = None


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint, then let go of all but the newest ones."""
    head = {
        "round": checkpoint.round,
        "study": checkpoint.fingerprint,
        "state": type(checkpoint.state).__name__,
        "tally": checkpoint.tally and checkpoint.tally.model_dump(),
        "curve": checkpoint.curve and checkpoint.curve.model_dump(),
    }
    data = json.dumps(head).encode() + b"\n" + checkpoint.state.encode()
    write(folder / f"round-{checkpoint.round:06d}.checkpoint", seal(data))
    for old in _files(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def load_newest(folder: Path, fingerprint: str, kind: type[Record]) -> Checkpoint | None:
    """The newest checkpoint of this study, None if there is none, an error if it is not sound."""
    kept = _files(folder)
    if not kept:
        return None
    path = kept[-1]
    remedy = f"delete it to continue from {kept[-2].name}" if len(kept) > 1 else "delete the run folder to start anew"
    try:
        head, _, data = unseal(path).partition(b"\n")
        about = json.loads(head)
        if about["study"] != fingerprint:
            raise CheckpointError(f"{path}: belongs to another study or other settings; {remedy}")
        tally, curve = about["tally"], about["curve"]
        return Checkpoint(
            about["round"], about["study"], decode(kind, data),
            tally and Tally.model_validate(tally), curve and RecallCurve.model_validate(curve),
        )  # fmt: skip
    except BrokenSeal as error:
        raise CheckpointError(f"{error}; {remedy}") from None
    except (ValueError, KeyError, TypeError, DecodeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: cannot be read ({error}); {remedy}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None


def kept_rounds(folder: Path) -> list[int]:
    """The rounds of the checkpoints that are kept: nothing from before the oldest can be asked for again."""
    rounds = [path.stem.removeprefix("round-") for path in _files(folder)]
    return sorted(int(round_) for round_ in rounds if round_.isdecimal())


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*.checkpoint"), key=lambda path: (len(path.name), path.name))
