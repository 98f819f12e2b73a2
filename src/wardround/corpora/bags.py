"""What corpora of bags share: sentences by split, and the relations that occur in training.

`unseen` leaves out of the test split the pairs that also occur in training: figures are then of facts that no
training sentence was labelled with.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from wardround.text.document import Document, Placed
from wardround.text.facts import UNRELATED, BagSentence, Fact, Facts
from wardround.text.reading import Problems, one_of
from wardround.text.shown import note_of, occurring


@dataclass(frozen=True, kw_only=True)
class BagReader(ABC):
    """A corpus of bags: sentences by split, and the relations that occur in training."""

    views: ClassVar[tuple[str, ...]] = ("bags",)

    published: ClassVar[tuple[str, ...]] = ()
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
        return (UNRELATED, *self.published) if self.published else ()

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
    def _training(self) -> tuple[tuple[BagSentence, ...], Problems]:
        """The training split, read once for labels, pairs and sentences, and what was odd in it."""
        problems, known = Problems(), self._known
        rows = []
        for at, row in enumerate(self._rows("train", problems), 1):
            if known and row.labels[0] not in known:
                problems.note("sentence of a relation that is not in the study, left out", "train", at)
            else:
                rows.append(row)
        return tuple(rows), problems

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split."""
        problems = Problems() if problems is None else problems
        if one_of(split, self.splits) != "train":
            return self._tested(split, problems)
        rows, odd = self._training
        problems.include(odd)
        return iter(rows)

    def _tested(self, split: str, problems: Problems) -> Iterator[BagSentence]:
        seen = {_pair(row) for row in self._training[0]} if self.unseen else set()
        lacking = "the study" if self._known else "training"
        facts = False
        for at, row in enumerate(self._rows(split, problems), 1):
            if row.labels[0] not in self.labels:
                problems.note(f"sentence of a relation that is not in {lacking}, left out", split, at)
            elif _pair(row) in seen:
                problems.note(f"{split} sentence whose pair training has too, left out", split, at)
            else:
                facts = facts or row.labels[0] != UNRELATED
                yield row
        if not facts:
            problems.at("no fact to find, so no precision and recall", split)

    @abstractmethod
    def _rows(self, split: str, problems: Problems) -> Iterable[BagSentence]: ...


def _pair(row: BagSentence) -> tuple[str, str]:
    return row.entities[0].id, row.entities[1].id


def listed_facts(notes: Iterable[Placed], relations: Sequence[str] = (), problems: Problems | None = None) -> Facts:
    """The relations that notes list, as facts; with `relations`, others are left out, and counted."""
    kept = []
    for note in notes:
        for relation in note.document.relations:
            if not relations or relation.type in relations:
                kept.append(Fact(relation.head, relation.type, relation.tail))
            elif problems is not None:
                problems.note("fact of a relation that is not in the study, left out", note.path, note.line)
    return Facts(kept)
