"""What becomes of documents: the views that tasks take, of a user's own files in any format.

    RelatedPairs(format="brat", train="notes/train", test="notes/test", pairs=[("treatment", "problem")])

`labels`, or `types` in tagging, is the study's set: any other is an error that names file and line. `rename` maps a
hospital's own words to the study's. For pairs, each note gives the candidates that `wardround.text.pairs` describes;
for bags, notes are aligned with public facts (`kb`) when they are read, unless the format has bags already:

    [corpus]
    format = "pubtator"             # or "jsonl"; "bags" for what `wardround align` has written
    train = "train.pubtator"
    test = "test.pubtator"
    kb = "facts.tsv"                # for PubTator also the files' own relations, if it is left out
    pairs = [["Chemical", "Disease"]]
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from wardround.corpora.align import align, related_types
from wardround.corpora.bags import BagReader, listed_facts
from wardround.corpora.files import Files
from wardround.corpora.pairs import read_pairs
from wardround.formats.options import Options, View
from wardround.text.document import Document, Placed
from wardround.text.facts import UNRELATED, BagSentence, Facts, read_facts
from wardround.text.pairs import pairs
from wardround.text.reading import DataError, Problems, digest, existing_path
from wardround.text.sentences import Scope


@dataclass(frozen=True, kw_only=True)
class LabelledTexts(Files):
    """Texts with their labels."""

    view: ClassVar[View] = "labels"
    wanted: ClassVar[Options] = Options(needs=("labels",))

    labels: tuple[str, ...] = ()
    """If given, any other label is an error; without it, the labels are those that occur in training."""
    rename: dict[str, str] | None = None
    """From a label in the files to one of the study's."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The texts of one split; those without a letter are left out."""
        collected, texts = Problems() if problems is None else problems, set[bytes]()
        for row in self.placed(split, collected):
            document, place = row.document, (row.path, row.line or 1)
            if not document.text.strip():
                collected.note("row without text, skipped", *place)
                continue
            if (mark := digest(document.text)) in texts:
                collected.note("repeated text", *place)
            texts.add(mark)
            labels = (self.renamed(name.strip(), self.rename, self.labels, "label", place) for name in document.labels)
            yield replace(document, labels=tuple(labels), entities=(), relations=())

    def where(self, meaning: Literal["label", "source"], id_: str) -> str:
        """File, line and column of what the text of an id has for a label or source."""
        rows = (row for split in self.splits for row in self.placed(split, Problems()))
        row = next(row for row in rows if row.document.id == id_)
        return f'{row.path.name}:{row.line}, column "{getattr(self, meaning) or meaning}"'


@dataclass(frozen=True, kw_only=True)
class MarkedTexts(Files):
    """Texts with all their entities; those without a letter are left out."""

    view: ClassVar[View] = "entities"
    wanted: ClassVar[Options] = Options(needs=("entities",))
    labels: ClassVar[tuple[str, ...]] = ()

    types: tuple[str, ...] = ()
    """If given, any other type is an error; without it, the types are those that occur in training."""
    rename: dict[str, str] | None = None
    """From a type in the files to one of the study's."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences or notes of one split."""
        collected = Problems() if problems is None else problems
        for row in self.placed(split, collected):
            if not row.document.text.strip():
                collected.note("empty sentence, left out", row.path, row.line or 1)
                continue
            typed = (
                replace(one, type=self.renamed(one.type, self.rename, self.types, "type", (row.path, line)))
                for one in row.document.entities
                for line in [row.line_at(one.start)]
            )
            yield replace(row.document, entities=tuple(typed))

    @staticmethod
    def words(document: Document) -> Iterator[str]:
        """The types."""
        return (entity.type for entity in document.entities)


