"""GAD and EU-ADR: does the sentence say that a gene and a disease are associated? Ten folds each.

    for document in GAD(fold=1).documents("train"): ...

Bravo et al., BMC Bioinformatics 2015 (CC BY 4.0), and van Mulligen et al., J. Biomedical Informatics 2012, in the
folds of BioBERT. Gene and disease are masked: `@GENE$` is `e1`, `@DISEASE$` is `e2`, label `1` means associated.
Training files have no header, test files have one. GAD repeats 208 of its 5,330 rows, so 1 to 28 test sentences
of a fold are also trained on: counted, and dropped from training with `dedupe`. With `valid` a share of the
training rows, by label and seed, is kept for validation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge, Le, Lt

from wardround.corpora.pairs import read_pairs, resplit
from wardround.formats.tables import Table
from wardround.text.document import Document, Entity, Placed
from wardround.text.pairs import pair
from wardround.text.reading import DataError, Problems, data_file

ORIGIN = "github.com/BioMedBERT/biomedbert, datasets/RE"


@dataclass(frozen=True, kw_only=True)
class _Folds:
    views: ClassVar[tuple[str, ...]] = ("pairs",)
    labels: ClassVar[tuple[str, ...]] = ("0", "1")
    negative: ClassVar[str] = "0"
    language: ClassVar[str] = "en"
    name: ClassVar[str]

    fold: Annotated[int, Ge(1), Le(10)] = 1
    """Which of the ten folds is tested on."""
    valid: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The share of training rows for validation; FedED's public set is 0.2."""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    seed: int = 0
    """The seed that validation rows are drawn by; if not given, the study's."""

    def __post_init__(self) -> None:
        if not 1 <= self.fold <= 10:
            raise ValueError(f"fold = {self.fold}: there are folds 1 to 10")

    @property
    def splits(self) -> tuple[str, ...]:
        """Validation only if a share is kept for it."""
        return ("train", "valid", "test") if self.valid else ("train", "test")

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one part of the fold."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        if split == "test" or not self.valid:
            return self._file(split, problems)
        # Both parts read the whole file; its findings are reported once.
        rows = self._file("train", problems if split == "train" else Problems())
        return resplit(rows, split, self.seed, test=0, valid=self.valid)

    def _file(self, split: str, problems: Problems) -> Iterator[Placed]:
        packed = ".gz" if self.name == "gad" and split == "train" else ""
        path = data_file(f"{self.name}/{self.fold}/{split}.tsv{packed}", ORIGIN)
        table = (
            Table(files={split: path}, format="tsv", header=False, text=1, label=2, labels=self.labels)
            if split == "train"
            else Table(files={split: path}, format="tsv", text="sentence", label="label", labels=self.labels)
        )
        for row in table.documents(split, problems):
            line = int(row.id.rpartition(":")[2])
            gene, disease = (_masked(row.text, kind, path, line) for kind in ("GENE", "DISEASE"))
            name = f"{self.name}-{self.fold}-{split}-{line}"
            yield Placed(pair(name, row.text, gene, disease, row.labels[0], language="en"), path, line)


def _masked(text: str, kind: str, path: Path, line: int) -> Entity:
    mask = f"@{kind}$"
    if text.count(mask) != 1:
        raise DataError(path, line, f"{text.count(mask)} times {mask}", "each row masks one gene and one disease")
    start = text.index(mask)
    return Entity("", kind, start, start + len(mask))


@dataclass(frozen=True, kw_only=True)
class GAD(_Folds):
    """The Genetic Association Database's sentences: 5,330 rows, half of them associated."""

    name: ClassVar[str] = "gad"


@dataclass(frozen=True, kw_only=True)
class EUADR(_Folds):
    """EU-ADR's gene and disease sentences: 355 rows, of which always saying `1` gets 74 % right."""

    name: ClassVar[str] = "euadr"
