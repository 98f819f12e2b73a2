"""CoNLL columns: a token and its tag per line, a blank line between sentences.

    Selegiline<tab>B-Chemical        # tabs, or any number of blanks; any number of columns
    -<tab>O

The token stands in the first column and the tag in the last, unless `token` and `tag` say otherwise (columns from 1;
from the end: −1). Tags are BIO or BIOES; a bare B, I or O has the type `bare`. A `-DOCSTART-` line begins a document,
which is a source that sites can be cut along. Blank lines too many are counted; a line with one column and a tag that
is none are errors with file and line.

What is written has tokens of words and single marks (Chinese characters stand alone), cut at the edges of entities, and
BIO tags. A text that has one blank between its tokens is one sentence and comes back as it was.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

from wardround.formats.options import Options
from wardround.formats.writing import Sink, lost, lost_fields, text_file
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.reading import DataError, Problems, open_text
from wardround.text.sentences import sentences
from wardround.text.shown import shown
from wardround.text.tags import joined, no_tag, split_tag

__all__ = ["Tagged", "read_columns", "read_conll", "write_conll"]

NEW_DOCUMENT = "-DOCSTART-"
TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]")


@dataclass(slots=True)
class Tagged:
    """Tokens and tags, the line of its first token, and which document of the file it is in."""

    line: int
    document: int
    tokens: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read_columns(path: Path, problems: Problems, options: Options | None = None) -> Iterator[Tagged]:
    """The sentences of a file; every tag is a tag."""
    chosen = options or Options()
    sentence, width, blank = Tagged(1, 0), 0, False
    for number, line in enumerate(open_text(path, chosen.encoding, problems=problems), 1):
        columns = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or columns[0] == NEW_DOCUMENT:
            if sentence.tokens:
                yield sentence
            elif blank and not columns:
                problems.note("empty sentence, left out", path, number)
            blank = not columns
            sentence = Tagged(number + 1, sentence.document + bool(columns))
            continue
        try:
            word, tag = _cells(columns, chosen.token, chosen.tag, path, number)
        except DataError as error:
            problems.refuse(error)
            continue
        if width and width != len(columns):
            problems.note("line with another number of columns", path, number)
        width, blank = width or len(columns), False
        if not word.strip():
            problems.note("empty token, left out", path, number)
            continue
        sentence.tokens.append(word)
        sentence.tags.append(tag)
        sentence.lines.append(number)
    if sentence.tokens:
        yield sentence


def _cells(columns: list[str], token: int, tag: int, path: Path, line: int) -> tuple[str, str]:
    """The token and the tag of a line."""
    if len(columns) < 2:
        raise DataError(path, line, "one column, so a token without a tag", "write the token, a tab and its tag")
    try:
        word, cell = columns[token - (token > 0)], columns[tag - (tag > 0)].strip()
    except IndexError:
        what = f"{len(columns)} columns, but token = {token} and tag = {tag}"
        raise DataError(path, line, what, "count columns from 1, or from the end: -1") from None
    if not split_tag(cell)[0]:
        column = tag if tag > 0 else len(columns) + tag + 1
        raise DataError(path, line, f"column {column}: {shown(cell)} is no tag", no_tag(cell, word))
    return word, cell


def read_conll(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The sentences of a file, each a document."""
    if 0 in (options.token, options.tag):
        raise ValueError("columns count from 1, or from the end: -1; there is no column 0")
    for sentence in read_columns(path, problems, options):
        made = joined(
            f"{path.name}:{sentence.line}", sentence.tokens, sentence.tags, problems, (path, sentence.line),
            bare=options.bare, scheme=options.scheme, lines=sentence.lines,
        )  # fmt: skip
        source = f"{path.stem}-{sentence.document}" if sentence.document else ""
        document = Document(made.id, made.text, (), made.entities, (), source, options.language)
        starts = accumulate((len(token) + 1 for token in sentence.tokens), initial=0)
        yield Placed(document, path, sentence.line, [*zip(starts, sentence.lines, strict=False)])


@contextmanager
def write_conll(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A `-DOCSTART-` line and sentences per document."""
    with text_file(path) as write:

        def sink(placed: Placed) -> None:
            document = placed.document
            lost_fields(placed, losses, "id", "labels", "relations", "source", "language")
            entities = _apart(placed, losses)
            tokens = _tokens(document.text, entities)
            whole = " ".join(document.text[start:end] for start, end, _ in tokens) == document.text
            if not tokens:
                lost(placed, losses, "text without a token")
            elif not whole:
                lost(placed, losses, "text as it stands: blanks, line breaks, sentences that belong together")
            ends = [len(document.text)] if whole else [end for _, end in sentences(document.text, whole=entities)]
            write(f"{NEW_DOCUMENT}\tO\n\n")
            for end in ends:
                rows = "".join(f"{document.text[a:b]}\t{tag}\n" for a, b, tag in tokens if a < end)
                tokens = [token for token in tokens if token[0] >= end]
                write(f"{rows}\n" if rows else "")

        yield sink


def _apart(placed: Placed, losses: Problems) -> list[Entity]:
    """The entities that tags can hold: of overlapping ones the longest."""
    kept: list[Entity] = []
    for entity in sorted(placed.document.entities, key=lambda entity: (entity.start - entity.end, entity.start)):
        words = placed.document.text[entity.start : entity.end]
        if not words.strip():
            lost(placed, losses, "entity without a token")
        elif any(overlap(entity, other) for other in kept):
            lost(placed, losses, "entity that overlaps a longer one")
        else:
            if entity.type.strip() != entity.type or re.search(r"[\t\r\n]", entity.type):
                lost(placed, losses, "blanks around or line breaks in the name of a type")
            kept.append(entity)
    return sorted(kept, key=lambda entity: entity.start)


def _tokens(text: str, entities: list[Entity]) -> list[tuple[int, int, str]]:
    """Start, end and tag of each token; none reaches over an entity's edge."""
    tokens = []
    edges = [0, *(edge for entity in entities for edge in (entity.start, entity.end)), len(text)]
    for number, (start, end) in enumerate(pairwise(edges)):
        inside = entities[number // 2] if number % 2 else None
        mark = "B"
        for match in TOKEN.finditer(text, start, end):
            kind = re.sub(r"\s+", " ", inside.type).strip() if inside else ""
            tokens.append((*match.span(), f"{mark}-{kind}" if inside else "O"))
            mark = "I"
    return tokens
