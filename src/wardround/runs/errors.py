"""What a user is told when a run or a command of a consortium cannot go on; no torch here."""

from wardround.core.refusal import Refusal

__all__ = ["RunError"]


class RunError(Refusal, RuntimeError):
    """A run cannot start or go on; the message says what to do."""
