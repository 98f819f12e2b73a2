"""`clinic` as pairs: generated notes read as the 2010 i2b2/VA challenge is, one document per pair of a line.

    [corpus]
    name = "clinic-pairs"
    hospitals = 20
    notes = 50             # for training, per hospital
    none = ""              # leaves out the pairs without a relation

A stand-in for that challenge, whose notes need an agreement: the same eight relations between treatments, tests and
problems, the same candidates, the same label `none`. The settings are those of `clinic` with `kind = "notes"`; each
hospital is a source.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from wardround.clinic import Clinic
from wardround.clinic.hospital import RELATIONS
from wardround.clinic.settings import Hospitals, shared
from wardround.corpora.pairs import read_pairs
from wardround.text.document import Document, Placed
from wardround.text.pairs import pairs
from wardround.text.reading import Problems
from wardround.text.sentences import Scope

TYPES = frozenset({("treatment", "problem"), ("test", "problem"), ("problem", "problem")})


@dataclass(frozen=True, kw_only=True)
class ClinicPairs(Hospitals):
    """Settings of the hospitals, and the pairs in their notes."""

    views: ClassVar[tuple[str, ...]] = ("pairs",)

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    scope: ClassVar[Scope] = "line"
    both_ways: ClassVar[bool] = False

    notes: int = 200
    """Training notes per hospital."""
    test_notes: int = 50
    """Test notes per hospital."""
    none: str = "none"
    """The label of pairs without a relation; if empty, these are left out."""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""

    def __post_init__(self) -> None:
        _ = self._clinic  # whose checks are ours

    @cached_property
    def _clinic(self) -> Clinic:
        return Clinic(documents=self.notes, test_documents=self.test_notes, **shared(self, Hospitals))

    @property
    def labels(self) -> tuple[str, ...]:
        """The relations, with `none` unless those pairs are left out."""
        return tuple(label for label in (*RELATIONS[:-1], self.none) if label)

    @property
    def negative(self) -> str:
        """The label of unrelated pairs."""
        return self.none

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The pairs of one split."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        for hospital in self._clinic.names():
            for note in self._clinic.stream(hospital, split):
                placed = Placed(replace(note, source=hospital), Path(note.id), 0)
                yield from pairs(
                    placed, TYPES, self.none, scope=self.scope, both_ways=self.both_ways, problems=problems
                )
