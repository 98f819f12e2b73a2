"""What all text readers share: errors with a place, counted findings, and lines from files of any origin.

    problems = Problems()
    for number, line in enumerate(open_text(path, problems=problems), 1): ...
    print(problems)         # empty text: 3 (notes.csv:7, notes.csv:12, notes.csv:40)

Rules:
1. An error or a finding names file, line and kind. Note text never enters a message: what a file holds is
   quoted only where `shown` decides that it is a name.
2. Files are streamed. No line is longer than `LONGEST_LINE`, so a binary or a compression bomb ends early.
3. Decoding is strict: nothing is replaced or dropped in silence.
4. A line ends at LF, CRLF or a lone CR, and at nothing else.
"""

import codecs
import difflib
import gzip
import hashlib
import os
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

LONGEST_LINE = 16 * 2**20
BLOCK = 2**18
PLACES = 3

# The longer marks first: UTF-32's begins with UTF-16's.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
ENCODINGS = ("utf-8", "gb18030", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "big5", "shift_jis")


class DataError(ValueError):
    """What is wrong in which line of a file, and what to do: `path:line: what — remedy`."""

    def __init__(self, path: Path | str, line: int | None, what: str, remedy: str = "") -> None:
        # All four become `args`, so that the error survives the way back from a worker process.
        super().__init__(path, line, what, remedy)
        self.path, self.line, self.what, self.remedy = path, line, what, remedy

    def __str__(self) -> str:
        place = f"{self.path}" if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.what}" + (f" — {self.remedy}" if self.remedy else "")


Skip = Callable[[DataError], None]


class Problems:
    """Findings that do not stop a reader: how many of each kind, and where the first few are."""

    skips = False
    """Whether what cannot be read is skipped, and reading goes on without it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.places: dict[str, list[str]] = {}

    def note(self, kind: str, path: Path | str, line: int) -> None:
        """One more of this kind; `kind` is a fixed phrase and never holds text from the file."""
        self.at(kind, f"{Path(path).name}:{line}")

    def at(self, kind: str, place: str, offset: int = 0) -> None:  # noqa: ARG002 -- for whoever knows a document's lines
        """The same, where the place is a document's id and a character of its text."""
        self.counts[kind] += 1
        places = self.places.setdefault(kind, [])
        if len(places) < PLACES and place not in places:
            places.append(place)

    def include(self, other: "Problems") -> None:
        """The findings of another reading as well."""
        self.counts.update(other.counts)
        for kind, places in other.places.items():
            mine = self.places.setdefault(kind, [])
            mine += [place for place in places if place not in mine][: PLACES - len(mine)]

    def __str__(self) -> str:
        return "\n".join(f"{kind}: {n} ({', '.join(self.places[kind])})" for kind, n in self.counts.items())

    def refuse(self, error: DataError) -> None:
        """What a reader cannot take: here the end of reading; whoever wants all errors collects them instead."""
        raise error

    def skip(self, error: DataError) -> None:
        """What ends a file before its end, or makes a line no text: the same, unless such are skipped."""
        raise error

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """A piece of reading of which any error is for `refuse` to deal with."""
        try:
            yield
        except DataError as error:
            self.refuse(error)


def nearest(name: str, names: Iterable[str], *, alike: float = 0.6) -> str | None:
    """The one of `names` most like `name`, capitals aside, if any is as like as that."""
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=alike)
    return folded[close[0]] if close else None


def one_of(split: str, splits: Sequence[str]) -> str:
    """The split itself, if the corpus has it."""
    if split not in splits:
        raise ValueError(f'no split "{split}": use one of {", ".join(splits)}')
    return split


def digest(text: str) -> bytes:
    """Eight bytes that stand for a text where only sameness matters."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def near_digest(text: str) -> bytes:
    """The same, also where white space, capitals or full-width letters differ: to most models that is one text."""
    return digest(folded(text))


def folded(text: str) -> str:
    """The text without what white space, capitals and full-width letters make different."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def data_folder(wanted: str = "the corpora") -> Path:
    """The folder of the named corpora, from the environment variable WARDROUND_DATA."""
    folder = os.environ.get("WARDROUND_DATA", "")
    if not folder:
        raise DataError("WARDROUND_DATA", None, "is not set", f"set it to the folder that holds {wanted}")
    return Path(folder)


