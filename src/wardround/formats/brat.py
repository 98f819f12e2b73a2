"""BRAT standoff: a folder of `.txt` notes with their `.ann` beside them, sub-folders included.

    T1<tab>treatment 0 7<tab>Aspirin
    T2<tab>problem 19 23<tab>rash
    R1<tab>causes Arg1:T1 Arg2:T2

A note is its own source. The first argument is the head. Events, attributes, normalisations and comments are ignored
and counted, with the relations that name an event. A discontinuous entity counts from its first to its last character.
A note without `.ann` is skipped and counted; one without `.txt` is an error. The words in each T line must stand at
its offsets (see `offsets`); `fix_offsets` converts and repairs. Messages quote a note's words only with `show_text`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wardround.core.files import file_name, fresh_folder
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.writing import Named, Sink, lost_fields, one_word
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, files_under, lines_with_ends, open_text
from wardround.text.shown import quoted

__all__ = ["read_brat", "read_note", "write_brat"]

IGNORED = {
    "E": "event, ignored",
    "A": "attribute, ignored",
    "M": "attribute, ignored",
    "N": "normalisation, ignored",
    "#": "comment, ignored",
    "*": "equivalence, ignored",
}
ENTITY = re.compile(r"(T\d\w*)\t(\S+) (-?\d{1,12} -?\d{1,12}(?:;-?\d{1,12} -?\d{1,12})*)(?:\t(.*))?")
RELATION = re.compile(r"(R\d\w*)\t(\S+) [^\s:]+:(\S+) [^\s:]+:(\S+)\s*")
SHAPES = {
    "T": "write T1, tab, type start end, tab, the words",
    "R": "write R1, tab, type Arg1:T1 Arg2:T2",
}


def read_brat(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The notes under a folder; a note's path in it, without ending, is its id."""
    texts = {note.with_suffix("") for note in files_under(path, ".txt")}
    annotated = {note.with_suffix("") for note in files_under(path, ".ann")}
    if not texts:
        raise DataError(path, None, "no .txt file in this folder", "name the folder that holds the notes")
    for stem in sorted(texts | annotated):
        note, annotations = stem.with_name(stem.name + ".txt"), stem.with_name(stem.name + ".ann")
        if stem not in texts:
            problems.refuse(DataError(annotations, None, "its note is missing", f"copy {note.name} beside it"))
        elif stem not in annotated:
            problems.note("note without .ann, skipped", note, 1)
        else:
            with problems.refusing():
                name = stem.relative_to(path).as_posix()
                yield read_note(note, annotations, name, problems, options)


def read_note(note: Path, annotations: Path, name: str, problems: Problems, options: Options) -> Placed:
    """One note with its annotations, wherever these lie."""
    text = "".join(lines_with_ends(note, options.encoding, problems=problems))
    listed: list[Annotation] = []
    links: list[tuple[int, re.Match[str]]] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(open_text(annotations, options.encoding, problems=problems), 1):
        with problems.refusing():
            row = _row(line, annotations, number, problems)
            if row is None:
                continue
            if row[1] in lines:
                what = f"{quoted(row[1])} is already in line {lines[row[1]]}"
                raise DataError(annotations, number, what, "ids must differ within a note")
            lines[row[1]] = number
            if line[0] == "R":
                links.append((number, row))
                continue
            parts = tuple((int(start), int(end)) for start, end in map(str.split, row[3].split(";")))
            listed.append(Annotation(row[1], row[2], parts, row[4], number))
            if row[4] is None:
                problems.note("entity without its words, offsets unchecked", annotations, number)
    offsets = Offsets(text, annotations, problems, options.fix_offsets, options.show_text)
    entities = tuple(offsets.entities(listed))
    relations = dict(_relations(links, entities, {entity.id for entity in listed}, annotations, problems))
    document = Document(name, text, (), entities, tuple(relations.values()), language=options.language)
    return Placed(document, note, 0, related=[(annotations, line) for line in relations])


def _row(line: str, path: Path, number: int, problems: Problems) -> re.Match[str] | None:
    """An entity's or a relation's line; None for those that are passed by."""
    if not line.strip():
        return None
    if line[0] in IGNORED and re.match(r"\S+\t", line):
        problems.note(IGNORED[line[0]], path, number)
        return None
    row = (ENTITY if line[0] == "T" else RELATION).fullmatch(line)
    if row is None:
        what = f"not a line of BRAT's {line[0]} kind" if line[0] in SHAPES else "not a line of BRAT's"
        raise DataError(path, number, what, SHAPES.get(line[0], "each begins with T, R, E, A, M, N, # or *"))
    return row


def _relations(
    links: Sequence[tuple[int, re.Match[str]]],
    entities: Sequence[Entity],
    named: Collection[str],
    path: Path,
    problems: Problems,
) -> Iterator[tuple[int, Relation]]:
    """Line and relation."""
    kept = {entity.id for entity in entities}
    for line, row in links:
        ends = row[3], row[4]
        unknown = [end for end in ends if end not in named]
        if any(end.startswith("E") for end in unknown):
            problems.note("relation of an event, left out", path, line)
        elif unknown:
            what = f"{quoted(row[1])} names {quoted(unknown[0])}, which is not in this file"
            problems.refuse(DataError(path, line, what, "add the entity or remove the relation"))
        elif not kept.issuperset(ends):
            problems.note("relation of an entity that is left out, left out", path, line)
        else:
            yield line, Relation(row[2], *ends)


@contextmanager
def write_brat(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A `.txt` and an `.ann` per document, named by its id; ids that BRAT does not know become T1, T2, …."""
    with fresh_folder(path) as folder:
        names = Named()

        def sink(placed: Placed) -> None:
            document = placed.document
            lost_fields(placed, losses, "labels", "language", *(["source"] if document.source != document.id else []))
            parts = [file_name(part) for part in document.id.split("/") if part]
            stem = folder.joinpath(names.unique("/".join(parts) or "note", fold=True))
            stem.parent.mkdir(parents=True, exist_ok=True)
            # Not with_suffix: an id may hold a dot.
            stem.with_name(stem.name + ".txt").write_bytes(document.text.encode())
            lines = "".join(f"{line}\n" for line in _lines(placed, losses))
            stem.with_name(stem.name + ".ann").write_bytes(lines.encode())

        yield sink


def _lines(placed: Placed, losses: Problems) -> Iterator[str]:
    document = placed.document
    ours = all(re.fullmatch(r"T\d\w*", entity.id) for entity in document.entities)
    ids = {entity.id: entity.id if ours else f"T{at}" for at, entity in enumerate(document.entities, 1)}
    for entity in document.entities:
        words = re.sub(r"[\t\r\n]", " ", document.text[entity.start : entity.end])
        kind = one_word(entity.type, placed, losses)
        yield f"{ids[entity.id]}\t{kind} {entity.start} {entity.end}\t{words}"
    for at, relation in enumerate(document.relations, 1):
        kind = one_word(relation.type, placed, losses)
        yield f"R{at}\t{kind} Arg1:{ids[relation.head]} Arg2:{ids[relation.tail]}"