@dataclass(frozen=True, kw_only=True)
class RelatedPairs(Files):
    """Pairs of entities with their relations, made of notes (see `wardround.text.pairs`) or read as such."""

    view: ClassVar[View] = "pairs"
    wanted: ClassVar[Options] = Options(needs=("entities",))

    labels: tuple[str, ...] = ()
    """If given, any other label is an error; without it, the labels are those that occur in training."""
    rename: dict[str, str] | None = None
    """From a label or a type of entities in the files to one of the study's."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The types of head and tail that may be related; without it, those of the relations in training."""
    none: str | None = None
    """The label of candidates that nobody related, `none` if not given; if empty, these are left out."""
    scope: Scope | None = None
    """Within what two entities are a candidate: a sentence, unless the format has its own rule."""
    both_ways: bool | None = None
    """Whether two entities of one type are a candidate in both orders, as usual, or only in that of the text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form.ready:
            _refuse(self, ("pairs", "none", "scope", "both_ways"), "which has pairs already")
        none = "" if self.form.ready else "none"
        _settle(self, {"none": none, "scope": "sentence", "both_ways": True, **self.form.usual})
        if self.labels and self.none and self.none not in self.labels:
            remedy = 'add it, or set none = "" to leave unrelated pairs out'
            raise ValueError(f"labels lacks {self.none!r}, the label of unrelated pairs; {remedy}")

    @property
    def negative(self) -> str:
        """The label of unrelated pairs."""
        return self.none or ""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The pair documents of one split."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        if self.form.ready:
            for row in self._notes(split, problems):
                yield row._replace(document=replace(row.document, labels=(row.document.relations[0].type,)))
            return
        allowed, types = self._allowed, set[str]()
        rules: dict[str, Any] = {"scope": self.scope, "both_ways": self.both_ways}
        for note in self._notes(split, problems):
            types.update(entity.type for entity in note.document.entities)
            yield from pairs(note, allowed, self.negative, problems=problems, **rules)
        folded = {name.casefold(): name for name in types}
        for wanted in sorted({name for both in allowed for name in both} - types):
            if close := folded.get(wanted.casefold()):
                raise DataError(self.path(split), None, f'no entity of type "{wanted}"', f'in pairs, write "{close}"')

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        """The documents with the study's labels."""
        for row in self.placed(split, problems):
            starts = {entity.id: entity.start for entity in row.document.entities}
            relations = row.document.relations
            places = row.related or [(row.path, row.line_at(starts[one.head])) for one in relations]
            named = (
                replace(one, type=self.renamed(one.type, self.rename, self.labels, "label", place))
                for one, place in zip(relations, places, strict=True)
            )
            typed = (replace(one, type=(self.rename or {}).get(one.type, one.type)) for one in row.document.entities)
            yield row._replace(document=replace(row.document, entities=tuple(typed), relations=tuple(named)))

    @cached_property
    def _allowed(self) -> Collection[tuple[str, str]]:
        if self.pairs:
            return frozenset(self.pairs)
        related = set[tuple[str, str]]()
        for row in self._notes("train", Problems()):
            types = {entity.id: entity.type for entity in row.document.entities}
            related.update((types[relation.head], types[relation.tail]) for relation in row.document.relations)
        if not related:
            remedy = 'was the export made without relations? Otherwise name the types: pairs = [["drug", "problem"]]'
            raise DataError(self.path("train"), None, "no relation in any note", remedy)
        return frozenset(related)

    @staticmethod
    def words(document: Document) -> Iterator[str]:
        """The labels of the relations."""
        return (relation.type for relation in document.relations)


