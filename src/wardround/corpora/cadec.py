"""CADEC as its publishers lay it out: drug reviews in `text/`, annotations in `original/`.

    CADEC(path="cadec")          # cadec/text/LIPITOR.1.txt, cadec/original/LIPITOR.1.ann

Karimi et al., JBI 2015 (CSIRO data licence: not ours to ship). Annotations are BRAT's: ADR, Disease, Drug, Finding,
Symptom, some of them discontinuous. Notes become sentences in the tagging task, which takes such an entity from its
first to its last character, and counts it. There is no published split; `by = "source"` keeps a review together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from wardround.corpora.halved import Halved
from wardround.formats.brat import read_note
from wardround.formats.options import Options
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems, existing_path, files_under


@dataclass(frozen=True, kw_only=True)
class CADEC(Halved):
    """One document per review."""

    types: ClassVar[tuple[str, ...]] = ("ADR", "Disease", "Drug", "Finding", "Symptom")
    language: ClassVar[str] = "en"
    path: str = "$WARDROUND_DATA/cadec"
    """The folder with the corpus; the variable is that of the environment."""
    encoding: str | None = None
    """Of the files, if it is not UTF-8."""
    folder: str = ""
    """Where a relative path starts; a study fills in its own folder."""

    def whole(self, problems: Problems) -> Iterator[Document]:
        """Every review that has annotations."""
        root = existing_path(self.path, self.folder)
        notes = files_under(root / "text", ".txt")
        if not notes:
            raise DataError(
                root / "text", None, "no .txt file in this folder", "name the folder that holds text and original"
            )
        options = Options(encoding=self.encoding, language="en")
        for note in notes:
            annotations = root / "original" / f"{note.stem}.ann"
            if not annotations.is_file():
                problems.note("note without .ann, skipped", note, 1)
                continue
            document = read_note(note, annotations, note.stem, problems, options).document
            yield replace(document, source=note.stem)
