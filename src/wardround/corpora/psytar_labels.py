"""PsyTAR's sentence labels: what a patient's drug review speaks of, none to six labels per sentence.

    for document in PsyTARLabels().documents("train"): ...

Zolnoori et al., "The PsyTAR dataset", Data in Brief 2019, CC BY 4.0, in the splits of
github.com/basaldella/psytarpreprocessor. The files end in `.csv`, are separated by tabs and quoted. They hold
6,002 sentences; the tagged files beside them leave some out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wardround.formats.tables import Table
from wardround.text.document import Document
from wardround.text.reading import Problems, data_file, one_of

ORIGIN = "github.com/basaldella/psytarpreprocessor, data/binary"
FILES = {"train": "psytar/binary/train.csv.gz", "valid": "psytar/binary/dev.csv", "test": "psytar/binary/test.csv"}


@dataclass(frozen=True, kw_only=True)
class PsyTARLabels:
    """ADR, withdrawal, drug effective or ineffective, sign or symptom, drug indication."""

    views: ClassVar[tuple[str, ...]] = ("labels",)

    splits: ClassVar[tuple[str, ...]] = tuple(FILES)
    language: ClassVar[str] = "en"
    labels: ClassVar[tuple[str, ...]] = ("ADR", "WD", "EF", "INF", "SSI", "DI")

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split, with or without labels."""
        path = data_file(FILES[one_of(split, self.splits)], ORIGIN)
        table = Table(
            files={split: path}, format="tsv", quoting=True, text="sentences", flags=self.labels, language="en"
        )
        return table.documents(split, problems)