@dataclass(frozen=True, kw_only=True)
class BaggedSentences(Files, BagReader):
    """Sentences by pair and relation, aligned with public facts or read as such."""

    view: ClassVar[View] = "bags"
    wanted: ClassVar[Options] = Options(concepts=True, labelled=False)

    relations: tuple[str, ...] = ()
    """If given, all that there are, and facts of others are left out; without it, those that occur in training."""
    kb: str | None = None
    """The file of public facts; what a study's own files relate is not public."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The types of head and tail that may be related; without it, those of the facts in training."""
    scope: Scope | None = None
    """Within what two entities are a candidate: a sentence, if not given."""
    unrelated: str | None = None
    """The label of pairs without a fact in OpenNRE's files, if it is not `NA`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if UNRELATED in self.relations:
            raise ValueError(f"relations has {UNRELATED!r}, which is always there; take it out")
        if twice := [name for name in self.relations if self.relations.count(name) > 1]:
            raise ValueError(f"relations has {twice[0]!r} twice; list each once")
        if not self.aligned:
            _refuse(self, ("kb", "pairs", "scope"), "which has bags already")
        if self.aligned or self.form.ready == "bags":
            _refuse(self, ("unrelated",), "which has no label of its own for pairs without a fact")
        _settle(self, {"scope": "sentence"})

    @property
    def aligned(self) -> bool:
        """Whether these are notes, of which facts make bags."""
        return self.form.ready is None

    @property
    def declared(self) -> tuple[str, ...]:
        """`NA` and the relations, if the settings say which."""
        return (UNRELATED, *self.relations) if self.relations else ()

    @property
    def _known(self) -> tuple[str, ...]:
        return self.declared

    @property
    def public(self) -> bool:
        """Whether relations are those of `kb`; what a study's own files claim is not."""
        return self.kb is not None

    def _rows(self, split: str, problems: Problems) -> Iterator[BagSentence]:
        if self.aligned:
            yield from self._alignments(split, problems)
            return
        for row in self.placed(split, problems):
            assert isinstance(row.document, BagSentence)  # noqa: S101 -- as all such readers give
            none = self.unrelated is not None and row.document.labels == (self.unrelated,)
            yield replace(row.document, labels=(UNRELATED,)) if none else row.document

    def _alignments(self, split: str, problems: Problems) -> Iterator[BagSentence]:
        facts = self._facts(
            split, problems if split == "train" else Problems()
        )  # what is odd in a `kb` is reported once
        types = set[str]()
        for note in self.placed(split, problems):
            types.update(entity.type for entity in note.document.entities)
            yield from align([note], facts, self._types, scope=self.scope or "sentence", problems=problems)
        for wanted in sorted({name for both in self.pairs for name in both} - types):
            problems.at("type in pairs that no entity has", wanted)

    def _claims(self) -> Iterable[tuple[str, str]]:
        if self.form.ready == "pairs":
            return super()._claims()
        notes = self.placed("train", Problems())
        if not self.aligned:  # a bag's relation is written once, whatever its sentences are called
            return sorted({(note.document.labels[0], f"{note.path.name}:{note.line}") for note in notes})
        return [(relation.type, note.document.id) for note in notes for relation in note.document.relations]

    def _facts(self, split: str, problems: Problems) -> Facts:
        """The public facts, or those that each split's own files list."""
        if self.kb is not None:
            return read_facts(existing_path(self.kb, self.folder), self.relations, problems, self.encoding)
        if self.format == "jsonl":
            raise DataError(self.path("train"), None, "no public facts to align with", 'set kb = "facts.tsv"')
        return listed_facts(self.placed(split, Problems()), self.relations, problems)

    @cached_property
    def _types(self) -> frozenset[tuple[str, str]]:
        if self.pairs:
            return frozenset(self.pairs)
        types = related_types(self.placed("train", Problems()), self._facts("train", Problems()))
        if not types:
            remedy = 'check that both use the same ids, or name the types: pairs = [["Chemical", "Disease"]]'
            raise DataError(self.path("train"), None, "no note names both ends of a fact", remedy)
        return types


def _settle(files: Files, usual: Mapping[str, Any]) -> None:
    """Fill in what is not given: frozen settings are not changed by anybody else."""
    for name, value in usual.items():
        if getattr(files, name) in (None, ()):
            object.__setattr__(files, name, value)


def _refuse(files: Files, names: Collection[str], why: str) -> None:
    for name in names:
        if getattr(files, name) not in (None, ()):
            raise ValueError(f"{name} has no meaning where format = {files.format!r}, {why}; take it out")
