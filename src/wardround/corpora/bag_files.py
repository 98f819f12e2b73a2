"""What readers of bags share, and the two readers of a user's own notes: PubTator and JSONL, aligned with facts.

    [corpus]
    name = "pubtator-bags"          # or "notes-bags" for documents in our JSONL
    train = "train.pubtator"
    test = "test.pubtator"
    kb = "facts.tsv"                # for PubTator also the files' own relations, if it is left out
    pairs = [["Chemical", "Disease"]]

`bags` reads what `wardround align` writes: a bag per line, as `{"head", "relation", "tail", "sentences": [{"text",
"head": [0, 7], "tail": [19, 23], "source", …}]}`; types are optional.

`unseen` leaves out of the test split the pairs that also occur in training: figures are then of facts that no
training sentence was labelled with.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from wardround.corpora.align import align, related_types
from wardround.formats.json_values import json_lines, string
from wardround.formats.pubtator import pubtator
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.facts import UNRELATED, Fact, Facts, Sentence, read_facts, sentence
from wardround.text.reading import DataError, Problems, found_path, one_of
from wardround.text.sentences import Scope
from wardround.text.shown import note_of, occurring

__all__ = [
    "AlignedFiles",
    "BagFiles",
    "BagReader",
    "BagsJSONL",
    "NotesBags",
    "PubTatorBags",
    "notes_jsonl",
    "told_facts",
    "write_bags",
]

SHAPE = (
    '{"head": "D1", "relation": "causes", "tail": "D2", "sentences": [{"text": …, "head": [0, 7], "tail": [9, 12]}]}'
)
NOTE = '{"text": …, "entities": [{"id": …, "type": …, "start": 0, "end": 7}]}'


@dataclass(frozen=True, kw_only=True)
class BagReader(ABC):
    """A corpus of bags: sentences by split, and the relations that occur in training."""

    views: ClassVar[tuple[str, ...]] = ("bags",)

    relations_told: ClassVar[tuple[str, ...]] = ()
    """The relations of a named corpus, which then need not be looked for."""

    unseen: bool = False
    """Whether test pairs that training has too are left out."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Train and test."""
        return ("train", "test")

    @property
    def public(self) -> bool:
        """Whether the relations are those of a public knowledge base, and so names whatever they are."""
        return False

    @property
    def _known(self) -> tuple[str, ...]:
        """`NA` and the relations, if they are known before anything is read."""
        return (UNRELATED, *self.relations_told) if self.relations_told else ()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """`NA` and the relations, of a named corpus or of the training split."""
        if self._known:
            return self._known
        relations = {row.labels[0] for row in self._training[0]}
        if not self.public:
            occurring("relations", "relations", [((relation,), place) for relation, place in self._claims()])
        return (UNRELATED, *sorted(relations - {UNRELATED}))

    def _claims(self) -> Iterable[tuple[str, str]]:
        """Each relation with the note that claims it; by note, since one claim gives several sentences."""
        return sorted({(row.labels[0], note_of(row.id)) for row in self._training[0]})

    @cached_property
    def _training(self) -> tuple[tuple[Sentence, ...], Problems]:
        """The training split, read once for labels, pairs and sentences, and what was odd in it."""
        found, known = Problems(), self._known
        rows = []
        for at, row in enumerate(self._rows("train", found), 1):
            if known and row.labels[0] not in known:
                found.note("sentence of a relation that is not in the study, left out", "train", at)
            else:
                rows.append(row)
        return tuple(rows), found

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split."""
        found = Problems() if problems is None else problems
        if one_of(split, self.splits) == "test":
            return self._tested(found)
        rows, odd = self._training
        found.include(odd)
        return iter(rows)

    def _tested(self, problems: Problems) -> Iterator[Sentence]:
        seen = {_pair(row) for row in self._training[0]} if self.unseen else set()
        lacking = "the study" if self._known else "training"
        facts = False
        for at, row in enumerate(self._rows("test", problems), 1):
            if row.labels[0] not in self.labels:
                problems.note(f"sentence of a relation that is not in {lacking}, left out", "test", at)
            elif _pair(row) in seen:
                problems.note("test sentence whose pair training has too, left out", "test", at)
            else:
                facts = facts or row.labels[0] != UNRELATED
                yield row
        if not facts:
            problems.at("no fact to find, so no precision and recall", "test")

    @abstractmethod
    def _rows(self, split: str, problems: Problems) -> Iterable[Sentence]: ...


def _pair(row: Sentence) -> tuple[str, str]:
    return row.entities[0].id, row.entities[1].id


@dataclass(frozen=True, kw_only=True)
class BagFiles(BagReader):
    """Files of one's own, one per split."""

    train: str
    test: str
    relations: tuple[str, ...] = ()
    """If given, all that there are; without it, those that occur in training."""
    language: str = ""
    encoding: str | None = None
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def __post_init__(self) -> None:
        if UNRELATED in self.relations:
            raise ValueError(f"relations has {UNRELATED!r}, which is always there; take it out")
        if twice := [name for name in self.relations if self.relations.count(name) > 1]:
            raise ValueError(f"relations has {twice[0]!r} twice; list each once")

    @property
    def declared(self) -> tuple[str, ...]:
        """`NA` and the relations, if the settings say which."""
        return (UNRELATED, *self.relations) if self.relations else ()

    @property
    def _known(self) -> tuple[str, ...]:
        return self.declared or super()._known

    def path(self, split: str) -> Path:
        """The file of a split."""
        return found_path(getattr(self, one_of(split, self.splits)), self.folder)


