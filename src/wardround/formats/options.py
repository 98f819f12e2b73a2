"""What a file may not say itself, and how its reader should behave; everything may be left out."""

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to read, or write, a user's file."""

    encoding: str | None = None
    language: str = ""
    text: str = ""
    """The column or key of the text; likewise the next three."""
    label: str = ""
    id: str = ""
    source: str = ""
    separator: str = ""
    """What stands between the labels of one cell."""
    labelled: bool = True
    """Whether the labels of texts are read; whoever predicts them does not ask what is in their column."""
    fix_offsets: bool = False
    show_text: bool = False
