"""BRAT standoff: a folder of `.txt` notes with their `.ann` beside them, sub-folders included.

    BRAT(train="notes/train", test="notes/test", pairs=[("treatment", "problem")])

    T1<tab>treatment 0 7<tab>Aspirin
    T2<tab>problem 19 23<tab>rash
    R1<tab>causes Arg1:T1 Arg2:T2

The first argument is the head. Events, attributes, normalisations and comments are ignored and counted, with the
relations that name an event. A discontinuous entity counts from its first to its last character. A note without
`.ann` is skipped and counted; one without `.txt` is an error. The words in each T line must stand at its offsets (see
`offsets`); `fix_offsets` converts and repairs. Messages quote a note's words only with `show_text`.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from wardround.core.files import file_name, fresh_folder
from wardround.corpora.pair_files import NoteFiles
from wardround.formats.offsets import Offsets, Said
from wardround.formats.options import Options
from wardround.formats.writing import Named, Sink, lost_fields, one_word
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, files_under, lines_with_ends, open_text
from wardround.text.shown import quoted

__all__ = ["BRAT", "read_brat", "write_brat"]

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


@dataclass(frozen=True, kw_only=True)
class BRAT(NoteFiles):
    """One folder per split; a note's path in it, without ending, is its id."""

    sources_are_files: ClassVar[bool] = True
    fix_offsets: bool = False
    show_text: bool = False

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        return self.under(self.path(split), problems)

    def under(self, folder: Path, problems: Problems) -> Iterator[Placed]:
        """The notes of one folder."""
        texts = {path.with_suffix("") for path in files_under(folder, ".txt")}
        annotated = {path.with_suffix("") for path in files_under(folder, ".ann")}
        if not texts:
            raise DataError(folder, None, "no .txt file in this folder", "name the folder that holds the notes")
        for path in sorted(texts | annotated):
            note, annotations = path.with_name(path.name + ".txt"), path.with_name(path.name + ".ann")
            if path not in texts:
                problems.refuse(DataError(annotations, None, "its note is missing", f"copy {note.name} beside it"))
            elif path not in annotated:
                problems.note("note without .ann, skipped", note, 1)
            else:
                with problems.refusing():
                    name = path.relative_to(folder).as_posix()
                    yield Placed(self.note(note, annotations, name, problems), note, 0)

    def note(self, note: Path, annotations: Path, name: str, problems: Problems) -> Document:
        """One note with its annotations, wherever these lie."""
        text = "".join(lines_with_ends(note, self.encoding, problems=problems))
        entities, relations = self._read(annotations, text, problems)
        return Document(name, text, (), entities, relations, source=name, language=self.language)

    def _read(self, path: Path, text: str, problems: Problems) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
        said: list[Said] = []
        told: list[tuple[int, re.Match[str]]] = []
        lines: dict[str, int] = {}
        for number, line in enumerate(open_text(path, self.encoding, problems=problems), 1):
            if not line.strip():
                continue
            if line[0] in IGNORED and re.match(r"\S+\t", line):
                problems.note(IGNORED[line[0]], path, number)
                continue
            found = (ENTITY if line[0] == "T" else RELATION).fullmatch(line)
            if found is None:
                what = f"not a line of BRAT's {line[0]} kind" if line[0] in SHAPES else "not a line of BRAT's"
                remedy = SHAPES.get(line[0], "each begins with T, R, E, A, M, N, # or *")
                problems.refuse(DataError(path, number, what, remedy))
                continue
            if found[1] in lines:
                what = f"{quoted(found[1])} is already in line {lines[found[1]]}"
                problems.refuse(DataError(path, number, what, "ids must differ within a note"))
                continue
            lines[found[1]] = number
            if line[0] == "T":
                parts = tuple((int(start), int(end)) for start, end in map(str.split, found[3].split(";")))
                said.append(Said(found[1], found[2], parts, found[4], number))
                if found[4] is None:
                    problems.note("entity without its words, offsets unchecked", path, number)
            else:
                told.append((number, found))
        offsets = Offsets(text, path, problems, self.fix_offsets, self.show_text)
        entities = tuple(offsets.entities(said))
        kept, named = {entity.id for entity in entities}, {entity.id for entity in said}
        return entities, tuple(self._relations(told, kept, named, path, problems))

    def _relations(
        self, told: Sequence[tuple[int, re.Match[str]]], kept: set[str], named: set[str], path: Path, problems: Problems
    ) -> Iterator[Relation]:
        for line, found in told:
            ends = found[3], found[4]
            unknown = [end for end in ends if end not in named]
            if any(end.startswith("E") for end in unknown):
                problems.note("relation of an event, left out", path, line)
            elif unknown:
                what = f"{quoted(found[1])} names {quoted(unknown[0])}, which is not in this file"
                problems.refuse(DataError(path, line, what, "add the entity or remove the relation"))
            elif not kept.issuperset(ends):
                problems.note("relation of an entity that is left out, left out", path, line)
            else:
                with problems.refusing():
                    yield Relation(self._label(found[2], path, line), *ends)


def read_brat(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The notes under a folder; each is its own source, which need not be said."""
    reader = BRAT(
        train="",
        test="",
        encoding=options.encoding,
        language=options.language,
        fix_offsets=options.fix_offsets,
        show_text=options.show_text,
    )
    for note in reader.under(path, problems):
        yield note._replace(document=replace(note.document, source=""))


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
