"""What a file may not say itself, and how its reader should behave; everything may be left out."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Literal

from wardround.text.tags import Scheme

Column = str | int
"""A name from the header (JSONL: a key), or a number counted from 1."""
View = Literal["labels", "entities", "pairs", "bags"]
VIEWS: dict[str, str] = {
    "labels": "labelled texts",
    "entities": "texts with entities",
    "pairs": "pairs of entities",
    "bags": "bags of sentences",
}
"""What tasks take of documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to read, or write, a user's file."""

    encoding: str | None = None
    language: str = ""
    text: Column | tuple[Column, ...] = ""
    """The column or key of the text; several, such as a title and a body, are joined by line feeds."""
    label: Column = ""
    id: Column = ""
    source: Column = ""
    patient: Column = ""
    flags: tuple[Column, ...] = ()
    """Columns of 0 and 1 that name the labels; they replace `label`."""
    separator: str = ""
    """What separates the labels of one cell."""
    header: bool | None = None
    """Whether the first row of a table has names; without it yes, unless columns are numbers and it looks like none."""
    quoting: bool | None = None
    """Whether quotes enclose cells; without it yes in CSV, no in TSV."""
    delimiter: str | None = None
    """What stands between the cells of CSV; without it, what its first rows show."""
    token: int = 1
    """The column of the token, from 1, or from the end: -1; likewise the next."""
    tag: int = -1
    scheme: Scheme | None = None
    """Only to count what breaks it; BIO and BIOES are read without it."""
    bare: str = "Entity"
    """The type of tags that name none."""
    tags: tuple[str, str] = ("e1", "e2")
    """What marks head and tail in a sentence."""
    labelled: bool = True
    """Whether the labels of texts are read; whoever predicts them does not ask what is in their column."""
    needs: tuple[str, ...] = ()
    """What each document must have a place for, be it empty: `labels`, `entities`."""
    concepts: bool = False
    """Whether an entity's id is the public id of what it names, which several mentions may share; what is odd about a
    mention is then counted instead of refused."""
    fix_offsets: bool = False
    show_text: bool = False

    def key(self, meaning: str, row: Container[str]) -> str:
        """Under which key a JSON object has its id, source or patient: the named one, or else the usual one.

        What comes back from an annotation tool has the usual ones, whatever the files were called that went there.
        """
        named = str(getattr(self, meaning) or meaning)
        return named if named in row else meaning


def text_twice(said: Any) -> str:
    """What else the column of the text is named for, or nothing; of `Options` or a study's files."""
    texts = said.text if isinstance(said.text, tuple) else (said.text,)
    return next(
        (one for one in ("label", "id", "source", "patient") if getattr(said, one) and getattr(said, one) in texts), ""
    )
