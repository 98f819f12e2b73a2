"""Bags as OpenNRE has them, NYT10 among them: the files of `opennre` with the ids of head and tail.

    {"text": …, "h": {"id": "/m/0ccvx", "pos": [0, 6]}, "t": {"id": "/m/05gf08", "pos": [20, 31]}, "relation": "NA"}

A bag is the sentences of one (h.id, relation, t.id). Where there is no `id`, an `entity_pair` of the line stands for
both ends, as in the files that the authors of Lazy MIL made of MIRGENE; where there is neither, the `name`, counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wardround.corpora.bag_files import BagFiles
from wardround.formats.opennre import OpenNRE
from wardround.text.document import Entity, Placed
from wardround.text.facts import UNRELATED, Sentence, sentence
from wardround.text.reading import Problems

__all__ = ["OpenNREBags"]


@dataclass(frozen=True, kw_only=True)
class OpenNREBags(BagFiles):
    """One file per split, a JSON object per line."""

    fix_offsets: bool = False
    unrelated: str = UNRELATED
    """The label of pairs without a fact."""

    def _rows(self, split: str, problems: Problems) -> Iterator[Sentence]:
        reader = OpenNRE(
            train=self.train, test=self.test, fix_offsets=self.fix_offsets, encoding=self.encoding,
            language=self.language, folder=self.folder,
        )  # fmt: skip
        for made, row in reader.rows(split, problems, lenient=True):
            document = made.document
            head, tail = (
                Entity(_id(row, key, made, problems), entity.type, entity.start, entity.end)
                for key, entity in zip(("h", "t"), document.entities, strict=True)
            )
            said = document.labels[0]
            yield sentence(
                document.id,
                document.text,
                head,
                tail,
                UNRELATED if said == self.unrelated else said,
                source=document.source or document.id,
                language=document.language,
            )


def _id(row: Mapping[str, object], key: str, made: Placed, problems: Problems) -> str:
    entity = row[key]
    told = entity.get("id") if isinstance(entity, dict) else None
    if told := told or row.get("entity_pair"):
        return str(told)
    problems.note("entity without an id, its name stands for it", made.path, made.line)
    place = made.document.entities["ht".index(key)]
    name = entity.get("name") if isinstance(entity, dict) else None
    return str(name or made.document.text[place.start : place.end]).casefold()