def data_file(name: str, origin: str) -> Path:
    """A named corpus' file such as `cmedtc/train.txt.gz`, compressed or not."""
    expected = data_folder(f"{name} (from {origin})") / name
    plain = expected.with_suffix("") if expected.suffix == ".gz" else expected
    for path in (expected, plain):
        if path.is_file():
            return path
    raise DataError(expected, None, "no such file under WARDROUND_DATA", f"it comes from {origin}")


def existing_path(text: str, folder: str = "") -> Path:
    """A path of a study file: `~` and `$VARIABLES` resolved, then relative to the study file."""
    path = Path(os.path.expandvars(text)).expanduser()
    if "$" in str(path):
        raise DataError(path, None, "names a variable that is not set", "set it, e.g. export WARDROUND_DATA=…")
    return path if path.is_absolute() else Path(folder) / path


def files_under(folder: Path, ending: str) -> list[Path]:
    """The files with this ending, sub-folders included; some systems leave hidden ones beside the real.

    A pipe, which nobody may ever write to, and a link that leads nowhere are none.
    """
    return sorted(path for path in folder.rglob(f"*{ending}") if not path.name.startswith(".") and path.is_file())


def open_text(
    path: Path, encoding: str | None = None, *, problems: Problems | None = None, skip: Skip | None = None
) -> Iterator[str]:
    """The lines of a plain or gzip file without their ends; UTF-8 unless a mark or `encoding` says else."""
    return (line.rstrip("\r\n") for line in lines_with_ends(path, encoding, problems=problems, skip=skip))


def lines_with_ends(
    path: Path, encoding: str | None = None, *, problems: Problems | None = None, skip: Skip | None = None
) -> Iterator[str]:
    """The same with the ends they have, for cells that span lines; what cannot be decoded and is skipped is empty."""
    blocks = _blocks(path)
    head = next(blocks, b"")
    codec, skipped = _codec(path, head, encoding)
    blocks = chain([head[skipped:]], blocks)
    if "\n".encode(codec) != b"\n":
        blocks, codec = _as_utf8(path, blocks, codec), "utf-8"
    offset = skipped
    for number, raw in enumerate(_byte_lines(blocks), 1):
        if len(raw) > LONGEST_LINE:
            what = f"the line is longer than {LONGEST_LINE:,} bytes"
            raise DataError(path, number, what, "is this a text file? Cut longer notes first")
        try:
            line = raw.decode(codec)
        except UnicodeDecodeError as error:
            undecodable = _undecodable(path, number, offset, raw, error)
            if skip is None:
                raise undecodable from None
            skip(undecodable)
            line = ""
        if problems is not None and "\0" in line:
            problems.note("NUL character", path, number)
        offset += len(raw)
        yield line.removeprefix("\ufeff") if number == 1 else line


def text_blocks(path: Path, encoding: str | None = None, errors: str = "strict") -> Iterator[str]:
    """The same text in pieces of any size, for formats that are not made of lines."""
    blocks = _blocks(path)
    head = next(blocks, b"")
    codec, skipped = _codec(path, head, encoding)
    decoder = codecs.getincrementaldecoder(codec)(errors)
    line, offset = 1, skipped
    for block in chain([head[skipped:]], blocks, [b""]):
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(codec, "ignore").count("\n")
            raise _undecodable(path, line + before, offset - held, error.object, error) from None
        except UnicodeError:
            raise _unmarked(path, codec) from None
        line += text.count("\n")
        offset += len(block)
        yield text


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """A file's bytes, unpacked if it is gzip, whatever its name; damage found on the way is a DataError."""
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"  # and not read: a pipe cannot go back
            with gzip.open(raw) if packed else raw as stream:
                yield cast("BinaryIO", stream)
    except FileNotFoundError:
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        close = nearest(path.name, (other.name for other in beside))
        raise DataError(path, None, "no such file", f"did you mean {path.with_name(close)}?" if close else "") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(path, None, "damaged gzip", "copy it again") from None
    except OSError as error:
        raise DataError(path, None, error.strerror or "cannot be read") from None


