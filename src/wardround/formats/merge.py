"""Several files of documents become one: old notes and corrected ones, or what two annotators did.

    done, counts = merge([Path("before.jsonl"), Path("corrected.json")], Path("all.jsonl"), Options(), keep="last")

Documents with the same text are one. If the same is said of them, they are written once; if not, that is a conflict,
told with both places and in what they differ, and nothing is written unless `keep` says which one counts. What a person
says goes before what a model found, and a task that nobody has annotated is left out. Files are read twice, so that
only marks of the texts are held in memory.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wardround.formats.check import Findings, annotations
from wardround.formats.convert import Converted, Lossy, accept
from wardround.formats.jsonl import write_jsonl
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems, digest
from wardround.text.shown import called

Keep = Literal["first", "last"]
CONFLICT = "same text as"
"""How the finding of a conflict begins."""
REPEATED = "same text and the same said of it, written once"
SUPERSEDED = "found by a model where a person has said something, not written"
OTHER_TEXT = "id of another text, both written"
REMEDY = "mend one of the two, or say which counts with --keep first or --keep last"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is held of a document: where it stands, whether a model found it, and digests of what is said."""

    number: int
    path: Path
    line: int
    name: str
    predicted: bool
    digests: tuple[bytes, ...]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" + (f" ({self.name})" if self.name and type(self.line) is int else "")


def merge(
    sources: Sequence[Path],
    target: Path,
    options: Options,
    *,
    keep: Keep | None = None,
    form: str = "",
    lossy: bool = False,
) -> tuple[Converted, Counter[str]]:
    """Write the documents of all sources as JSONL; also how many repetitions and conflicts there were."""
    if target.exists():
        raise DataError(target, None, "exists already", "name another, or remove it first")
    findings, losses, counts = Findings(), Problems(), Counter[str]()
    alike: dict[bytes, list[_Mark]] = {}
    texts: dict[bytes, bytes] = {}
    left_out, blank = set[int](), 0
    for number, placed in enumerate(_documents(sources, options, form, findings)):
        if _unannotated(findings) > blank:  # nobody has said that there is nothing in it
            blank = _unannotated(findings)
            left_out.add(number)
            continue
        document, text = placed.document, digest(placed.document.text)
        name = document.id if called(document.id) == document.id else ""
        mark = _Mark(number, placed.path, placed.line or 1, name, bool(document.model), _digests(document))
        alike.setdefault(text, []).append(mark)
        if texts.setdefault(digest(document.id), text) != text:
            findings.note(OTHER_TEXT, placed.path, mark.line)
    if blank:
        counts["unannotated"] = blank
    left_out |= {mark.number for marks in alike.values() for mark in _settled(marks, keep, findings, counts)}
    written = 0
    try:
        with write_jsonl(target, losses, options) as sink:
            for number, placed in enumerate(_documents(sources, options, form, Findings())):
                if number not in left_out:
                    sink(placed)
                    written += 1
            conflicts = 0 if keep else counts["conflicts"]
            accept(sources[0], written, lossy=lossy and not conflicts, lost=findings.lost)
    except Lossy:
        return Converted(written, written=False, findings=findings.listed, losses=losses, sizes=findings.sizes), counts
    return Converted(written, written=True, findings=findings.listed, losses=losses, sizes=findings.sizes), counts


def _unannotated(findings: Findings) -> int:
    """How many tasks of an annotation tool so far had no annotation."""
    return sum(count for kind, count in findings.counts.items() if kind.startswith("task without an annotation"))


def _documents(sources: Sequence[Path], options: Options, form: str, findings: Findings) -> Iterator[Placed]:
    for source in sources:
        for file, format_ in recognised(source, form, options.encoding, findings):
            yield from format_.read(file, findings, options)


PARTS = ("labels", "entities", "relations", "attributes or concepts")


def _digests(document: Document) -> tuple[bytes, ...]:
    """A digest for each of `PARTS`, the last of all together."""
    spans = {one.id: (one.type, one.start, one.end) for one in document.entities}
    links = [(one.type, spans[one.head], spans[one.tail]) for one in document.relations]
    parts = (sorted(document.labels), sorted(spans.values()), sorted(links), annotations(document))
    return tuple(digest(repr(part)) for part in parts)


def _settled(marks: Sequence[_Mark], keep: Keep | None, findings: Findings, counts: Counter[str]) -> Iterator[_Mark]:
    """Of documents with one text, those that are not written."""
    people = [mark for mark in marks if not mark.predicted] or marks
    for mark in marks:
        if mark not in people:
            findings.note(SUPERSEDED, mark.path, mark.line)
            counts["superseded"] += 1
            yield mark
    chosen = people[-1 if keep == "last" else 0]
    first = people[0]
    for mark in people:
        if mark is not chosen:
            yield mark
        if mark is first:
            continue
        differing = [part for part, one, other in zip(PARTS, first.digests, mark.digests, strict=True) if one != other]
        if not differing:
            findings.note(REPEATED, mark.path, mark.line)
            counts["duplicates"] += 1
            continue
        counts["conflicts"] += 1
        what = f"{CONFLICT} {first.place}, other {' and '.join(differing[:-1]) or differing[0]}"
        findings.add(mark.path, mark.line, what, f"the {keep} is written" if keep else REMEDY, lost=not keep)
