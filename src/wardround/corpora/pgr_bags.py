"""PGR as bags: the Human Phenotype Ontology labels the training sentences, curators have judged the test sentences.

    for row in PGRBags().documents("test"): ...

The corpus is that of `pgr`. A gene and a phenotype that the ontology lists are `related`, others `NA`. In the test
split, `gold = "confirmation"` is what curators said of each sentence, and a pair is a fact if they found it in one of
its sentences; `gold = "relation"` is the ontology again. Training sentences that stand in the test split are dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from wardround.corpora.bags import BagReader
from wardround.corpora.pgr import PGR
from wardround.text.document import Entity
from wardround.text.facts import UNRELATED, Sentence, sentence
from wardround.text.reading import Problems, digest

__all__ = ["PGRBags"]


@dataclass(frozen=True, kw_only=True)
class PGRBags(BagReader):
    """The published cut."""

    published: ClassVar[tuple[str, ...]] = ("related",)

    gold: Literal["confirmation", "relation"] = "confirmation"
    """Whose word test sentences go by: the curators', or the ontology's."""

    def _rows(self, split: str, problems: Problems) -> Iterator[Sentence]:
        reader = PGR(gold=self.gold)
        held = (
            {digest(made.document.text) for made, _ in reader.rows("test", Problems())} if split == "train" else set()
        )
        for made, row in reader.rows(split, problems):
            document = made.document
            if digest(document.text) in held:
                problems.note("text also in test, dropped", made.path, made.line)
                continue
            gene, phenotype = document.entities
            yield sentence(
                document.id,
                document.text,
                Entity(row["GENE_ID"], gene.type, gene.start, gene.end),
                Entity(row["PHENOTYPE_ID"], phenotype.type, phenotype.start, phenotype.end),
                "related" if document.labels == ("True",) else UNRELATED,
                source=document.source,
                language="en",
            )
