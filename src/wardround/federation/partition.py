"""Cuts a corpus into sites: evenly, by label skew, or along its sources.

    rng = np.random.default_rng(0)
    for indices in dirichlet(labels, sites=10, alpha=0.5, rng=rng): ...

Each function answers with indices into the corpus, ascending within a site. Every index is at exactly one
site; the same arguments and the same state of `rng` give the same cut.

A study names one of the rules below (`Evenly`, `ByDirichlet`, …), which cut whatever is `Raw`.

Label skew by Dirichlet draws is the FedCMC paper's section 4.1. Its balanced variant is NIID-Bench (Li et
al., "Federated Learning on Non-IID Data Silos", ICDE 2022); a legacy `RandomState` reproduces that code's
cuts index for index.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, Self, cast

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Lt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.RandomState

DRAWS = 1000


def iid(count: int, sites: int, rng: Rng) -> list[IntArray]:
    """Shuffles and cuts evenly: sizes differ by at most one, so more sites than examples leave some empty."""
    _at_least(0, "count", count)
    _at_least(1, "sites", sites)
    shuffled = rng.permutation(np.arange(count, dtype=np.int64))
    return [np.sort(part) for part in np.array_split(shuffled, sites)]


def held_out(keys: Sequence[str], share: float, rng: Rng) -> npt.NDArray[np.bool_]:
    """Whether each example is set aside for testing: this share of the keys, all examples of a key together."""
    known, numbers = np.unique(np.asarray(keys, dtype=object).astype(str), return_inverse=True)
    aside = np.zeros(len(known), dtype=bool)
    aside[rng.permutation(len(known))[: round(share * len(known))]] = True
    return cast("npt.NDArray[np.bool_]", aside[numbers])


def dirichlet(
    labels: npt.ArrayLike, sites: int, alpha: float, rng: Rng, *, min_per_site: int = 0, balanced: bool = False
) -> list[IntArray]:
    """Deals out each class in proportions from Dirichlet(α): the smaller `alpha`, the stronger the skew.

    `balanced` gives no more to a site that already holds its even part of the corpus. `min_per_site` draws
    the whole cut again until each site holds that many.
    """
    _at_least(1, "sites", sites)
    _at_least(0, "min_per_site", min_per_site)
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha is {alpha}: use a finite number above 0, such as 0.5")
    classes, coded = np.unique(np.asarray(labels), return_inverse=True)
    if min_per_site * sites > len(coded):
        raise ValueError(
            f"min_per_site is {min_per_site}, but {len(coded)} examples cannot give that many to each of "
            f"{sites} sites: lower min_per_site or use fewer sites"
        )
    members = _groups(coded, len(classes))
    below = np.arange(0)
    for _ in range(DRAWS):
        # NIID-Bench's order of draws: per class the shuffle, then the proportions.
        dealt = [(rng.permutation(indices), _shares(alpha, sites, rng)) for indices in members]
        owners = _owners(dealt, sites, balanced=balanced)
        below = np.flatnonzero(np.bincount(owners, minlength=sites) < min_per_site)
        if not below.size:
            return _groups(owners, sites)
    named = ", ".join(map(str, below[:10])) + (", …" if below.size > 10 else "")
    raise ValueError(
        f"after {DRAWS} draws {below.size} of {sites} sites are still below min_per_site={min_per_site} "
        f"(sites {named}): raise alpha (now {alpha}), lower min_per_site or use fewer sites"
    )


def cut(labels: npt.ArrayLike, proportions: npt.ArrayLike, *, balanced: bool = False) -> list[IntArray]:
    """The cut that given proportions [class, site] make of labels 0, 1, …: nothing is drawn or shuffled."""
    coded = np.asarray(labels, dtype=np.int64)
    shares = np.asarray(proportions, dtype=np.float64)
    if shares.ndim != 2 or not shares.shape[1]:
        raise ValueError(f"proportions have the shape {shares.shape}: give a row per class, a column per site")
    if not (np.all(shares >= 0) and np.allclose(shares.sum(axis=1), 1)):
        raise ValueError(f"proportions are {shares.tolist()}: each row needs shares from 0 that add up to 1")
    if coded.size and not 0 <= coded.min() <= coded.max() < len(shares):
        raise ValueError(
            f"labels run from {coded.min()} to {coded.max()}, proportions have {len(shares)} rows: "
            "number the classes from 0 and give each a row"
        )
    dealt = list(zip(_groups(coded, len(shares)), shares, strict=True))
    return _groups(_owners(dealt, shares.shape[1], balanced=balanced), shares.shape[1])


def by_source(sources: Sequence[str], sites: int | None = None, rng: Rng | None = None) -> dict[str, IntArray]:
    """One site per source and named by it, or whole sources gathered into `sites` of similar size.

    Gathering takes the largest source first, each onto the smallest site so far. Equal sources go by first
    appearance, or by chance with an `rng`.
    """
    if "" in sources:
        many, first = list(sources).count(""), list(sources).index("") + 1
        raise ValueError(
            f"{many:,} of {len(sources):,} training examples name no source, the first is number {first:,}; say where "
            'each comes from, or set name = "iid" and sites = 3 in [partition]'
        )
    codes = {source: code for code, source in enumerate(dict.fromkeys(sources))}
    coded = np.array([codes[source] for source in sources], dtype=np.int64)
    if sites is None:
        return dict(zip(codes, _groups(coded, len(codes)), strict=True))
    _at_least(1, "sites", sites)
    if sites > len(codes):
        raise ValueError(f"sites is {sites}, but there are {len(codes)} sources and none is split: use fewer sites")
    sizes = np.bincount(coded, minlength=len(codes))
    queue = np.arange(len(codes)) if rng is None else rng.permutation(len(codes))
    smallest = [(0, site) for site in range(sites)]
    site_of = np.empty(len(codes), dtype=np.int64)
    for source in queue[np.argsort(-sizes[queue], kind="stable")]:
        held, site = smallest[0]
        site_of[source] = site
        heapq.heapreplace(smallest, (held + int(sizes[source]), site))
    width = max(3, len(str(sites - 1)))
    return {f"site-{k:0{width}}": part for k, part in enumerate(_groups(site_of[coded], sites))}


def _shares(alpha: float, sites: int, rng: Rng) -> FloatArray:
    shares = rng.dirichlet(np.full(sites, alpha))
    if not math.isclose(shares.sum(), 1, rel_tol=1e-6):  # RandomState's gammas underflow below about 1e-3
        raise ValueError(
            f"alpha is {alpha}, out of reach of {type(rng).__name__}: use numpy.random.default_rng "
            "or an alpha nearer to 1"
        )
    return shares


def _owners(dealt: Sequence[tuple[IntArray, FloatArray]], sites: int, *, balanced: bool) -> IntArray:
    """The site of each index, given each class's indices and its shares per site."""
    total = sum(len(indices) for indices, _ in dealt)
    owners = np.empty(total, dtype=np.int64)
    held = np.zeros(sites, dtype=np.int64)
    for indices, drawn in dealt:
        if not len(indices):
            continue
        shares = _to_open(drawn, held * sites < total) if balanced else drawn
        bounds = np.floor(np.cumsum(shares) * len(indices))[:-1]
        owners[indices] = np.searchsorted(bounds, np.arange(len(indices)), side="right")
        held += np.bincount(owners[indices], minlength=sites)
    return owners


