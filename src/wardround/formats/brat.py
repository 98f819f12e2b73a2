"""BRAT standoff: a folder of `.txt` notes with their `.ann` beside them, sub-folders included.

    T1<tab>treatment 0 7<tab>Aspirin
    T2<tab>problem 19 23<tab>rash
    R1<tab>causes Arg1:T1 Arg2:T2
    A1<tab>Certainty T2 Low
    N1<tab>Reference T1 RxNorm:1191<tab>aspirin

A note is its own source. The first argument is the head. Attributes (A, M) of entities and relations are kept, those
without a value as `true`; a normalisation gives a concept id, here RxNorm:1191 (one without a vocabulary is written as
`id:…`). Events, their attributes and comments are ignored and counted, with the relations that name an event. Comments
in which `predict` has said how sure a model is give the model's name as long as nobody has changed what it found (see
`untouched`), which cannot be told where it has found nothing. A note without `.ann` is skipped and counted; one
without `.txt` is an error. The words in each T line must stand at its offsets (see `offsets`); `fix_offsets` converts
and repairs. Messages quote a note's words only with `show_text`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from wardround.core.files import file_name, fresh_folder
from wardround.formats.details import attributes_of, details
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.untouched import UNTOUCHED, findings_mark
from wardround.formats.writing import Named, Sink, flat, lost, lost_fields, one_word, repeatable
from wardround.text.bounded import bounded
from wardround.text.document import YES, Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, files_under, lines_with_ends, open_text
from wardround.text.shown import quoted

IGNORED = {"E": "event, ignored", "#": "comment, ignored", "*": "equivalence, ignored"}
ENTITY = re.compile(r"(T\d\w*)\t(\S+) (-?\d{1,12} -?\d{1,12}(?:;-?\d{1,12} -?\d{1,12})*)(?:\t(.*))?")
RELATION = re.compile(r"(R\d\w*)\t(\S+) [^\s:]+:(\S+) [^\s:]+:(\S+)\s*")
ATTRIBUTE = re.compile(r"([AM]\d\w*)\t(\S+) (\S+)(?: +(\S(?:.*\S)?))?\s*")
CONCEPT = re.compile(r"(N\d\w*)\t\S+ (\S+) (\S+:\S+)(?:\t(.*))?\s*")
KINDS = {
    "T": (ENTITY, "write T1, tab, type start end, tab, the words"),
    "R": (RELATION, "write R1, tab, type Arg1:T1 Arg2:T2"),
    "A": (ATTRIBUTE, "write A1, tab, name T1, and perhaps a value"),
    "M": (ATTRIBUTE, "write M1, tab, name T1, and perhaps a value"),
    "N": (CONCEPT, "write N1, tab, Reference T1 vocabulary:id, tab, its name"),
}
SURE = re.compile(r"#\d+\tAnnotatorNotes \S+\tconfidence \d[-.\de]*, (.*?)(?:, found ([\da-f]{16}))?")
"""What `predict` writes beside what a model found."""
BARE = "id:"
"""Stands for the vocabulary of a concept that has none."""


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
    text = "".join(bounded(lines_with_ends(note, options.encoding, problems=problems), note, "cut it into notes"))
    rows: dict[str, tuple[int, re.Match[str]]] = {}
    marks = dict[str | None, str]()
    lines = bounded(open_text(annotations, options.encoding, problems=problems), annotations, "cut it into notes")
    for number, line in enumerate(lines, 1):
        if sure := SURE.fullmatch(line):
            marks[sure[2]] = sure[1]
            continue
        with problems.refusing():
            row = _row(line, annotations, number, problems)
            if row is None:
                continue
            if row[1] in rows:
                what = f"{quoted(row[1])} is already in line {rows[row[1]][0]}"
                raise DataError(annotations, number, what, "ids must differ within a note")
            rows[row[1]] = number, row
    owned = _owned(rows, annotations, problems)
    listed = [_annotation(line, row, owned, annotations, problems) for line, row in _of(rows, "T")]
    offsets = Offsets(text, annotations, problems, options.fix_offsets, options.show_text)
    entities = tuple(offsets.entities(listed))
    relations = dict(_relations(rows, entities, owned, annotations, problems))
    document = Document(name, text, (), entities, tuple(relations.values()), language=options.language)
    if marks.keys() == {findings_mark(document)}:
        problems.note(UNTOUCHED, annotations, 1)
        document = replace(document, model=marks[findings_mark(document)])
    related = [(annotations, line) for line in relations]
    return Placed(document, note, 0, related=related, unseen=bool(document.model))


def _row(line: str, path: Path, number: int, problems: Problems) -> re.Match[str] | None:
    """A line's id and parts; None for those that are passed by."""
    if not line.strip():
        return None
    if line[0] in IGNORED and re.match(r"\S+\t", line):
        problems.note(IGNORED[line[0]], path, number)
        return None
    kind = line[0] if line[0] in "TR" or line[1:2].isdecimal() else ""
    shape, remedy = KINDS.get(kind, (None, "each begins with T, R, E, A, M, N, # or *"))
    row = shape and shape.fullmatch(line)
    if row is None:
        what = f"not a line of BRAT's {line[0]} kind" if shape else "not a line of BRAT's"
        raise DataError(path, number, what, remedy)
    return row


