"""Texts that stand in two files, and would leak from one into the other if one is for testing.

    leaks = Leaks(splits_in(folder))
    leaks.take(group)                  # documents of one text
    for what, remedy in leaks.found(): ...

Where the names of files tell what they are for, texts are counted for each two splits: those of both test and
validation let a round be chosen by what it is then tested on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SHOWN = 3
WORDS = {"test": "test", "valid": "validation", "train": "training"}
BOTH = ("test", "train"), ("test", "valid"), ("valid", "train")
REMEDY = "take them out of one, or set dedupe = true in [corpus]"


class Seen(Protocol):
    """A document's place."""

    @property
    def file(self) -> Path:
        """What was read as one."""

    @property
    def place(self) -> str:
        """File and line."""


@dataclass
class Leaks:
    """How many texts stand in which two, and where the first of them do."""

    splits: Mapping[str, Path]
    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)

    def take(self, group: Sequence[Seen]) -> None:
        """Documents of one text, in the order in which they came."""
        by_split: dict[str, list[Seen]] = {}
        for one in group:
            by_split.setdefault(self._split(one.file), []).append(one)
        for split, other in BOTH:
            for one in by_split.get(split, ()) if other in by_split else ():
                self._add(f"{WORDS[split]} texts that are also in {WORDS[other]}", one, by_split[other][0])
        for one in group[1:]:
            if one.file != group[0].file and not (self._split(one.file) and self._split(group[0].file)):
                self._add("texts that occur in two files", one, group[0])

    def found(self) -> Iterator[tuple[str, str]]:
        """Each with a remedy."""
        for what, count in self.counts.items():
            some = ", ".join(self.places[what]) + (", …" if count > SHOWN else "")
            known = what.startswith(tuple(WORDS.values()))
            yield f"{what}: {count:,} ({some})", REMEDY if known else f"if one is for testing, {REMEDY}"

    def _add(self, what: str, one: Seen, other: Seen) -> None:
        self.counts[what] += 1
        places = self.places.setdefault(what, [])
        places += [f"{one.place} = {other.place}"] * (len(places) < SHOWN)

    def _split(self, file: Path) -> str:
        return next((split for split, path in self.splits.items() if path in (file, *file.parents)), "")
