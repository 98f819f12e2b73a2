"""What crossed the wire: one row per field of each kind of message, as numbers in `wire.json`, in words on a screen.

Made from exchanges as they happened (`exchanges`), so that it cannot be out of date.
"""

from collections.abc import Iterable
from typing import Literal

from wardround.runs.files import Plain, RunFile

HEADER = ("step", "direction", "message", "field", "shape", "bytes", "the coordinator sees", "reveals")
SEEN = {"": "—", "each": "each", "sum": "the sum; its machine each", "masked": "the sum; nobody each"}
"""A method that needs only the sum looks at no single reply, but somebody's machine adds them up."""
SUMMED = (
    f'"{SEEN["sum"]}": the method looks at the sum over sites alone, but without secure aggregation each reply reaches '
    "the coordinator's machine, and whoever controls that can read it."
)
MASKED = (
    f'"{SEEN["masked"]}": replies are masked where they are made; the coordinator\'s machine receives what nobody can '
    "read alone, and the masks cancel out in the sum over sites. docs/leaves.md has what that does not protect from."
)
NEVER = "Never sent: text, tokens, entity strings, document ids."


class WireRow(Plain):
    """One field of one kind of message; without a name, what surrounds the fields."""

    step: str
    direction: Literal["to site", "from site"]
    message: str
    field: str
    type: str
    """Of a number in it, or of the whole: `float32`, `int`, `str`."""
    tensors: int | None = None
    """How many tensors, where there may be several: `shape` then has their numbers' count."""
    shape: tuple[int, ...] | None = None
    bytes: int
    seen: Literal["", "each", "sum", "masked"]
    """What the coordinator sees of a reply."""
    reveals: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The row in words, under `HEADER`."""
        name, reveals = (self.field, self.reveals) if self.field else ("(names, numbers, framing)", "as above")
        shown = (name, self.content, f"{self.bytes:,}", SEEN[self.seen], reveals)
        return self.step, self.direction, self.message, *shown

    @property
    def content(self) -> str:
        """Shape and type, in short."""
        if self.tensors is not None and self.shape:
            return f"{self.tensors} tensors, {self.shape[0]:,} × {self.type}"
        return self.type if self.shape is None else f"{list(self.shape)} {self.type}"


def who_sees(rows: Iterable[WireRow]) -> str:
    """What the words mean that these rows have for what the coordinator sees of sums."""
    words = {"sum": SUMMED, "masked": MASKED}
    return "\n".join(words[seen] for seen in words if seen in {row.seen for row in rows})


WIRE: RunFile[tuple[WireRow, ...]] = RunFile("wire.json", tuple[WireRow, ...], "rows of a manifest")
