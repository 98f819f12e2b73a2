"""Word vectors from a file: `.npz`, GloVe text or word2vec text, plain or gzip.

    vectors = read_vectors(Path("glove.6B.100d.txt.gz"), words=vocabulary)

A text file is read as a stream and only the asked-for words are kept. Of a repeated word the first stays; the
others are counted. An `.npz` holds `words` and `vectors` in the same order, and nothing pickled.
"""

import math
import re
import zipfile
import zlib
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.text.reading import DataError, Problems, nearest, open_text

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class WordVectors:
    """Words and, row by row, their vectors."""

    words: list[str]
    vectors: npt.NDArray[np.float32]


def read_vectors(
    path: Path,
    words: Container[str] | None = None,
    *,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> WordVectors:
    """All vectors of a file in its order, or those of `words`."""
    problems = Problems() if problems is None else problems
    if path.suffix == ".npz":
        return _from_arrays(path, words, problems)
    if path.suffix == ".bin":
        raise DataError(path, None, "word2vec's binary form is not read", "save the vectors as text")
    kept: dict[str, None] = {}
    values = array("f")
    size = 0
    for line, word, numbers in _rows(path, encoding, problems):
        size = numbers.count(" ") + 1
        if words is not None and word not in words:
            continue
        if word in kept:
            problems.note("repeated word, dropped", path, line)
            continue
        kept[word] = None
        values.extend(_numbers(numbers, path, line))
    vectors = np.frombuffer(values, np.float32) if values else np.empty(0, np.float32)
    return WordVectors(list(kept), vectors.reshape(len(kept), size))


def _rows(path: Path, encoding: str | None, problems: Problems) -> Iterator[tuple[int, str, str]]:
    """Line number, word and its numbers still as text."""
    size, promised, rows = 0, None, 0
    for line, text in enumerate(open_text(path, encoding, problems=problems), 1):
        row = text.rstrip(" ").replace("\t", " ")
        if not row.strip():
            continue
        if line == 1 and (header := re.fullmatch(r"(\d+) (\d+)", row)):
            promised, size = int(header[1]), int(header[2])
            continue
        rows += 1
        spaces = row.count(" ")
        size = size or spaces
        # A word may contain spaces ("at last"); further numbers mean that the row is too long.
        word = row.partition(" ")[0] if spaces <= size else row.rsplit(" ", size)[0]
        if not size:
            raise DataError(path, line, "no numbers", "expected lines of a word and its numbers; is it the right file?")
        if spaces < size or any(map(_is_number, word.split(" ")[1:])):
            raise DataError(path, line, f"{spaces} numbers where others have {size}", "repair the row")
        if word:
            yield line, word, row[len(word) + 1 :]
        else:
            problems.note("vector without a word, dropped", path, line)
    if promised is not None and rows != promised:
        what = f"the first line promises {promised} vectors, the file holds {rows}"
        raise DataError(path, 1, what, "copy the file again, or correct its first line")
    if not rows:
        raise DataError(path, None, "no vectors", "expected lines of a word and its numbers")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(text: str, path: Path, line: int) -> list[float]:
    try:
        numbers = list(map(float, text.split(" ")))
    except ValueError:
        raise DataError(path, line, "a value that is not a number", "repair or remove the row") from None
    # A NaN or an infinity anywhere makes the sum one.
    if not math.isfinite(sum(numbers)) or max(numbers) > LARGEST or min(numbers) < -LARGEST:
        raise DataError(path, line, "a value that is not finite in 32 bits", "repair or remove the row")
    return numbers


def _from_arrays(path: Path, words: Container[str] | None, problems: Problems) -> WordVectors:
    listed, vectors = _arrays(path)
    if listed.dtype.kind != "U" or vectors.dtype.kind != "f" or vectors.ndim != 2 or listed.ndim != 1:
        what = f"words are {listed.dtype} of {listed.ndim} axes, vectors {vectors.dtype} of {vectors.ndim}"
        raise DataError(path, None, what, "expected unicode of 1 axis and floats of 2")
    if len(listed) != len(vectors):
        raise DataError(path, None, f"{len(listed)} words for {len(vectors)} vectors")
    rows: dict[str, int] = {}
    for row, word in enumerate(listed.tolist()):
        if word in rows:
            problems.note("repeated word, dropped", path, row + 1)
        elif words is None or word in words:
            rows[word] = row
    # Doubles beyond 32 bits become infinite here, and are refused with the rest.
    with np.errstate(over="ignore"):
        kept = vectors[list(rows.values())].astype(np.float32)
    if not np.isfinite(kept).all():
        bad = int(np.flatnonzero(~np.isfinite(kept).all(axis=1))[0])
        row = list(rows.values())[bad] + 1
        raise DataError(path, row, "a value that is not finite in 32 bits", "repair or remove the row")
    return WordVectors(list(rows), kept)


def _arrays(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    names: list[str] = []
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            names = list(arrays)
            return arrays["words"], arrays["vectors"]
    except FileNotFoundError:
        raise DataError(path, None, "no such file") from None
    except KeyError:
        missing = next(name for name in ("words", "vectors") if name not in names)
        close = nearest(missing, names)
        what = f'no array "{missing}"'
        raise DataError(path, None, what, f'rename "{close}"' if close else "") from None
    except (ValueError, OSError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error):
        remedy = "save words as unicode, not as objects"
        raise DataError(path, None, "not an .npz of plain arrays", remedy) from None