Rows = Mapping[str, tuple[int, re.Match[str]]]


def _of(rows: Rows, kinds: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The lines of these kinds."""
    return (row for name, row in rows.items() if name[0] in kinds)


def _owned(rows: Rows, path: Path, problems: Problems) -> dict[str, list[tuple[str, str]]]:
    """By id of entity or relation, the names and values of its attributes, and its concepts."""
    owned: dict[str, list[tuple[str, str]]] = {}
    for line, row in _of(rows, "AMN"):
        owner, concept = (row[2], True) if row[1][0] == "N" else (row[3], False)
        if owner.startswith("E"):
            problems.note("attribute of an event, ignored", path, line)
        elif owner not in rows or owner[0] not in "TR":
            why = "is not an entity or a relation" if owner in rows else "is not in this file"
            what = f"{quoted(row[1])} names {quoted(owner)}, which {why}"
            problems.refuse(DataError(path, line, what, "add what it is said of, or remove the line"))
        else:
            if concept and row[4] and row[4] != rows[owner][1][4]:
                problems.note("name of a concept beside its id, not kept", path, line)
            value = ("concept", row[3].removeprefix(BARE)) if concept else (row[2], row[4] or YES)
            owned.setdefault(owner, []).append(value)
    return owned


def _annotation(
    line: int, row: re.Match[str], owned: Mapping[str, list[tuple[str, str]]], path: Path, problems: Problems
) -> Annotation:
    """An entity as its line has it, with what other lines say of it."""
    if row[4] is None:
        problems.note("entity without its words, offsets unchecked", path, line)
    parts = tuple((int(start), int(end)) for start, end in map(str.split, row[3].split(";")))
    return Annotation(row[1], row[2], parts, row[4], line, *details(owned.get(row[1], ())))


def _relations(
    rows: Rows,
    entities: Sequence[Entity],
    owned: Mapping[str, list[tuple[str, str]]],
    path: Path,
    problems: Problems,
) -> Iterator[tuple[int, Relation]]:
    """Line and relation."""
    kept = {entity.id for entity in entities}
    for line, row in _of(rows, "R"):
        ends = row[3], row[4]
        unknown = [end for end in ends if end not in rows or end[0] != "T"]
        if any(end.startswith("E") for end in unknown):
            problems.note("relation of an event, left out", path, line)
        elif unknown:
            what = f"{quoted(row[1])} names {quoted(unknown[0])}, which is not in this file"
            problems.refuse(DataError(path, line, what, "add the entity or remove the relation"))
        elif not kept.issuperset(ends):
            problems.note("relation of an entity that is left out, left out", path, line)
        else:
            yield line, Relation(row[2], *ends, attributes=attributes_of(owned.get(row[1], ())))


@contextmanager
def write_brat(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A `.txt` and an `.ann` per document, named by its id; ids that BRAT does not know become T1, T2, …."""
    with fresh_folder(path) as folder:
        names = Named()

        def sink(placed: Placed) -> None:
            document = placed.document
            lost_fields(
                placed, losses, "labels", "patient", "language", *(["source"] if document.source != document.id else [])
            )
            lost(placed, losses, "byte order mark at the beginning of a text", int(document.text.startswith("\ufeff")))
            parts = [file_name(part) for part in document.id.split("/") if part]
            stem = folder.joinpath(names.unique("/".join(parts) or "note", fold=True))
            stem.parent.mkdir(parents=True, exist_ok=True)
            # Not with_suffix: an id may hold a dot.
            stem.with_name(stem.name + ".txt").write_bytes(document.text.encode())
            lines = "".join(f"{line}\n" for line in _lines(placed, losses))
            stem.with_name(stem.name + ".ann").write_bytes(lines.encode())

        yield sink


def _as_written(placed: Placed, losses: Problems) -> Document:
    """The document without labels, and with types of one word."""
    document = placed.document
    entities = tuple(replace(one, type=one_word(one.type, placed, losses)) for one in document.entities)
    relations = tuple(replace(one, type=one_word(one.type, placed, losses)) for one in document.relations)
    return replace(document, labels=(), entities=entities, relations=relations)


def _as_read(document: Document) -> Document:
    """The document with attributes and concepts as they are read again."""
    placed, problems = Placed(document, Path(), 0), Problems()

    def named(one: Entity | Relation) -> list[tuple[str, str]]:
        return [(one_word(key, placed, problems), _cell(value)) for key, value in one.attributes]

    def entity(one: Entity) -> Entity:
        ids = [("concept", one_word(_coded(name), placed, problems).removeprefix(BARE)) for name in one.concepts]
        concepts, attributes = details([*named(one), *ids])
        return replace(one, concepts=concepts, attributes=attributes)

    return replace(
        document,
        entities=tuple(map(entity, document.entities)),
        relations=tuple(replace(one, attributes=attributes_of(named(one))) for one in document.relations),
    )


def _cell(value: str) -> str:
    """The value of an attribute in one line."""
    return re.sub(r"[\t\r\n]", " ", value).strip() or "_"


def _coded(concept: str) -> str:
    """A concept with a vocabulary before it."""
    return concept if ":" in concept else BARE + concept


def _lines(placed: Placed, losses: Problems) -> Iterator[str]:
    repeatable(placed)
    document = _as_written(placed, losses)
    ours = all(re.fullmatch(r"T\d\w*", entity.id) for entity in document.entities)
    ids = {entity.id: entity.id if ours else f"T{at}" for at, entity in enumerate(document.entities, 1)}
    attributes, concepts, comments = count(1), count(1), count(1)
    mark = findings_mark(_as_read(document))

    def lines_of(one: Entity | Relation, name: str) -> Iterator[str]:
        for key, value in one.attributes:
            clean = _cell(value)
            lost(placed, losses, "blanks around or line breaks in the value of an attribute", int(clean != value))
            cell = "" if value == YES else f" {clean}"
            yield f"A{next(attributes)}\t{one_word(key, placed, losses, 'the name of an attribute')} {name}{cell}"

    def sure(one: Entity | Relation, name: str) -> Iterator[str]:
        if one.confidence is not None:
            model = flat(document.model or "a model", placed, losses)
            yield f"#{next(comments)}\tAnnotatorNotes {name}\tconfidence {one.confidence}, {model}, found {mark}"

    for entity in document.entities:
        words = re.sub(r"[\t\r\n]", " ", entity.words(document.text))
        parts = ";".join(f"{start} {end}" for start, end in entity.parts or [(entity.start, entity.end)])
        yield f"{ids[entity.id]}\t{entity.type} {parts}\t{words}"
        yield from lines_of(entity, ids[entity.id])
        yield from sure(entity, ids[entity.id])
        for concept in entity.concepts:
            name = one_word(_coded(concept), placed, losses, "a concept's id")
            yield f"N{next(concepts)}\tReference {ids[entity.id]} {name}\t{words}"
    for at, relation in enumerate(document.relations, 1):
        yield f"R{at}\t{relation.type} Arg1:{ids[relation.head]} Arg2:{ids[relation.tail]}"
        yield from lines_of(relation, f"R{at}")
        yield from sure(relation, f"R{at}")