def _to_open(shares: FloatArray, is_open: npt.NDArray[np.bool_]) -> FloatArray:
    kept: FloatArray = shares * is_open
    # A tiny alpha can leave the open sites nothing, which NIID-Bench divides by: they then share evenly.
    kept = kept if kept.any() else is_open.astype(np.float64)
    return kept / float(kept.sum())


def _groups(codes: IntArray, count: int) -> list[IntArray]:
    """The positions that hold 0, 1, … `count` - 1, each group ascending."""
    ends = np.cumsum(np.bincount(codes, minlength=count))
    return np.split(np.argsort(codes, kind="stable"), ends)[:-1]


def _at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}: use {least} or more")


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


class Partition(Protocol):
    """A rule that cuts pooled examples into sites."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows."""


@dataclass(frozen=True)
class Public:
    """Where public examples come from: a share of the training examples, or a corpus."""

    fraction: float | None = None
    corpus: Any = None
    patients: bool = False
    """Whether all notes of a patient are drawn or none."""

    def drawn(self, parts: Sequence[Raw], count: int, rng: np.random.Generator) -> IntArray:
        """The rows, over all sites, of so many examples; or of patients until there are so many, somebody staying."""
        total = sum(map(len, parts))
        if not self.patients:
            return np.sort(rng.choice(total, count, replace=False))
        documents = [document for part in parts for document in getattr(part, "documents", [None] * len(part))]
        # One who is not named stands alone here, and is refused where units are told apart.
        names = [getattr(document, "whom", "") or f"\0{row}" for row, document in enumerate(documents)]
        _, owner, many = np.unique(names, return_inverse=True, return_counts=True)
        order = rng.permutation(len(many))
        taken = order[: int(np.searchsorted(np.cumsum(many[order]), count)) + 1][: len(many) - 1]
        return np.flatnonzero(np.isin(owner, taken))


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
    """The cut is drawn again until each site has at least this many examples."""
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
class WithinSource:
    """Some of the training sources, drawn by the seed: each is a site and keeps a share of its examples for testing.

    The corpus's own validation and test examples are left out: every site is tested on what it knows best, as a
    dialogue is on its own sentences in the FLCMC paper.
    """

    sites: Annotated[int, Ge(1)]
    """How many sources are drawn."""
    test: Annotated[float, Gt(0), Lt(1)] = 0.1
    """The share of a source's examples that is set aside for testing, at least one; sources of one are not drawn."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows, to train and to test on."""
        sources = {name: rows for name, rows in by_source(examples.sources).items() if len(rows) > 1}
        if self.sites > len(sources):
            raise ValueError(
                f"sites is {self.sites}, but {len(sources)} sources have two examples or more: use fewer sites"
            )
        names = sorted(sources)
        return {names[at]: sources[names[at]] for at in sorted(rng.choice(len(names), self.sites, replace=False))}

    def aside(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Which of a site's examples it is tested on."""
        testing = np.zeros(count, dtype=bool)
        testing[rng.permutation(count)[: min(max(round(self.test * count), 1), count - 1)]] = True
        return testing


@dataclass(frozen=True, kw_only=True)
class ByLabel:
    """One site per label, such as a department: each has a single class."""

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:  # noqa: ARG002 -- nothing is drawn
        """Each site's rows."""
        return by_source([str(label) for label in examples.classes])
