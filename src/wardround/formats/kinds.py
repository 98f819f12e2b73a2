"""How often each label, entity type and relation type occurs, and whether these are names at all.

    kinds = Kinds()
    kinds.take(document)
    for what, remedy in kinds.unlike("diagnosis"): ...

Labels that differ only in capitals, in full-width letters, blanks, hyphens or underscores are one label written twice,
as a rule; `alike` lists them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from wardround.text.document import Document
from wardround.text.shown import names_of, shown, unlike_names

KINDS = {"labels": "labels", "entities": "types of entities", "relations": "types of relations"}


@dataclass
class Kinds:
    """Counts by name."""

    labels: Counter[str] = field(default_factory=Counter)
    entities: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)

    def take(self, document: Document) -> None:
        """One more document."""
        self.labels.update(document.labels)
        self.entities.update(entity.type for entity in document.entities)
        self.relations.update(relation.type for relation in document.relations)

    def learnt(self, view: str) -> Counter[str]:
        """What a task that takes this view of documents is to tell apart."""
        return Counter(getattr(self, view if view in KINDS else "relations"))

    def unlike(self, column: str | int = "") -> Iterator[tuple[str, str]]:
        """What does not look like names, and what to do."""
        for kind, words in KINDS.items():
            if why := unlike_names(getattr(self, kind)):
                where = f'column "{column}" does' if column and kind == "labels" else f"what stands for {words} does"
                yield f"{where} not look like {words}: {why}", "are columns swapped, or is one misnamed?"

    def alike(self) -> Iterator[tuple[str, str]]:
        """Names that look like one name written in several ways, and what to do."""
        for kind, words in KINDS.items():
            counts: Counter[str] = getattr(self, kind)
            names, forms = names_of(counts), dict[str, list[str]]()
            for name in sorted(counts):
                folded = unicodedata.normalize("NFKC", name).casefold()
                forms.setdefault(re.sub(r"[\s_-]+", "", folded), []).append(name)
            for same in forms.values():
                if len(same) > 1:
                    alike = ", ".join(f"{shown(name, names)} {counts[name]:,} times" for name in same)
                    yield f"{words} that look alike: {alike}", "if they are one, write or map them alike"
