"""From a corpus to sites: as the corpus has them, cut anew by a partition, or pooled into one.

A federation opens one site at a time. A corpus with sites of its own (`names()`, `open(name)`) is a federation
as it stands, however many sites it has; a partition needs the examples in one place first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Annotated, Any, Protocol, Self, cast

import numpy as np
from annotated_types import Ge, Gt

from wardround.core.exchange import seeded
from wardround.core.site import HUB
from wardround.core.task import Examples, SiteData
from wardround.federation.partition import IntArray, by_source, dirichlet, iid
from wardround.federation.public import AT_HAND, Public, Withheld
from wardround.federation.readers import AsCorpus
from wardround.text.reading import Problems

__all__ = [
    "ByDirichlet",
    "ByLabel",
    "BySource",
    "Corpus",
    "Evenly",
    "Partition",
    "Raw",
    "federate",
    "pooled",
    "prepared",
    "thinned",
]


class Raw(Protocol):
    """Examples as a corpus gives them, before a task has made batches of them."""

    def __len__(self) -> int: ...

    @property
    def classes(self) -> Sequence[Any]:
        """The class of each example."""

    @property
    def sources(self) -> Sequence[str]:
        """Where each example comes from."""

    def take(self, rows: IntArray) -> Self:
        """The examples of these rows."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The examples of all parts, in order."""

    @property
    def marks(self) -> Sequence[bytes]:
        """For each example, what stands for its text: equal where that is equal, whatever the labels."""

    def digest(self) -> bytes:
        """A hash of the examples."""


class Corpus(Protocol):
    """Examples with sites of their own."""

    def names(self) -> Sequence[str]:
        """The sites, sorted."""

    def open(self, name: str) -> tuple[Any, Any]:
        """One site's training and test examples."""


class Partition(Protocol):
    """A rule that cuts pooled examples into sites."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows."""


def _numbered(parts: Sequence[IntArray]) -> dict[str, IntArray]:
    width = len(str(max(len(parts) - 1, 0)))
    return {f"site-{index:0{width}d}": rows for index, rows in enumerate(parts)}


@dataclass(frozen=True, kw_only=True)
class Evenly:
    """Shuffled and cut into equal parts (IID)."""

    sites: Annotated[int, Ge(1)]
    """How many sites there are."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows."""
        return _numbered(iid(len(examples), self.sites, rng))


@dataclass(frozen=True, kw_only=True)
class ByDirichlet:
    """Each class spread over the sites by proportions from Dirichlet(α): the smaller α, the more skewed."""

    sites: Annotated[int, Ge(1)]
    """How many sites there are."""
    alpha: Annotated[float, Gt(0)]
    """α: the smaller, the more the sites' shares of classes differ."""
    min_per_site: Annotated[int, Ge(0)] = 0
    """The cut is drawn again until each site has so many examples."""
    balanced: bool = False
    """Whether a site that has its even part of all examples gets no more."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows."""
        _, labels = np.unique(np.asarray(examples.classes), return_inverse=True)
        options = {"min_per_site": self.min_per_site, "balanced": self.balanced}
        return _numbered(dirichlet(labels, self.sites, self.alpha, rng, **options))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class BySource:
    """By where the examples come from (a corpus, a dialogue, a hospital), sources never split."""

    sites: Annotated[int, Ge(1)] | None = None
    """Group the sources into this many sites of similar size; without it, one site per source."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows."""
        return by_source(examples.sources, self.sites, rng)


@dataclass(frozen=True, kw_only=True)
class ByLabel:
    """One site per label, such as a department: each has a single class."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:  # noqa: ARG002 -- nothing is drawn
        """Each site's rows."""
        return by_source([str(label) for label in examples.classes])


class Sites:
    """A federation given by its names and a way to open one, and perhaps public examples.

    What is opened stays at hand, so that a corpus is read or generated once; of very many sites, that of the last ones.
    """

    def __init__(
        self,
        names: Sequence[str],
        opened: Callable[[str], tuple[Raw, Raw]],
        problems: Sequence[Problems] = (),
        public: Callable[[], Raw] | None = None,
    ) -> None:
        self.names, self.problems, self.public = tuple(sorted(names)), problems, public
        self.raw = lru_cache(maxsize=AT_HAND)(opened)

    def read(self) -> None:
        """Open every site now, for children of this process to share, unless there are too many to hold."""
        for name in self.names if len(self.names) <= AT_HAND else ():
            self.raw(name)


