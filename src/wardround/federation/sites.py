"""Sites with data: as a corpus has them, cut anew by a partition, thinned, or pooled into one.

    sites = federate(opened(corpus), partition, seed=0)
    train, test = sites.raw(sites.names[0])

`Sites` is the one type, and each function makes other sites of some. They are opened one at a time. A corpus with sites
of its own (`names()`, `open(name)`) is a federation as it stands, however many sites it has; a reader (`labels`,
`documents(split)`) has a site per source of its documents. A partition needs the examples in one place first.

Public examples are labelled, for every party to see, and in no site's training data:

    [public]
    fraction = 0.2          # of the training examples, drawn by the seed before they are cut into sites

    [public.corpus]         # or examples of their own: the training split of any corpus
    format = "jsonl"
    train = "public.jsonl"

Methods that need them (FedED) say so. With any other they are nobody's: a drawn fraction is missing from every site
all the same, and from what centralised training pools, so that all methods of a grid train on the same examples.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np

from wardround.core.exchange import seeded
from wardround.federation.partition import (
    ByLabel,
    BySource,
    IntArray,
    Partition,
    Public,
    Raw,
    WithinSource,
    by_source,
    iid,
)
from wardround.text.document import Document
from wardround.text.reading import Problems, near_digest
from wardround.text.shown import called, named_sources, note_of, occurring
from wardround.text.texts import Texts

AT_HAND = 128  # sites whose examples are held: the usual hundred; more would grow with the federation

Both = tuple[Raw, Raw]


@dataclass(frozen=True, eq=False)
class Sites:
    """Sites given by their names and a way to open one, perhaps with public examples.

    What is opened stays at hand, so that a corpus is read or generated once; of very many sites, that of the last ones.
    """

    listed: Iterable[str] | Callable[[], Iterable[str]]
    """Their names, or a way to find out when they are needed."""
    opened: Callable[[str], Both]
    problems: tuple[Problems, ...] = ()
    public: Callable[[], Raw] | None = None
    corpus: Any = None
    """What they were made from."""
    split: Callable[[str], Texts] | None = None
    """All documents of a split in the order of the files, as a reader has them."""
    tried: Callable[[str], Raw] | None = None
    """One site's validation examples, if any are wanted and there are some."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The sites, sorted."""
        return tuple(sorted(self.listed() if callable(self.listed) else self.listed))

    @cached_property
    def raw(self) -> Callable[[str], Both]:
        """One site's training and test examples."""
        return lru_cache(maxsize=AT_HAND)(self.opened)

    @cached_property
    def valid(self) -> Callable[[str], Raw] | None:
        """The same of its validation examples."""
        return lru_cache(maxsize=AT_HAND)(self.tried) if self.tried else None

    def read(self) -> None:
        """Open every site now, for children of this process to share, unless there are too many to hold."""
        for name in self.names if len(self.names) <= AT_HAND else ():
            self.raw(name)
            if self.valid:
                self.valid(name)

    def train(self) -> Raw:
        """All training examples, in the order of the corpus."""
        return self.split("train") if self.split else _joined([self.raw(name)[0] for name in self.names])

    def pool(self) -> Both:
        """All training and all test examples, in the order of the corpus."""
        if self.split:
            return self.split("train"), self.split("test")
        return _join(self)

    @property
    def about(self) -> Any:
        """What a task is bound to: a corpus with sites of its own, otherwise these with their labels."""
        return self.corpus if hasattr(self.corpus, "names") else self

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels that the reader knows, or those that occur in training."""
        if known := tuple(self.corpus.labels):
            return known
        known = self._occurring("labels", lambda document: document.labels, _where(self.corpus, "label"))
        read = self.split
        for split in ("valid", "test") if self.tried else ("test",):
            new = [one for one in read(split).documents if not {*one.labels} <= {*known}] if read else []
            if new:
                raise ValueError(
                    f"{len(new)} {split} texts have a label that no training text has, "
                    f"the first with the id {called(new[0].id)}; "
                    "declare all labels (labels = […] in [corpus]) to have them counted as wrong, or take them out"
                )
        return known

    @property
    def negative(self) -> str:
        """The label of documents in which there is nothing of interest, if the reader says so."""
        label: str = getattr(self.corpus, "negative", "")
        return label if label in self.labels else ""

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The entity types that the reader knows, or those that occur in training."""
        known = tuple(getattr(self.corpus, "types", ()))
        return known or self._occurring("types", lambda document: [entity.type for entity in document.entities])

    def _occurring(
        self, what: str, names: Callable[[Document], Sequence[str]], place: Callable[[str], str] | None = None
    ) -> tuple[str, ...]:
        """The names that occur in training; an error if some are no names (see `shown`)."""
        train, test = (part.documents for part in self.pool() if isinstance(part, Texts))
        return occurring(what, what, [(names(d), d.id) for d in train], [n for d in test for n in names(d)], place)


