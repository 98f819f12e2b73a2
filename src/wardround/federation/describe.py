"""What a federation's data look like, for the run folder: sizes, labels by site, a fingerprint. No text."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from wardround.federation.partition import Raw
from wardround.federation.sites import Sites
from wardround.federation.units import patients_on_two_sides
from wardround.text.reading import Problems, near_digest
from wardround.text.shown import NOT_SHOWN, called, text_is_shown

PLACES = 3  # as many as a reader's findings name
MOST_SITES = 500  # to describe a site it must be opened; more would make the start slow


def describe(sites: Sites, task: Any = None) -> dict[str, Any]:
    """Examples per label, site and split, a hash of the examples themselves, and what is odd about them.

    A task that reads more into texts than labels (`survey`) says what there is, and what it found odd.
    Only a simulation can look at all sites like this.
    """
    if len(sites.names) > MOST_SITES:
        return {"count": len(sites.names), "sites": {}, "fingerprint": None}
    by_site: dict[str, dict[str, dict[str, int]]] = {}
    whole = hashlib.sha256()
    public = sites.public() if sites.public else None
    shared, odd, leaked = _Shared(public), Problems(), _Leaked()
    known = set(task.names()) if task else set()

    def labels(raw: Raw) -> dict[str, int]:
        counts = Counter[str]()
        for label, count in (task.survey(raw, odd) if task else Counter(raw.classes)).items():
            counts[_shown(str(label), known)] += count
        return dict(sorted(counts.items()))

    for name in sites.names:
        splits: dict[str, Raw] = dict(zip(("train", "test"), sites.raw(name), strict=True))
        splits |= {"valid": sites.valid(name)} if sites.valid else {}
        by_site[name] = {split: labels(raw) for split, raw in splits.items()}
        for split, word in (("train", "training"), ("valid", "validation")):
            if split in splits and not len(splits[split]):
                odd.at(f"site without {word} examples", name)
        for split, raw in splits.items():
            whole.update(raw.digest())
            shared.look(name, split, raw)
            leaked.look(name, split, raw)
        for (one, other), both in patients_on_two_sides(splits).items():
            odd.at(f"site with patients who have notes both to {one} and to {other} on", f"{name}: {both}")
    if public is not None:
        whole.update(public.digest())
    problems = [line for findings in (*sites.problems, odd) for line in str(findings).splitlines()]
    return {
        "count": len(sites.names),
        "sites": by_site,
        "fingerprint": whole.hexdigest(),
        "problems": [*leaked.elsewhere(problems), *shared.lines(), *leaked.lines()],
        "leaked": leaked.count("test", "train"),
        **(
            {"leaked_valid": leaked.count("valid", "train"), "test_in_valid": leaked.count("test", "valid")}
            if sites.valid
            else {}
        ),
        **({} if public is None else {"public": labels(public)}),
    }


def _shown(label: str, known: AbstractSet[str]) -> str:
    """A label, or several of one text, that the task knows; what else a test split may hold is not shown."""
    parts = label.split(" + ")
    return label if not known or label == "none" or known >= {*parts} or text_is_shown() else NOT_SHOWN


WORDS = {"train": "training", "valid": "validation", "test": "test"}


class _Leaked:
    """How many texts of a split stand in another, too, wherever; and the first few, with both places."""

    def __init__(self) -> None:
        self.places: dict[str, dict[bytes, list[str]]] = {split: {} for split in WORDS}

    def look(self, site: str, split: str, raw: Raw) -> None:
        """One site's split; what has no id that may be shown is counted off."""
        documents = getattr(raw, "documents", None)
        marks = [near_digest(document.text) for document in documents] if documents else raw.marks
        for row, mark in enumerate(marks):
            own = documents[row].id if documents else ""
            place = own if own and called(own) == own else f"example {row + 1} of {site}"
            self.places[split].setdefault(mark, []).append(place)

    def _both(self, split: str, other: str) -> list[bytes]:
        return [mark for mark in self.places[split] if mark in self.places[other]]

    def count(self, split: str, other: str) -> int:
        """The examples of a split whose text is in the other."""
        return sum(len(self.places[split][mark]) for mark in self._both(split, other))

    def elsewhere(self, problems: list[str]) -> list[str]:
        """The problems less what a reader of pairs says of the same texts, with one of the places."""
        told = self.count("test", "train") > 0
        return [line for line in problems if not (told and line.startswith("text also in test: "))]

    def lines(self) -> Iterator[str]:
        """That, and where the first few stand."""
        for split, other in (("test", "train"), ("valid", "train"), ("test", "valid")):
            count = self.count(split, other)
            if count:
                pairs = (
                    f"{self.places[split][mark][0]} = {self.places[other][mark][0]}"
                    for mark in self._both(split, other)[:PLACES]
                )
                whole = sum(map(len, self.places[split].values()))
                also = f"{WORDS[split]} text that is also in {WORDS[other]}"
                yield f"{also}: {count:,} of {whole:,} ({', '.join(pairs)})"


class _Shared:
    """How many examples of which site have the text of a public example: what is public should be news to a site."""

    def __init__(self, public: Raw | None) -> None:
        self.marks = set(public.marks) if public is not None else set()
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in WORDS}

    def look(self, site: str, split: str, raw: Raw) -> None:
        if self.marks and (count := sum(mark in self.marks for mark in raw.marks)):
            self.counts[split][site] = count

    def lines(self) -> Iterator[str]:
        for split, counts in self.counts.items():
            if counts:
                sites = ", ".join(f"{site}: {count}" for site, count in counts.most_common(PLACES))
                yield f"{split} examples with the text of a public example: {counts.total()} ({sites})"
