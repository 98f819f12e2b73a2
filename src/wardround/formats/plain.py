"""Plain text: a file is a note, and its name without the ending is the note's id.

    for placed in read_text(Path("note.txt"), problems, Options()): ...

It is never recognised by its content, since any text is text: whoever wants it names it (`--from text`).
"""

from collections.abc import Iterator
from pathlib import Path

from wardround.formats.options import Options
from wardround.text.bounded import bounded
from wardround.text.document import Document, Placed
from wardround.text.reading import MARKS, DataError, Problems, lines_with_ends, open_bytes

OTHERS = {
    b"PK\x03\x04": ("a ZIP archive, as .docx and .xlsx are", "unpack it, or export the notes as text"),
    b"%PDF": ("a PDF", "export the notes as text"),
    b"\xd0\xcf\x11\xe0": ("an old Office file", "export the notes as text, tables as CSV"),
    b"PAR1": ("a Parquet file", "export it as CSV"),
    b"SQLite format 3": ("a database", "export its tables as CSV"),
    b"{\\rtf": ("a Rich Text file", "export the notes as plain text"),
    b"\x80\x04": ("a pickle, which is never opened", "export the notes as text"),
}


def read_text(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The one note of a file."""
    if path.is_file():  # and no pipe, which can be read only once
        refuse_binary(path, options.encoding)
    lines = lines_with_ends(path, options.encoding, problems=problems)
    text = "".join(bounded(lines, path, "a plain file is one note: cut it into notes, or make it JSONL"))
    name = path.with_suffix("") if path.suffix == ".gz" else path
    yield Placed(Document(name.stem, text, language=options.language), path, 0)


def refuse_binary(path: Path, encoding: str | None) -> None:
    """Raise an error that says what a file seems to be, if it is no text."""
    with open_bytes(path) as stream:
        head = stream.read(4096)
    for start, (what, remedy) in OTHERS.items():
        if head.startswith(start):
            raise DataError(path, None, what, remedy)
    marked = encoding or any(head.startswith(mark) for mark, _ in MARKS)
    # NUL is left to the decoder, which tells UTF-16 by it.
    odd = sum(byte < 32 and byte not in b"\0\t\n\f\r\x1b" for byte in head)
    if not marked and odd > 0.02 * len(head):
        raise DataError(path, None, "a binary file, not text", "export the notes as text")