@dataclass(frozen=True)
class Declared:
    """What a study alone says of a reader's texts, which are at the sites: not a line of a file is looked at."""

    labels: tuple[str, ...]
    types: tuple[str, ...]
    negative: str

    @classmethod
    def by(cls, reader: Any) -> "Declared":
        """The names in a reader's settings; for bags, which know those of their facts, the study's relations."""
        labels = tuple(reader.declared if hasattr(reader, "declared") else reader.labels)
        negative = getattr(reader, "negative", "")
        return cls(labels, tuple(getattr(reader, "types", ())), negative if negative in labels else "")


def opened(corpus: Any, *, valid: bool = False) -> Sites:
    """A corpus's own sites, or those of a reader, a site per source; with its validation split only if it is wanted."""
    if hasattr(corpus, "names"):
        problems, tried = getattr(corpus, "problems", None), getattr(corpus, "validation", None) if valid else None
        return Sites(corpus.names, corpus.open, () if problems is None else (problems,), corpus=corpus, tried=tried)
    problems = Problems()
    splits: tuple[str, ...] = ("train", "test")
    if valid and "valid" in getattr(corpus, "splits", ()):
        splits = (*splits, "valid")

    @cache
    def split(name: str) -> Texts:
        documents = corpus.documents(name, problems)
        rank = ("train", "valid", "test")  # `dedupe` keeps the texts of a later one out
        for other in rank[rank.index(name) + 1 :] if getattr(corpus, "dedupe", False) else ():
            if other in splits:
                documents = _apart(
                    documents, other, {near_digest(one.text) for one in split(other).documents}, problems
                )
        return Texts(tuple(documents))

    return _by_source(corpus, splits, split, problems)


def _by_source(corpus: Any, splits: tuple[str, ...], split: Callable[[str], Texts], problems: Problems) -> Sites:
    """A site per source of the documents in these splits."""

    @cache
    def by_name() -> dict[str, tuple[Texts, ...]]:
        parts: dict[str, tuple[list[Document], ...]] = {}
        for index, name in enumerate(splits):
            for document in split(name).documents:
                parts.setdefault(document.source or "all", tuple([] for _ in splits))[index].append(document)
        return {name: tuple(Texts(tuple(part)) for part in mine) for name, mine in parts.items()}

    def names() -> Iterable[str]:
        if not getattr(corpus, "sources_are_files", False):
            _check_sources(corpus, [document for name in splits for document in split(name).documents])
        return by_name()

    def both(name: str) -> Both:
        train, test, *_ = by_name()[name]
        return train, test

    tried = (lambda name: by_name()[name][2]) if "valid" in splits else None
    return Sites(names, both, (problems,), corpus=corpus, split=split, tried=tried)


def _where(reader: Any, meaning: str) -> Callable[[str], str] | None:
    """How to say in which line and column the document of an id stands, if the reader knows."""
    place: Callable[[str, str], str] | None = getattr(reader, "where", None)
    return partial(place, meaning) if place else None


def _apart(documents: Iterable[Document], other: str, marks: set[bytes], problems: Problems) -> Iterator[Document]:
    """Those of which another split does not have the text; the others are counted."""
    for document in documents:
        if near_digest(document.text) in marks:
            problems.at(f"text also in {other}, dropped", called(document.id))
        else:
            yield document


def _check_sources(reader: Any, documents: Sequence[Document]) -> None:
    """An error if a source cannot name a site."""
    splits = [getattr(reader, split, "") for split in ("train", "test", "valid")]
    files = [name for split in splits if isinstance(split, dict) for name in split]
    # What nobody gave a source has its note's id for one.
    ids = {d.source for d in documents if d.id.startswith(f"{d.source}:")}
    notes = {(d.source, note_of(d.id)): d.id for d in documents}
    named_sources([(source, id_) for (source, _), id_ in notes.items()], ids, files, _where(reader, "source"))


def federate(sites: Sites, partition: Partition | None, seed: int, public: Public | None = None) -> Sites:
    """The corpus's own sites, or those that the partition makes, the same for the same seed."""
    if public and public.fraction:
        sites = _withheld(sites, public, public.fraction, seed)
    elif public:
        other = opened(public.corpus)
        sites = replace(sites, opened=sites.raw, problems=(*sites.problems, *other.problems), public=cache(other.train))
    return sites if partition is None else _cut(sites, partition, seed)


