"""Ending a run after the round that is under way: asked for by a file in its folder, seen between two rounds.

    ask_to_stop(out)                 # another process: `wardround watch`
    leave_if_asked(out, 7)           # the loop, once round 7 is in a checkpoint

What a run has done until then is as if its process had been interrupted there: a resume gives the same bits.
"""

from pathlib import Path

from wardround.runs.errors import RunError

STOP = ".stop.new"  # like a file half written: what is left of a run that was killed is taken away


class Stopped(RunError):
    """A run ended before its last round because somebody asked for it."""

    code = 130  # as after Ctrl-C


def ask_to_stop(out: Path) -> None:
    """Have the run in this folder end after its round."""
    (out / STOP).touch()


def stop_asked(out: Path) -> bool:
    """Whether somebody did."""
    return (out / STOP).exists()


def forget_stop(out: Path) -> None:
    """Take back what was asked for before: of a run that has ended since."""
    if stop_asked(out):
        (out / STOP).unlink(missing_ok=True)


def leave_if_asked(out: Path, when: str) -> None:
    """End here, if somebody asked for it."""
    if stop_asked(out):
        forget_stop(out)
        raise Stopped(f"stopped {when}, as was asked; nothing is lost")