@dataclass(frozen=True, kw_only=True)
class BagsJSONL(BagFiles):
    """What `wardround align` writes."""

    def _rows(self, split: str, problems: Problems) -> Iterator[Sentence]:
        path = self.path(split)
        for line, row in json_lines(path, self.encoding, problems, SHAPE):
            head, relation, tail = (
                string(row.get(key), key, path, line, problems) for key in ("head", "relation", "tail")
            )
            told = row.get("sentences")
            if not isinstance(told, list):
                raise DataError(path, line, 'no list "sentences"', SHAPE)
            if not told:
                problems.note("bag without a sentence", path, line)
            kinds = [str(row.get(key) or "ENTITY") for key in ("head_type", "tail_type")]
            for at, item in enumerate(told, 1):
                if not isinstance(item, dict):
                    raise DataError(path, line, f"sentence {at} is a {type(item).__name__}", SHAPE)
                text = string(item.get("text"), "text", path, line, problems)
                spans = _place(item.get("head"), text), _place(item.get("tail"), text)
                if spans[0] is None or spans[1] is None:
                    problems.note("mention outside the text, sentence left out", path, line)
                    continue
                ends = (Entity(head, kinds[0], *spans[0]), Entity(tail, kinds[1], *spans[1]))
                if overlap(*ends):
                    problems.note("entities overlap, sentence left out", path, line)
                    continue
                said = item.get("expressed")
                yield sentence(
                    str(item.get("id") or f"{path.name}:{line}:{at}"), text, *ends, relation,
                    source=str(item.get("source") or ""), language=str(item.get("language") or self.language),
                    expressed=said if isinstance(said, bool) else None,
                )  # fmt: skip


def _place(told: object, text: str) -> tuple[int, int] | None:
    if not isinstance(told, list) or len(told) != 2 or not all(type(edge) is int for edge in told):
        return None
    start, end = told
    return (start, end) if 0 <= start < end <= len(text) else None


