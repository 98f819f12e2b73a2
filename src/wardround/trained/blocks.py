"""Texts some at a time: as many as go through a model together, whoever does the work.

Where a block ends depends on the texts alone. So predictions are the same bits from Python, from the command line and
from any number of workers, although a text's neighbours in a batch change the last digits of its numbers.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from wardround.text.document import Document, Placed

AT_ONCE = 64
CHARACTERS = 2**18

T = TypeVar("T", str, Document, "str | Document", Placed)


def blocks(texts: Iterable[T], at_once: int = AT_ONCE) -> Iterator[list[T]]:
    """At most `at_once` texts, and no more once they are long."""
    some: list[T] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(_text(text))
        if len(some) == at_once or size >= CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _text(text: str | Document | Placed) -> str:
    if isinstance(text, Placed):
        return text.document.text
    return text.text if isinstance(text, Document) else text