class _Cut:
    """A corpus pooled and cut anew, on first use."""

    def __init__(self, corpus: Corpus, partition: Partition, seed: int) -> None:
        self.corpus, self.partition, self.seed = corpus, partition, seed

    @cached_property
    def parts(self) -> dict[str, tuple[Raw, Raw]]:
        train, test = _pool(self.corpus)
        if isinstance(self.partition, BySource) and self.partition.sites is None:
            self.corpus.names()  # an error if a source cannot name a site
        rng = np.random.default_rng([self.seed, 0])
        rows = self.partition.cut(train, rng)
        tests = self._tests(test, sorted(rows), rng)
        return {name: (train.take(rows[name]), test.take(tests[name])) for name in sorted(rows)}

    def _tests(self, test: Raw, names: list[str], rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's test rows: its own sources' or labels' where those make the sites, otherwise dealt evenly.

        Sums over sites are sums over the whole test set either way. Bags are figured by the pair, so each pair's
        sentences are dealt together, whatever makes the sites.
        """
        if (wholes := getattr(test, "wholes", None)) is not None:
            groups = list(by_source(wholes).values())
            dealt = iid(len(groups), len(names), rng)
            return {
                name: np.sort(np.concatenate([np.empty(0, np.int64), *(groups[group] for group in mine)]))
                for name, mine in zip(names, dealt, strict=True)
            }
        if not isinstance(self.partition, BySource | ByLabel):
            return dict(zip(names, iid(len(test), len(names), rng), strict=True))
        try:
            found = self.partition.cut(test, rng)
        except ValueError:  # fewer sources than sites: each goes to one
            found = BySource().cut(test, rng)
        own = {name: [found.pop(name)] if name in found else [] for name in names}
        for index, name in enumerate(sorted(found)):  # sources that no site trains on
            own[names[index % len(names)]].append(found[name])
        return {name: np.sort(np.concatenate([np.empty(0, np.int64), *parts])) for name, parts in own.items()}


def opened(chosen: Any) -> Corpus:
    """A corpus as it is, or a reader with each of its sources as a site."""
    return cast("Corpus", chosen) if hasattr(chosen, "names") else AsCorpus(chosen)


def federate(corpus: Corpus, partition: Partition | None, seed: int, public: Public | None = None) -> Sites:
    """The corpus's own sites, or those that the partition makes, the same for the same seed."""
    read, shared = [corpus], None
    if public and public.fraction:
        corpus = withheld = Withheld(corpus, public.fraction, seed)
        shared = cache(withheld.public)
    elif public:
        other = opened(public.corpus)
        read, shared = [*read, other], cache(lambda: _train(other))
    problems = [found for one in read if (found := getattr(one, "problems", None)) is not None]
    if partition is None:
        return Sites(corpus.names(), corpus.open, problems, shared)
    cut = _Cut(corpus, partition, seed)
    return Sites(list(cut.parts), cut.parts.__getitem__, problems, shared)


def thinned(sites: Sites, share: float, seed: int) -> Sites:
    """The same sites with this share of their training examples, at least one of each site's; tests stay whole."""

    def opened(name: str) -> tuple[Raw, Raw]:
        train, test = sites.raw(name)
        rng = np.random.default_rng(seeded(seed, name, "share"))
        kept = min(len(train), max(round(len(train) * share), 1))
        return train.take(np.sort(rng.choice(len(train), kept, replace=False))), test

    return Sites(sites.names, opened, sites.problems, sites.public)


def pooled(sites: Sites) -> Sites:
    """All sites' examples in one place: what no federation has, and every study compares with."""
    return Sites(["pooled"], lambda _: _join([sites.raw(name) for name in sites.names]), public=sites.public)


class Prepared:
    """A federation whose examples a task has made ready, with the public ones if they are wanted."""

    def __init__(self, sites: Sites, task: Any, private: tuple[str, ...], *, public: bool) -> None:
        self.names, self._raw, self._task, self._private = sites.names, sites.raw, task, private
        self._public = sites.public if public else None
        self._tasks: dict[str, Any] = {}

    @cached_property
    def public(self) -> Examples | None:
        """The public examples, the same for all."""
        found: Examples | None = self._task.examples(self._public()) if self._public else None
        return found

    def open(self, name: str) -> SiteData:
        """One site's data as the task takes them; the coordinator has the public examples and nothing else."""
        if name == HUB:
            if self.public is None:
                raise ValueError("the coordinator has no examples; add [public] to the study")
            return SiteData(self.public, self.public, public=self.public)
        train, test = self._raw(name)
        ready: Callable[[Raw], Examples] = (self.task(name) or self._task).examples
        return SiteData(ready(train), ready(test), public=self.public)

    def task(self, name: str) -> Any:
        """The task as this site has it (`at`)."""
        if name not in self.names:
            return None
        if name not in self._tasks:
            self._tasks[name] = self._task.at(name, lambda: self._raw(name)[0], self._private)
        return self._tasks[name]


def prepared(sites: Sites, task: Any, private: tuple[str, ...] = (), *, public: bool = False) -> Prepared:
    """The same sites with data as the task takes them."""
    return Prepared(sites, task, private, public=public)


def _train(corpus: Corpus) -> Raw:
    if isinstance(corpus, AsCorpus):
        return corpus.split("train")
    parts: list[Raw] = [corpus.open(name)[0] for name in corpus.names()]
    return type(parts[0]).joined(parts)


def _pool(corpus: Corpus) -> tuple[Raw, Raw]:
    if isinstance(corpus, AsCorpus):
        return corpus.pool()
    return _join([corpus.open(name) for name in corpus.names()])


def _join(parts: Sequence[tuple[Raw, Raw]]) -> tuple[Raw, Raw]:
    kind = type(parts[0][0])
    return kind.joined([train for train, _ in parts]), kind.joined([test for _, test in parts])