def write_bags(rows: Iterable[Sentence]) -> Iterator[str]:
    """The lines of a file of bags, in the order in which the bags first appear."""
    bags: dict[tuple[str, str, str], list[Sentence]] = {}
    for row in rows:
        fact = row.fact
        bags.setdefault((fact.head, fact.relation, fact.tail), []).append(row)
    for (head, relation, tail), mine in bags.items():
        kinds = [entity.type for entity in mine[0].entities]
        told = [
            {
                "id": row.id,
                "text": row.text,
                "head": [row.entities[0].start, row.entities[0].end],
                "tail": [row.entities[1].start, row.entities[1].end],
                "source": row.source,
                "language": row.language,
            }
            for row in mine
        ]
        whole = {"head": head, "relation": relation, "tail": tail, "head_type": kinds[0], "tail_type": kinds[1]}
        yield json.dumps({**whole, "sentences": told}, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class AlignedFiles(BagFiles):
    """Notes with entities, aligned with public facts when they are read."""

    kb: str | None = None
    relations: tuple[str, ...] = ()
    """If given, facts of other relations are left out, and counted."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The types of head and tail that may be related; without it, those of the facts in training."""
    scope: Scope = "sentence"

    @property
    def public(self) -> bool:
        """Those of `kb`; what a study's own files claim is not."""
        return self.kb is not None

    def _rows(self, split: str, problems: Problems) -> Iterator[Sentence]:
        facts = self._facts(split, problems if split == "train" else Problems())  # what is odd in a `kb` is told once
        types = set[str]()
        for note in self._notes(split, problems):
            types.update(entity.type for entity in note.document.entities)
            yield from align([note], facts, self._types, scope=self.scope, problems=problems)
        for wanted in sorted({name for both in self.pairs for name in both} - types):
            problems.at("type in pairs that no entity has", wanted)

    def _facts(self, split: str, problems: Problems) -> Facts:  # noqa: ARG002 -- for files with facts of their own
        if self.kb is None:
            raise DataError(self.path("train"), None, "no public facts to align with", 'set kb = "facts.tsv"')
        return read_facts(found_path(self.kb, self.folder), self.relations, problems, self.encoding)

    @cached_property
    def _types(self) -> frozenset[tuple[str, str]]:
        if self.pairs:
            return frozenset(self.pairs)
        found = related_types(self._notes("train", Problems()), self._facts("train", Problems()))
        if not found:
            remedy = 'are these the same ids? Else name the types: pairs = [["Chemical", "Disease"]]'
            raise DataError(self.path("train"), None, "no note names both ends of a fact", remedy)
        return found

    @abstractmethod
    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]: ...


@dataclass(frozen=True, kw_only=True)
class NotesBags(AlignedFiles):
    """Documents in our JSONL; an entity's `concept`, or else its `id`, is its public id."""

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        return notes_jsonl(self.path(split), self.encoding, problems)


@dataclass(frozen=True, kw_only=True)
class PubTatorBags(AlignedFiles):
    """PubTator files; without `kb`, the relations that they list are the facts, each split with its own."""

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        return pubtator(self.path(split), self.encoding, problems)

    def _claims(self) -> Iterable[tuple[str, str]]:
        notes = self._notes("train", Problems())
        return [(relation.type, note.document.id) for note in notes for relation in note.document.relations]

    def _facts(self, split: str, problems: Problems) -> Facts:
        if self.kb is not None:
            return super()._facts(split, problems)
        return told_facts(self._notes(split, Problems()), self.relations, problems)


def told_facts(notes: Iterable[Placed], relations: Sequence[str] = (), problems: Problems | None = None) -> Facts:
    """The relations that notes list, as facts; with `relations`, others are left out, and counted."""
    kept = []
    for note in notes:
        for told in note.document.relations:
            if not relations or told.type in relations:
                kept.append(Fact(told.head, told.type, told.tail))
            elif problems is not None:
                problems.note("fact of a relation that is not in the study, left out", note.path, note.line)
    return Facts(kept)


def notes_jsonl(path: Path, encoding: str | None, problems: Problems) -> Iterator[Placed]:
    """Documents with entities, one per line; what is no entity is counted and left out."""
    for line, row in json_lines(path, encoding, problems, NOTE):
        text = string(row.get("text"), "text", path, line, problems)
        told = row.get("entities")
        if not isinstance(told, list):
            raise DataError(path, line, 'no list "entities"', NOTE)
        entities = []
        for item in told:
            entity = _entity(item)
            if entity is None:
                problems.note("entity without type, start and end, or with an odd id, left out", path, line)
            else:
                entities.append(entity)
        name = str(row.get("id") or f"{path.name}:{line}")
        source = str(row.get("source") or "")
        yield Placed(Document(name, text, (), tuple(entities), (), source, str(row.get("language") or "")), path, line)


def _entity(item: object) -> Entity | None:
    if not isinstance(item, Mapping):
        return None
    told = next((item[key] for key in ("concept", "id") if item.get(key) is not None), "")
    name = str(told) if type(told) is int else told  # NCBI's genes are numbers
    kind, start, end = item.get("type"), item.get("start"), item.get("end")
    if not isinstance(name, str) or not isinstance(kind, str) or type(start) is not int or type(end) is not int:
        return None
    return Entity(name, kind, start, end)
