"""Whether the answer to long work is still wanted: it asks between its parts, and ends by an error if not.

    with wanted(lambda: not gone.is_set()):
        model.together(texts)                 # NotWanted, at the next `go_on`

Without `wanted` everything is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], bool] | None] = ContextVar("wanted", default=None)


class NotWanted(Exception):
    """Nobody waits for the answer any more."""


@contextmanager
def wanted(ask: Callable[[], bool]) -> Iterator[None]:
    """Work that ends as soon as this says no."""
    before = _asked.set(ask)
    try:
        yield
    finally:
        _asked.reset(before)


def go_on() -> None:
    """Raise an error if nobody waits; to be called between parts that take a second or so."""
    if (ask := _asked.get()) is not None and not ask():
        raise NotWanted
