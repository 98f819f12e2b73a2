"""What a user is told when a run or a command of a consortium cannot go on; no torch here."""

from wardround.core.refusal import Refusal


class RunError(Refusal, RuntimeError):
    """A run cannot start, go on or be read; the message says what to do."""
