"""BC5CDR as bags: chemicals and diseases in one sentence, labelled by whether the one is known to induce the other.

    for row in BC5CDRBags().documents("train"): ...

Li et al., "BioCreative V CDR task corpus", Database 2016; public domain. Entities are MeSH ids. The facts are the
chemical-induced diseases (`CID`) that curators listed per abstract, whatever a single sentence says: those of the
training and development abstracts label the training split, those of the test abstracts the test split. Test pairs
that training sentences have too are left out (`unseen`), for their answer was given. With `valid = "development"` the
development abstracts are kept for validation, as they were meant, and the training abstracts alone train.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from wardround.corpora.align import align
from wardround.corpora.bags import BagReader, listed_facts
from wardround.formats.options import Options
from wardround.formats.pubtator import read_pubtator
from wardround.text.document import Placed
from wardround.text.facts import BagSentence
from wardround.text.reading import Problems, data_file

ORIGIN = "github.com/patverga/bran, data/cdr"
FILES: dict[str, tuple[str, ...]] = {"train": ("Training", "Development"), "test": ("Test",)}
APART: dict[str, tuple[str, ...]] = {"train": ("Training",), "valid": ("Development",), "test": ("Test",)}


@dataclass(frozen=True, kw_only=True)
class BC5CDRBags(BagReader):
    """The official cut; training and development abstracts train, unless the latter are for validation."""

    published: ClassVar[tuple[str, ...]] = ("CID",)
    language: ClassVar[str] = "en"

    unseen: bool = True
    """Whether test pairs that training sentences have too are left out."""
    valid: Literal["development"] | None = None
    """Keeps the development abstracts for validation, instead of training on them."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Validation only if the development abstracts are for it."""
        return tuple(self._files)

    @property
    def _files(self) -> dict[str, tuple[str, ...]]:
        return APART if self.valid else FILES

    def _rows(self, split: str, problems: Problems) -> Iterator[BagSentence]:
        facts = listed_facts(self._notes(split, Problems()))
        return align(self._notes(split, problems), facts, {("Chemical", "Disease")}, problems=problems)

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        for part in self._files[split]:
            path = data_file(f"bc5cdr_re/CDR_{part}Set.PubTator.txt.gz", ORIGIN)
            yield from read_pubtator(path, problems, Options(concepts=True))
