"""`clinic` as bags: generated sentences that name both ends of a fact, and which of them truly say it.

    [corpus]
    name = "clinic-bags"
    hospitals = 20
    sentences = 400        # per hospital
    expression = 0.3       # the share that truly expresses its fact: the rest is noise

The settings are those of `clinic` with `kind = "distant"`. All hospitals talk about the same facts, so a bag grows with
their number of sentences; test sentences are of other facts than training sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from wardround.corpora.bag_files import BagReader
from wardround.corpora.clinic import Clinic
from wardround.corpora.clinic.words import Language
from wardround.corpora.facts import Facts, Sentence, sentence
from wardround.corpora.reading import Problems

__all__ = ["ClinicBags"]


@dataclass(frozen=True, kw_only=True)
class ClinicBags(BagReader):
    """Settings of the hospitals, and their sentences; each hospital is a source."""

    hospitals: int = 5
    sentences: int = 200
    """Training sentences per hospital."""
    test_sentences: int = 50
    language: Language = "en"
    heterogeneity: float = 0.5
    noise: float = 0.1
    expression: float = 0.6
    bag_size: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self._clinic  # whose checks are ours

    @cached_property
    def _clinic(self) -> Clinic:
        return Clinic(
            hospitals=self.hospitals, documents=self.sentences, test_documents=self.test_sentences,
            language=self.language, kind="distant", heterogeneity=self.heterogeneity, noise=self.noise,
            expression=self.expression, bag_size=self.bag_size, seed=self.seed,
        )  # fmt: skip

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """`NA` and the relations of the public facts."""
        return Facts(self._clinic.facts()).labels

    def _rows(self, split: str, problems: Problems) -> Iterator[Sentence]:  # noqa: ARG002 -- nothing is odd
        for hospital in self._clinic.names():
            for told in self._clinic.stream_distant(hospital, split):
                by_id = {entity.id: entity for entity in told.document.entities}
                yield sentence(
                    told.document.id,
                    told.document.text,
                    by_id[told.fact.head],
                    by_id[told.fact.tail],
                    told.fact.relation,
                    source=hospital,
                    language=self.language,
                    expressed=told.expressed,
                )