def _withheld(sites: Sites, public: Public, fraction: float, seed: int) -> Sites:
    """The sites less a share of their training examples, drawn over all of them, each of which is opened for it."""
    sizes = [len(sites.raw(name)[0]) for name in sites.names]
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    count = round(fraction * total)
    if not 0 < count < total:
        raise ValueError(
            f"public.fraction = {fraction} takes {count} of {total} training examples; it should take some and "
            f"leave some"
        )
    rng = np.random.default_rng([seed, 1])  # the cut draws from 0
    rows = public.drawn([sites.raw(name)[0] for name in sites.names], count, rng)
    parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
    drawn = {name: part - start for name, part, start in zip(sites.names, parts, ends - sizes, strict=True)}

    def opened(name: str) -> Both:
        train, test = sites.raw(name)
        return train.take(np.delete(np.arange(len(train)), drawn[name])), test

    shown = cache(lambda: _joined([sites.raw(name)[0].take(rows) for name, rows in drawn.items() if len(rows)]))
    return replace(sites, opened=opened, public=shown, split=None)


def _cut(sites: Sites, partition: Partition, seed: int) -> Sites:
    """The sites' examples pooled and cut anew."""
    if isinstance(partition, WithinSource) or (isinstance(partition, BySource) and partition.sites is None):
        _ = sites.names  # an error if a source cannot name a site
    rng = np.random.default_rng([seed, 0])
    if isinstance(partition, WithinSource):
        return _within(sites, partition, rng)
    train, test = sites.pool()
    rows = partition.cut(train, rng)
    tests = _tests(test, partition, sorted(rows), rng)
    parts = {name: (train.take(rows[name]), test.take(tests[name])) for name in sorted(rows)}
    tried = None
    if sites.valid:
        valid = sites.split("valid") if sites.split else _joined([sites.valid(name) for name in sites.names])
        dealt = _tests(valid, partition, sorted(rows), rng)
        tried = {name: valid.take(dealt[name]) for name in dealt}.__getitem__
    return replace(sites, listed=parts, opened=parts.__getitem__, split=None, tried=tried)


def _within(sites: Sites, partition: WithinSource, rng: np.random.Generator) -> Sites:
    """Drawn training sources, each tested on a share of its own."""
    train = sites.train()
    parts = {}
    for name, rows in partition.cut(train, rng).items():
        aside = partition.aside(len(rows), rng)
        parts[name] = (train.take(rows[~aside]), train.take(rows[aside]))
    return replace(sites, listed=parts, opened=parts.__getitem__, split=None, tried=None)


def _tests(test: Raw, partition: Partition, names: list[str], rng: np.random.Generator) -> dict[str, IntArray]:
    """Each site's test rows: its own sources' or labels' where those make the sites; without a source, dealt evenly.

    Sums over sites are sums over the whole test set either way. Bags are figured by the pair, so each pair's
    sentences are dealt together, whatever makes the sites.
    """
    own: dict[str, list[IntArray]]
    if (wholes := getattr(test, "wholes", None)) is not None:
        groups = list(by_source(wholes).values())
        dealt = iid(len(groups), len(names), rng)
        own = {name: [groups[group] for group in mine] for name, mine in zip(names, dealt, strict=True)}
    elif not isinstance(partition, BySource | ByLabel):
        own = {name: [rows] for name, rows in zip(names, iid(len(test), len(names), rng), strict=True)}
    else:
        has = np.ones(len(test), bool) if isinstance(partition, ByLabel) else np.array([*map(bool, test.sources)], bool)
        rows, homeless = np.flatnonzero(has), np.flatnonzero(~has)
        own = {name: [homeless[some]] for name, some in zip(names, iid(len(homeless), len(names), rng), strict=True)}
        try:
            groups_of = partition.cut(test.take(rows), rng) if len(rows) else {}
        except ValueError:  # fewer sources than sites: each goes to one
            groups_of = BySource().cut(test.take(rows), rng)
        for name in names:
            own[name] += [rows[groups_of.pop(name)]] if name in groups_of else []
        for index, name in enumerate(sorted(groups_of)):  # sources that no site trains on
            own[names[index % len(names)]].append(rows[groups_of[name]])
    return {name: np.sort(np.concatenate([np.empty(0, np.int64), *parts])) for name, parts in own.items()}


def thinned(sites: Sites, share: float, seed: int) -> Sites:
    """The same sites with this share of their training examples, at least one of each site's; tests stay whole."""

    def opened(name: str) -> Both:
        train, test = sites.raw(name)
        rng = np.random.default_rng(seeded(seed, name, "share"))
        kept = min(len(train), max(round(len(train) * share), 1))
        return train.take(np.sort(rng.choice(len(train), kept, replace=False))), test

    return replace(sites, opened=opened, split=None)


def pooled(sites: Sites) -> Sites:
    """All sites' examples in one place: what no federation has, and every study compares with."""
    valid = sites.valid
    tried = (lambda _: _joined([valid(name) for name in sites.names])) if valid else None
    return replace(sites, listed=["pooled"], opened=lambda _: _join(sites), split=None, tried=tried)


def _join(sites: Sites) -> Both:
    parts = [sites.raw(name) for name in sites.names]
    return _joined([train for train, _ in parts]), _joined([test for _, test in parts])


def _joined(parts: Sequence[Raw]) -> Raw:
    return type(parts[0]).joined(parts)
