"""Our own JSONL (see `jsonl`), for relations.

    PairsJSONL(train="train.jsonl", test="test.jsonl")

A document becomes candidate pairs by the rules of `pairs`; a file of pair documents comes back as it was written,
except for ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wardround.corpora.pair_files import NoteFiles
from wardround.formats.jsonl import read_jsonl
from wardround.formats.options import Options
from wardround.text.document import Placed
from wardround.text.reading import Problems

__all__ = ["PairsJSONL"]


@dataclass(frozen=True, kw_only=True)
class PairsJSONL(NoteFiles):
    """One file per split."""

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        options = Options(encoding=self.encoding, language=self.language)
        for document, path, line in read_jsonl(self.path(split), problems, options, needs=("entities",)):
            named = (replace(relation, type=self._label(relation.type, path, line)) for relation in document.relations)
            yield Placed(replace(document, relations=tuple(named)), path, line)