def _blocks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as stream:
        while block := stream.read(BLOCK):
            yield block


def _byte_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        lines = (rest + block).splitlines(keepends=True)
        # A CR at the end of a block may be half of a CRLF.
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        yield from lines
        if len(rest) > LONGEST_LINE:
            break
    if rest:
        yield rest


def _codec(path: Path, head: bytes, encoding: str | None) -> tuple[str, int]:
    try:
        "\n".encode(encoding or "utf-8")
    except LookupError:
        close = nearest(encoding or "", ENCODINGS)
        remedy = f'did you mean "{close}"?' if close else f"one of {', '.join(ENCODINGS)}, …"
        raise DataError(path, None, f'"{encoding}" is not a text encoding', remedy) from None
    for mark, named in MARKS:
        if head.startswith(mark):
            if encoding and not named.startswith(codecs.lookup(encoding).name.removesuffix("-sig")):
                what = f'the file starts with the mark of {named}, but encoding = "{encoding}"'
                raise DataError(path, 1, what, "leave encoding out")
            return named, len(mark)
    if not encoding and (likely := _utf16_without_mark(head)):
        raise DataError(path, 1, f"NUL bytes as in {likely}", f'set encoding = "{likely}"')
    return encoding or "utf-8", 0


def _utf16_without_mark(head: bytes) -> str:
    """UTF-16 shows as NULs at odd or at even places only: many of them, or few in what is not UTF-8."""
    at_odd, at_even = head[1::2].count(0), head[::2].count(0)
    if max(at_odd, at_even) < 0.95 * (at_odd + at_even) or not at_odd + at_even:
        return ""
    if 4 * (at_odd + at_even) < len(head) and _decodes(head, "utf-8"):
        return ""
    return "utf-16-le" if at_odd > at_even else "utf-16-be"


def _decodes(sample: bytes, codec: str) -> bool:
    try:
        codecs.getincrementaldecoder(codec)().decode(sample)  # not final: a sample may end within a character
    except UnicodeDecodeError:
        return False
    return True


def _undecodable(path: Path, line: int, offset: int, raw: bytes, error: UnicodeDecodeError) -> DataError:
    sample = raw[:BLOCK] if error.start < BLOCK else raw[error.start :][:BLOCK]
    high = re.findall(rb"[\x80-\xff]+", sample)
    # Chinese comes in runs of high bytes; accented Latin letters stand alone among ASCII.
    runs = sum(len(run) for run in high if len(run) > 1) > 0.7 * sum(map(len, high))
    if _decodes(sample, "utf-8"):
        if error.encoding == "utf-8":
            return DataError(path, line, f"byte {offset + error.start}: the file ends within a character")
        likely = "utf-8"
    elif runs and _decodes(sample, "gb18030") and error.encoding != "gb18030":
        likely = "gb18030"
    else:
        likely = "cp1252" if re.search(rb"[\x80-\x9f]", sample) and _decodes(sample, "cp1252") else "latin-1"
    what = f"byte {offset + error.start} is not {error.encoding}; it looks like {likely}"
    return DataError(path, line, what, f'set encoding = "{likely}", or repair this line if all others are fine')


def _unmarked(path: Path, codec: str) -> DataError:
    """UTF-16 without a byte order needs a mark, whose absence Python reports without a position."""
    remedy = f'leave encoding out, or say which: "{codec}-le" or "{codec}-be"'
    return DataError(path, 1, f'encoding = "{codec}", but the file does not start with its mark', remedy)


def _as_utf8(path: Path, blocks: Iterable[bytes], codec: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(codec)()
    line, size = 1, 0
    for block in chain(filter(None, blocks), [b""]):
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            what = f"byte {size - held + error.start} after the mark is not {codec}"
            before = error.object[: error.start].decode(codec, "ignore").count("\n")
            raise DataError(path, line + before, what, "copy or export the file again") from None
        except UnicodeError:
            raise _unmarked(path, codec) from None
        line += text.count("\n")
        size += len(block)
        yield text.encode()
