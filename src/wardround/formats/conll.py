"""CoNLL columns: a token and its tag per line, a blank line between sentences.

    Selegiline<tab>B-Chemical        # tabs, or any number of blanks; any number of columns
    -<tab>O

The token stands in the first column and the tag in the last, unless `token` and `tag` say otherwise (columns from 1;
from the end: −1). Tags are BIO or BIOES; a bare B, I or O has the type `bare`. A `-DOCSTART-` line begins a document,
which is a source that sites can be cut along. Blank lines too many are counted; a line with one column, or with
something else for a tag, is an error with file and line.

What is written has tokens of words and single marks (Chinese characters stand alone), cut at the edges of entities, and
BIO tags. A text that has one blank between its tokens is one sentence and comes back as it was. So that a document of
several sentences comes back as one, our `-DOCSTART-` line has its id in a column of its own, `id=17`; sentences are
then lines of its text. In files that have no such column each sentence is a document.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from pathlib import Path

from wardround.formats.details import lost_confidence, lost_details
from wardround.formats.options import Options
from wardround.formats.writing import Sink, flat, lost, lost_fields, text_file
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.reading import DataError, Problems, open_text
from wardround.text.sentences import sentences
from wardround.text.shown import shown
from wardround.text.tags import joined, no_tag, split_tag

NEW_DOCUMENT, ID = "-DOCSTART-", "id="
Token = tuple[int, int, str]
"""Start, end and tag."""
TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]")


@dataclass(slots=True)
class Tagged:
    """Tokens and tags, the line of its first token, and which document of the file it is in, if it is ours its id."""

    line: int
    document: int
    id: str | None = None
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
            name = columns[1][len(ID) :] if len(columns) == 3 and columns[1].startswith(ID) else None
            sentence = Tagged(number + 1, sentence.document + bool(columns), name if columns else sentence.id)
            continue
        try:
            word, tag = _cells(columns, chosen.token, chosen.tag, path, number)
        except DataError as error:
            problems.refuse(error)
            continue
        if width and width != len(columns):
            problems.note("line with a different number of columns", path, number)
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
        raise DataError(path, line, f"column {column}: {shown(cell)} is not a tag", no_tag(cell, word))
    return word, cell


def read_conll(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The sentences of a file, each a document."""
    if 0 in (options.token, options.tag):
        raise ValueError("columns count from 1, or from the end: -1; there is no column 0")
    for _, some in groupby(read_columns(path, problems, options), _whole):
        yield _placed(list(some), path, problems, options)


def _whole(sentence: Tagged) -> tuple[int, int]:
    """The same for all sentences that are one document."""
    return (sentence.document, sentence.line if sentence.id is None else 0)


def _placed(sentences: list[Tagged], path: Path, problems: Problems, options: Options) -> Placed:
    """A sentence as a document, or several that are one."""
    first = sentences[0]
    text, entities, places = "", list[Entity](), list[tuple[int, int]]()
    for sentence in sentences:
        made = joined(
            "", sentence.tokens, sentence.tags, problems, (path, sentence.line),
            bare=options.bare, scheme=options.scheme, lines=sentence.lines,
        )  # fmt: skip
        start = len(text) + bool(text)
        entities += [replace(one.moved(start), id=f"T{at}") for at, one in enumerate(made.entities, len(entities) + 1)]
        starts = accumulate((len(token) + 1 for token in sentence.tokens), initial=start)
        places += zip(starts, sentence.lines, strict=False)
        text += "\n" * bool(text) + made.text
    source = f"{path.stem}-{first.document}" if first.document else ""
    name = first.id or f"{path.name}:{first.line}"
    return Placed(Document(name, text, (), tuple(entities), (), source, options.language), path, first.line, places)


@contextmanager
def write_conll(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A `-DOCSTART-` line and sentences per document."""
    with text_file(path) as write:

        def sink(placed: Placed) -> None:
            document = placed.document
            lost_fields(placed, losses, "labels", "relations", "source", "patient", "language")
            lost_details(placed, losses, "attributes", "concepts", "parts", relations=False)
            lost_confidence(placed, losses, "entities")
            entities = _apart(placed, losses)
            cut = _sentences(document.text, entities)
            if not cut:
                lost(placed, losses, "text without a token")
            elif _read_back(document.text, cut) != document.text:
                lost(placed, losses, "text as it stands: blanks and line breaks")
            name = flat(document.id, placed, losses)
            write(f"{NEW_DOCUMENT}\t{ID}{name}\tO\n\n")
            for tokens in cut:
                write("".join(f"{document.text[a:b]}\t{tag}\n" for a, b, tag in tokens) + "\n")

        yield sink


def _sentences(text: str, entities: list[Entity]) -> list[list[Token]]:
    """Start, end and tag of the tokens of each sentence that has some; lines, if the text comes back by them."""
    tokens = _tokens(text, entities)
    lines = _cut(tokens, [at for at, char in enumerate(text) if char == "\n"] + [len(text)])
    if _read_back(text, lines) == text and not any("\n" in text[one.start : one.end] for one in entities):
        return lines
    return _cut(tokens, [end for _, end in sentences(text, whole=entities)])


def _cut(tokens: list[Token], ends: list[int]) -> list[list[Token]]:
    cut, first = [], 0
    for end in ends:
        last = bisect_left(tokens, end, first, key=itemgetter(0))
        cut.append(tokens[first:last])
        first = last
    return [some for some in cut if some]


def _read_back(text: str, cut: list[list[Token]]) -> str:
    """The text as a reader will have it."""
    return "\n".join(" ".join(text[start:end] for start, end, _ in tokens) for tokens in cut)


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


def _tokens(text: str, entities: list[Entity]) -> list[Token]:
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
