"""An error that a user is meant to read: a command ends with its message and its exit code, and no traceback."""


class Refusal(Exception):
    """What cannot be done, why, and the remedy."""

    code = 2
    """The exit code of a command that ends so: 2 if what was given is wrong, 1 if the work failed."""


class Misfit(Refusal, ValueError):
    """Examples that are not what the study says of them."""
