"""PGR: human genes and phenotypes in one sentence, related or not (release of 10 December 2018).

    for document in PGR(gold="confirmation", dedupe=True).documents("train"): ...

Sousa et al., "A Silver Standard Corpus of Human Phenotype-Gene Relations", NAACL 2019, Apache-2.0. The gene is `e1`,
the phenotype `e2`, the source the article's PMID. `gold = "relation"` says whether the Human Phenotype Ontology lists
the pair, whatever the sentence says; for the test split, `gold = "confirmation"` is what curators said of the
sentence. `official` is the published cut, in which 586 training rows share their sentence with a test row: counted,
and dropped with `dedupe`. `pooled` takes both files without exact repeats, by label and seed a fifth for testing and
a tenth of the others for validation.

HTML entities, doubly escaped ones too, are resolved and the offsets moved. Where an offset does not point at its
words the nearest place of these counts; two training rows name a gene that their sentence lacks, and are skipped.

As bags (`PGRBags`), a gene and a phenotype that the ontology lists are `related`, others `NA`; a test pair is a fact if
curators found it in one of its sentences, or by `gold = "relation"` if the ontology lists it. Training sentences that
stand in the test split are dropped.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from wardround.corpora.bags import BagReader
from wardround.corpora.pairs import read_pairs, resplit
from wardround.formats.offsets import nearest_place
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.facts import UNRELATED, BagSentence, sentence
from wardround.text.pairs import pair
from wardround.text.reading import DataError, Problems, data_file, digest, open_text
from wardround.text.shown import shown

ORIGIN = "github.com/lasigeBioTM/PGR, corpora/10_12_2018_corpus"
FILES = {"train": "pgr/10_12_2018_corpus/train.tsv.gz", "test": "pgr/10_12_2018_corpus/test.tsv"}
COLUMNS = (
    "FILE_ID", "SENTENCE", "GENE", "PHENOTYPE", "GENE_ID", "PHENOTYPE_ID", "GENE_START_POSITION", "GENE_END_POSITION",
    "PHENOTYPE_START_POSITION", "PHENOTYPE_END_POSITION", "RELATION",
)  # fmt: skip
RELATION = {"true": "True", "false": "False"}
CONFIRMATION = {"C": "True", "I": "False"}
# A semicolon is missing only where a sentence was cut right before it.
ESCAPED = re.compile(r"&(?:amp;)*#?\w+(?:;|$)")
Row = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PGR:
    """Sentences of abstracts with one pair each."""

    views: ClassVar[tuple[str, ...]] = ("pairs",)

    labels: ClassVar[tuple[str, ...]] = ("False", "True")
    negative: ClassVar[str] = "False"
    language: ClassVar[str] = "en"

    split: Literal["official", "pooled"] = "official"
    """The published cut, or all rows cut anew by label and seed."""
    gold: Literal["relation", "confirmation"] = "relation"
    """Whose word test rows go by: the ontology's, or the curators' on the sentence."""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    seed: int = 0
    """The seed that rows are drawn by; if not given, the study's."""

    def __post_init__(self) -> None:
        if self.split == "pooled" and self.gold == "confirmation":
            raise ValueError('gold = "confirmation" goes with split = "official": only its test split was curated')

    @property
    def splits(self) -> tuple[str, ...]:
        """The official cut has no validation split."""
        return ("train", "test") if self.split == "official" else ("train", "valid", "test")

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        if self.split == "official":
            return self._file(split, problems)
        # Each split reads the whole pool; its findings are reported once.
        problems = problems if split == "train" else Problems()
        rows = (row for part in FILES for row in self._file(part, problems))
        return resplit(_once(rows, problems), split, self.seed)

    def _file(self, split: str, problems: Problems) -> Iterator[Placed]:
        return (made for made, _ in self.rows(split, problems))

    def rows(self, split: str, problems: Problems) -> Iterator[tuple[Placed, Row]]:
        """The pairs of one file, each with the row that it comes from."""
        path = data_file(FILES[split], ORIGIN)
        for line, row in _table(path, problems):
            if split == "test" and self.gold == "confirmation":
                word = next((value for name, value in row.items() if name.startswith("CONFIRMATION")), "")
                if word == "U":
                    problems.note("curators uncertain, row skipped", path, line)
                    continue
                label = CONFIRMATION.get(word)
            else:
                word = row["RELATION"].strip()
                label = RELATION.get(word.casefold())
            if label is None:
                raise DataError(path, line, f"unknown label {shown(word)}", "expected True or False, C, I or U")
            text, moves = _unescaped(row["SENTENCE"])
            gene = _span("GENE", row, text, moves, path, line, problems)
            phenotype = _span("PHENOTYPE", row, text, moves, path, line, problems)
            if gene is None or phenotype is None:
                problems.note("entity not in its sentence, row skipped", path, line)
            elif overlap(gene, phenotype):
                problems.note("entities overlap, row skipped", path, line)
            else:
                name = f"pgr-{split}-{line}"
                made = pair(name, text, gene, phenotype, label, source=row["FILE_ID"], language="en")
                yield Placed(made, path, line), row


@dataclass(frozen=True, kw_only=True)
class PGRBags(BagReader):
    """The published cut."""

    published: ClassVar[tuple[str, ...]] = ("related",)
    language: ClassVar[str] = "en"

    gold: Literal["confirmation", "relation"] = "confirmation"
    """Whose word test sentences go by: the curators', or the ontology's."""

    def _rows(self, split: str, problems: Problems) -> Iterator[BagSentence]:
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


def _table(path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
    names: list[str] = []
    for line, text in enumerate(open_text(path, problems=problems), 1):
        cells = text.split("\t")
        if not names:
            names = cells
            if missing := [name for name in COLUMNS if name not in names]:
                raise DataError(path, line, f"no column {missing[0]}", f"it comes from {ORIGIN}")
        elif text:
            if len(cells) != len(names):
                raise DataError(path, line, f"{len(cells)} cells under {len(names)} names", "look for a stray tab")
            yield line, dict(zip(names, cells, strict=True))


def _unescaped(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without HTML entities, and (where one ended, characters lost) for each."""
    moves = [(match.end(), len(match[0]) - len(_plain(match))) for match in ESCAPED.finditer(text)]
    return ESCAPED.sub(_plain, text), moves


def _plain(match: re.Match[str]) -> str:
    before, after = "", match[0]
    while before != after:
        before, after = after, html.unescape(after)
    return after


def _span(
    kind: str, row: Row, text: str, moves: list[tuple[int, int]], path: Path, line: int, problems: Problems
) -> Entity | None:
    try:
        ends = int(row[f"{kind}_START_POSITION"]), int(row[f"{kind}_END_POSITION"])
    except ValueError:
        raise DataError(path, line, f"the position of {kind} is not a number") from None
    start, end = (offset - sum(lost for place, lost in moves if place <= offset) for offset in ends)
    words = _unescaped(row[kind])[0]
    if 0 <= start < end and text[start:end] == words:
        return Entity("", kind, start, end)
    place = nearest_place(text, words, start)
    if place is None:
        return None
    problems.note("offsets repaired", path, line)
    return Entity("", kind, place, place + len(words))


def _once(rows: Iterator[Placed], problems: Problems) -> Iterator[Placed]:
    seen = set[bytes]()
    for row in rows:
        document = row.document
        mark = digest(repr((document.text, document.labels, document.entities, document.source)))
        if mark in seen:
            problems.note("exact repeat, dropped", row.path, row.line)
        else:
            seen.add(mark)
            yield row
