"""Our own JSONL (see `jsonl`), for entities: a text with spans per line, or tokens with tags.

    EntitiesJSONL(train="train.jsonl", test="test.jsonl")

Texts without a letter are left out and counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.corpora.entity_files import EntityFiles
from wardround.formats.jsonl import read_jsonl
from wardround.formats.options import Options
from wardround.text.document import Document
from wardround.text.reading import Problems

__all__ = ["EntitiesJSONL"]


@dataclass(frozen=True, kw_only=True)
class EntitiesJSONL(EntityFiles):
    """One file per split, or per split and hospital; a line may name its own `source`."""

    def _read(self, path: Path, problems: Problems) -> Iterator[Document]:
        for document, _, line in read_jsonl(path, problems, Options(encoding=self.encoding), needs=("entities",)):
            if not document.text.strip():
                problems.note("empty sentence, left out", path, line)
                continue
            typed = (replace(entity, type=self._type(entity.type, path, line)) for entity in document.entities)
            yield replace(document, entities=tuple(typed))
