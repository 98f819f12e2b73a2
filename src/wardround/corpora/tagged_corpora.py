"""Public corpora that come as CoNLL columns: BC5CDR, NCBI Disease, BC2GM and PsyTAR.

    for document in BC5CDR().documents("train"): ...

BC5CDR (Li et al. 2016), NCBI Disease (Doğan et al. 2014) and BC2GM (Smith et al. 2008) in the splits of
github.com/cambridgeltl/MTL-Bioinformatics-2016; PsyTAR (Zolnoori et al. 2019) in those of
github.com/basaldella/psytarpreprocessor, all CC BY 4.0. No file says which article a sentence is from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from wardround.corpora.halved import EntityCorpus
from wardround.formats.conll import read_columns
from wardround.text.document import Document
from wardround.text.reading import Problems, data_file, one_of
from wardround.text.tags import joined

MTL = "github.com/cambridgeltl/MTL-Bioinformatics-2016"


@dataclass(frozen=True, kw_only=True)
class _Columns(EntityCorpus):
    """A corpus with published splits."""

    splits: ClassVar[tuple[str, ...]] = ("train", "valid", "test")
    language: ClassVar[str] = "en"
    files: ClassVar[tuple[str, ...]]
    origin: ClassVar[str] = MTL

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one published split."""
        name = self.files[self.splits.index(one_of(split, self.splits))]
        path, problems = data_file(name, self.origin), Problems() if problems is None else problems
        for sentence in read_columns(path, problems):
            document = joined(
                f"{path.name}:{sentence.line}", sentence.tokens, sentence.tags, problems, (path, sentence.line)
            )
            yield replace(document, language="en")

    def whole(self, problems: Problems) -> Iterator[Document]:
        """All splits, one after the other."""
        for split in self.splits:
            yield from self.documents(split, problems)


@dataclass(frozen=True, kw_only=True)
class BC5CDR(_Columns):
    """Chemicals and diseases in PubMed abstracts."""

    types: ClassVar[tuple[str, ...]] = ("Chemical", "Disease")
    files: ClassVar[tuple[str, ...]] = tuple(f"bc5cdr_ner/{part}.tsv.gz" for part in ("train", "devel", "test"))


@dataclass(frozen=True, kw_only=True)
class NCBIDisease(_Columns):
    """Diseases in PubMed abstracts."""

    types: ClassVar[tuple[str, ...]] = ("Disease",)
    files: ClassVar[tuple[str, ...]] = (
        "ncbi_disease/train.tsv.gz", "ncbi_disease/devel.tsv", "ncbi_disease/test.tsv",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BC2GM(_Columns):
    """Gene mentions in PubMed sentences."""

    types: ClassVar[tuple[str, ...]] = ("GENE",)
    files: ClassVar[tuple[str, ...]] = tuple(f"bc2gm/{part}.tsv.gz" for part in ("train", "devel", "test"))


@dataclass(frozen=True, kw_only=True)
class PsyTAR(_Columns):
    """Drug reviews of patients: adverse reactions, withdrawal, signs and symptoms, drug indications."""

    types: ClassVar[tuple[str, ...]] = ("ADR", "DI", "SSI", "WD")
    files: ClassVar[tuple[str, ...]] = ("psytar/all/train.txt.gz", "psytar/all/dev.txt", "psytar/all/test.txt")
    origin: ClassVar[str] = "github.com/basaldella/psytarpreprocessor, data/all"
