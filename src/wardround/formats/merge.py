"""Several files of documents become one: old notes and corrected ones, or what two annotators did.

    done, counts = merge([Path("before.jsonl"), Path("corrected.json")], Path("all.jsonl"), Options(), keep="last")

Documents with the same text are one, but for pairs, of which a text may have many (`formats.repeats`). If they say the
same, they are written once; if not, that is a conflict, told with both places and in what they differ, and nothing is
written unless `keep` says which one counts, and that one is written whole. What a person says goes before what a model
found, and a task that nobody has annotated is left out. So is what a model found and an annotation tool gives back
unchanged, unless it is `confirmed`. A document that does not say where its text is from, whom it is about or in which
language it is, as one from BRAT, gets that from others of the same text, unless these name several sources or
patients, for then nobody knows whose it is. Files are read twice, so that of texts only marks are held in memory.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from wardround.formats.check import Findings, annotations
from wardround.formats.convert import Converted, Lossy, accept
from wardround.formats.jsonl import write_jsonl
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.formats.register import Format
from wardround.formats.repeats import Texts
from wardround.text.document import Document, Placed
from wardround.text.pairs import text_of_pair
from wardround.text.reading import DataError, Problems, digest
from wardround.text.shown import called

Keep = Literal["first", "last"]
CONFLICT = "same text as"
"""How the finding of a conflict begins."""
REPEATED = "same text with the same annotations, written once"
SUPERSEDED = "found by a model where a person has annotated, not written"
OTHER_TEXT = "id of another text, both written"
USUAL = "file without the key or column that --text-column names, read by the usual names"
WHOSE = ("source", "patient")
ABOUT = (*WHOSE, "language")
FILLED = "source, patient or language told by another document of the same text"
SEVERAL = "same text as one of another source or patient, neither of which is given to others"
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
    confirmed: bool = False,
) -> tuple[Converted, Counter[str]]:
    """Write the documents of all sources as JSONL; also how many repetitions and conflicts there were."""
    if target.exists():
        raise DataError(target, None, "exists already", "name another, or remove it first")
    findings, losses, counts = Findings(), Problems(), Counter[str]()
    alike = Texts[_Mark]()
    texts: dict[bytes, bytes] = {}
    left_out, about, several = set[int](), dict[bytes, dict[str, str]](), set[bytes]()
    for number, placed in enumerate(_documents(sources, options, form, findings)):
        text = digest(text_of_pair(placed.document))
        if not _agreeing(mine := _about(placed.document), about.setdefault(text, {})):
            findings.note(SEVERAL, placed.path, placed.line or 1)
            several.add(text)
        about[text] = mine | about[text]
        if placed.unseen and not (confirmed and placed.document.model):
            counts["untouched" if placed.document.model else "unannotated"] += 1
            left_out.add(number)
            continue
        document = _confirmed(placed).document
        name = document.id if called(document.id) == document.id else ""
        mark = _Mark(number, placed.path, placed.line or 1, name, bool(document.model), _digests(document))
        alike.add(document, placed.path, mark)
        if texts.setdefault(digest(document.id), text) != text:
            findings.note(OTHER_TEXT, placed.path, mark.line)
    about = {text: known for text, known in about.items() if text not in several}
    left_out |= {mark.number for marks in alike.groups() for mark in _settled(marks, keep, findings, counts)}
    written = 0
    try:
        with write_jsonl(target, losses, options) as sink:
            for number, placed in enumerate(_documents(sources, options, form, Findings())):
                if number not in left_out:
                    sink(_filled(_confirmed(placed), about, findings))
                    written += 1
            conflicts = 0 if keep else counts["conflicts"]
            if not written and (many := counts["untouched"]):
                what = f"all {many:,} documents are as a model left them"
                raise DataError(sources[0], None, what, "if somebody has looked at them and agrees: --confirmed")
            accept(sources[0], written, lossy=lossy and not conflicts, lost=findings.lost)
    except Lossy:
        return Converted(written, written=False, findings=findings.listed, losses=losses, sizes=findings.sizes), counts
    return Converted(written, written=True, findings=findings.listed, losses=losses, sizes=findings.sizes), counts


def _confirmed(placed: Placed) -> Placed:
    """The document as a person's, if a model's went through an annotation tool; left as it is otherwise."""
    return placed._replace(document=replace(placed.document, model="")) if placed.unseen else placed


def _about(document: Document) -> dict[str, str]:
    """What a document says of where it is from."""
    return {field: value for field in ABOUT if (value := getattr(document, field))}


def _agreeing(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two documents of one text can be the same note."""
    return all(one[field] == other[field] for field in WHOSE if field in one and field in other)


def _filled(placed: Placed, about: Mapping[bytes, Mapping[str, str]], findings: Findings) -> Placed:
    """The document with what only others of the same text say of where it is from."""
    document = placed.document
    known = about.get(digest(text_of_pair(document)), {})
    more: dict[str, Any] = {field: value for field, value in known.items() if not getattr(document, field)}
    if not more:
        return placed
    findings.note(FILLED, placed.path, placed.line or 1)
    return placed._replace(document=replace(document, **more))


def _documents(sources: Sequence[Path], options: Options, form: str, findings: Findings) -> Iterator[Placed]:
    files = [one for source in sources for one in recognised(source, form, options.encoding, findings)]
    usual = replace(options, text="", label="", id="", source="", patient="")
    named = [not options.text or _any(file, format_, options) for file, format_ in files]
    plain = [not all(named) and _any(file, format_, usual) for file, format_ in files]
    meant = any(has and not as_usual for has, as_usual in zip(named, plain, strict=True))  # else it is a mistake
    for (file, format_), has, as_usual in zip(files, named, plain, strict=True):
        if has or not as_usual or not meant:
            yield from format_.read(file, findings, options)
        else:
            findings.note(USUAL, file, 1)
            yield from format_.read(file, findings, usual)


def _any(file: Path, format_: Format, options: Options) -> bool:
    """Whether a document can be read of the file under these names."""
    try:
        return next(iter(format_.read(file, Findings(), options)), None) is not None
    except DataError:
        return False


PARTS = ("labels", "entities", "relations", "attributes or concepts")


def _digests(document: Document) -> tuple[bytes, ...]:
    """A digest for each of `PARTS`, the last of all together."""
    spans = {one.id: (one.type, one.start, one.end) for one in document.entities}
    links = [(one.type, spans[one.head], spans[one.tail]) for one in document.relations]
    parts = (sorted(document.labels), sorted(spans.values()), sorted(links), annotations(document))
    return tuple(digest(repr(part)) for part in parts)


def _lacking(chosen: _Mark, *others: _Mark) -> list[str]:
    """Of labels, entities and relations, those of which the chosen one has none, and another has some."""
    nothing = digest(repr([]))
    return [
        part
        for at, part in enumerate(PARTS[:-1])
        if chosen.digests[at] == nothing and any(other.digests[at] != nothing for other in others)
    ]


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
        if keep and (gone := _lacking(chosen, first, mark)):
            what += f"; the {keep} has no {' and no '.join(gone)}, and is written without"
        findings.add(mark.path, mark.line, what, f"the {keep} is written" if keep else REMEDY, lost=not keep)
