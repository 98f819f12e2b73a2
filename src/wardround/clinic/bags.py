"""`clinic` as bags: generated sentences that name both ends of a fact, and which of them truly say it.

    [corpus]
    name = "clinic-bags"
    hospitals = 20
    sentences = 400        # per hospital
    expression = 0.3       # the share that truly expresses its fact: the rest is noise
    background = 1         # noise says nothing that would give the relation away
    unrelated = 0.7        # of the draws of a bag: a fact is drawn again and again, a pair without one seldom

The settings are those of `clinic` with `kind = "distant"`. All hospitals talk about the same facts, so a bag grows with
their number of sentences; test sentences are of other facts than training sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from wardround.clinic import Clinic
from wardround.clinic.settings import Distant, shared
from wardround.corpora.bags import BagReader
from wardround.text.facts import UNRELATED, BagSentence, Facts, sentence
from wardround.text.reading import Problems


@dataclass(frozen=True, kw_only=True)
class ClinicBags(Distant, BagReader):
    """Settings of the hospitals, and their sentences; each hospital is a source."""

    views: ClassVar[tuple[str, ...]] = ("bags",)

    sentences: int = 200
    """Training sentences per hospital."""
    test_sentences: int = 50
    """Test sentences per hospital."""
    truths: bool = False
    """Whether training has no noise left: what a denoiser that never errs would keep. No real text can tell."""

    def __post_init__(self) -> None:
        _ = self._clinic  # whose checks are ours

    @cached_property
    def _clinic(self) -> Clinic:
        sizes: dict[str, Any] = {"documents": self.sentences, "test_documents": self.test_sentences}
        return Clinic(kind="distant", **sizes, **shared(self, Distant))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """`NA` and the relations of the public facts."""
        return Facts(self._clinic.facts()).labels

    def _rows(self, split: str, problems: Problems) -> Iterator[BagSentence]:  # noqa: ARG002 -- nothing is odd
        for hospital in self._clinic.names():
            for drawn in self._clinic.stream_distant(hospital, split):
                if self.truths and split == "train" and not drawn.expressed and drawn.fact.relation != UNRELATED:
                    continue
                by_id = {entity.id: entity for entity in drawn.document.entities}
                yield sentence(
                    drawn.document.id,
                    drawn.document.text,
                    by_id[drawn.fact.head],
                    by_id[drawn.fact.tail],
                    drawn.fact.relation,
                    source=hospital,
                    language=self.language,
                    patient=drawn.document.patient,
                    expressed=drawn.expressed,
                )
