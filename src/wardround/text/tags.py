"""Tags and spans of tokens, in BIO and BIOES.

    spans(["B-Drug", "I-Drug", "O"], "BIO")            # ([("Drug", 0, 2)], 0)
    tagged([("Drug", 0, 2)], 3, "BIOES")               # ["B-Drug", "E-Drug", "O"]

A span is a type and two token numbers, the end excluded. Broken sequences are repaired as conlleval does it, and
counted: an I or E with nothing of its type open before it begins an entity; an entity that nothing closes ends
before the next token that does not go on with it. `scheme_only` leaves such entities out instead.

Bare tags (B, I, O without a type, as in species corpora) have the type that the reader names.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from wardround.text.document import Document, Entity
from wardround.text.reading import Problems

Scheme = Literal["BIO", "BIOES"]
Span = tuple[str, int, int]


def marks(scheme: Scheme) -> str:
    """The letters that a type is tagged with."""
    return "BI" if scheme == "BIO" else "BIES"


def split_tag(tag: str) -> tuple[str, str]:
    """Mark and type; a type may hold hyphens. An empty mark: this is not a tag."""
    mark, hyphen, kind = tag.partition("-")
    if tag == "O":
        return "O", ""
    return (mark, kind) if mark in ("B", "I", "E", "S") and bool(hyphen) == bool(kind) else ("", "")


def no_tag(tag: str, token: str) -> str:
    """What to do about a tag that is not one."""
    if split_tag(token.strip())[0]:
        return "where the token should be there is a tag: columns look swapped"
    if re.match(r"[BIES][_:./]\w", tag):
        return f"a hyphen goes between mark and type, not {tag[1]}"
    return "write O, B-type, I-type; in BIOES also E-, S-"


def spans(tags: Sequence[str], scheme: Scheme = "BIO", *, scheme_only: bool = False) -> tuple[list[Span], int]:
    """The entities of a sentence, and how many of them had to be repaired."""
    entities, repaired = repaired_spans(tags, scheme, scheme_only=scheme_only)
    return entities, len(repaired)


def repaired_spans(
    tags: Sequence[str], scheme: Scheme = "BIO", *, scheme_only: bool = False
) -> tuple[list[Span], list[int]]:
    """The entities of a sentence, and with which tokens those begin that had to be repaired."""
    entities: list[Span] = []
    repaired: list[int] = []
    start, before, kind = 0, "O", ""

    def close(end: int, first: str) -> None:
        whole = first == "B" if scheme == "BIO" else (first, before) in (("B", "E"), ("S", "S"))
        repaired.extend([start] * (not whole))
        if whole or not scheme_only:
            entities.append((kind, start, end))

    first = "O"
    for at, tag in enumerate([*tags, "O"]):
        mark, now = split_tag(tag)
        goes_on = mark in ("I", "E") and before in ("B", "I") and now == kind
        if before != "O" and not goes_on:
            close(at, first)
        if mark != "O" and not goes_on:
            start, first = at, mark
        before, kind = mark, now
    return entities, repaired


def tagged(entities: Iterable[Span], length: int, scheme: Scheme = "BIO") -> list[str]:
    """The tags of a sentence of this many tokens whose entities do not overlap."""
    tags = ["O"] * length
    for kind, start, end in entities:
        tags[start:end] = [f"I-{kind}"] * (end - start)
        tags[start] = f"B-{kind}"
        if scheme == "BIOES":
            tags[end - 1] = f"S-{kind}" if end - start == 1 else f"E-{kind}"
    return tags


def bio_spans(tags: Sequence[str]) -> tuple[list[tuple[str, int, int]], int]:
    """(type, start, end) per run of B-type, I-type…, and how many runs begin with I, which counts as B."""
    spans: list[tuple[str, int, int]] = []
    strays = 0
    for at, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if mark == "I" and spans and spans[-1][::2] == (kind, at):
            spans[-1] = (kind, spans[-1][1], at + 1)
        elif mark in {"B", "I"}:
            spans.append((kind, at, at + 1))
            strays += mark == "I"
    return spans, strays


def joined(
    name: str,
    tokens: Sequence[str],
    tags: Sequence[str],
    problems: Problems,
    place: tuple[Path, int],
    *,
    bare: str = "Entity",
    scheme: Scheme | None = None,
    lines: Sequence[int] = (),
) -> Document:
    """A sentence of tokens and valid tags as text with spans; `bare` is the type of tags that name none.

    Problems stand at `lines`, where each token has one, or at `place`.
    Without a scheme, tags are taken as BIOES where an E or S stands among them, and as BIO otherwise.
    """
    starts, at = [], 0
    for token in tokens:
        starts.append(at)
        at += len(token) + 1
    guessed: Scheme = "BIOES" if any(tag[:1] in ("E", "S") for tag in tags) else "BIO"
    marked, repaired = repaired_spans(tags, scheme or guessed)
    for number in repaired:
        problems.note("tags break their scheme, repaired", place[0], lines[number] if lines else place[1])
    entities = tuple(
        Entity(f"T{number}", kind or bare, starts[first], starts[last - 1] + len(tokens[last - 1]))
        for number, (kind, first, last) in enumerate(marked, 1)
    )
    return Document(name, " ".join(tokens), entities=entities)
